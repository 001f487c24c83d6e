//===- BetterScales.cpp - ONNX nodes that compare two scales --------------===//
// The rule `rounded_four_six`. Sums have nodes of their own for each addition,
// because ReduceSum does not define its order.
//===----------------------------------------------------------------------===//

#include "Codes.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// Returns the squared errors of the elements, arranged in blocks.
std::string Codes::findSquares(const std::string &x, const Factors &factors,
                               const std::string &tensor) {
  std::string codes = encode(x, factors, /*saturate=*/true, "");
  std::string back =
      w.add("Mul", {arrange(decode(codes)), spread(factors.scale)});
  back = w.add("Mul", {back, tensor});
  back = w.add("Div", {back, w.addFloat(format.getTensorPeak())});
  std::string difference = w.add("Sub", {back, arrange(x)});
  return w.add("Mul", {difference, difference});
}

/// Adds the second half of the elements along `axis` to the first half, until
/// one is left.
std::string Codes::addHalves(std::string x, SmallVector<int64_t> now,
                             int64_t axis) {
  while (now[axis] > 1) {
    int64_t half = llvm::PowerOf2Ceil(now[axis]) / 2;
    SmallVector<int64_t> starts(now.size(), 0), ends(now);
    ends[axis] = half;
    std::string low = w.slice(x, starts, ends);
    starts[axis] = half;
    ends[axis] = now[axis];
    std::string high = w.slice(x, starts, ends);
    if (now[axis] < 2 * half) {
      SmallVector<int64_t> pads(2 * now.size(), 0);
      pads[now.size() + axis] = 2 * half - now[axis];
      high = w.add("Pad", {high, w.addInts(pads)});
    }
    x = w.add("Add", {low, high});
    now[axis] = half;
  }
  return x;
}

/// Adds arranged elements in the order that the rule defines.
std::string Codes::addInOrder(std::string x) {
  if (sharedAxes.empty())
    return x; // A scalar is a block.
  SmallVector<int64_t> now(arranged);
  auto take = [&](int64_t axis, int64_t first, int64_t end) {
    SmallVector<int64_t> starts(now.size(), 0), ends(now);
    starts[axis] = first;
    ends[axis] = end;
    return first == 0 && end == now[axis] ? x : w.slice(x, starts, ends);
  };
  auto addAlong = [&](int64_t axis) {
    std::string sum = take(axis, 0, 1);
    for (int64_t i = 1; i < now[axis]; ++i)
      sum = w.add("Add", {sum, take(axis, i, i + 1)});
    now[axis] = 1;
    x = sum;
  };
  addAlong(sharedAxes.back());
  if (sharedAxes.size() > 1 && format.getExtent()[1] == 1)
    addAlong(sharedAxes.front());
  else if (sharedAxes.size() > 1)
    x = addHalves(x, now, sharedAxes.front());
  return w.reshape(x, scaleShape);
}

Codes::Factors Codes::chooseBetter(const std::string &x,
                                   const std::string &largest,
                                   const std::string &tensor) {
  std::string tensorFactor = chooseTensorFactor(tensor);
  std::string unit = w.add("Div", {largest, w.addFloat(format.getLargest())});
  unit = w.add("Mul", {unit, tensorFactor});
  FloatType stored = format.getScale();
  Factors better;
  std::string error;
  for (double stretch : QuantizedAttr::kStretches) {
    Factors tried;
    tried.tensorScale = w.add("Div", {w.addFloat(1.0), tensorFactor});
    std::string exact = w.add("Mul", {unit, w.addFloat(stretch)});
    exact = limit(exact, mlir::binade::getLargest(stored));
    tried.scale = w.cast(w.cast(exact, stored), w.b.getF32Type());
    tried.factor = invert(tried);
    std::string found = addInOrder(findSquares(x, tried, tensor));
    if (error.empty()) {
      better = tried;
      error = found;
      continue;
    }
    std::string isBetter = w.add("Less", {found, error});
    for (auto [part, other] : {std::pair(&better.scale, &tried.scale),
                               std::pair(&better.factor, &tried.factor)})
      *part = w.add("Where", {isBetter, *other, *part});
  }
  return better;
}
