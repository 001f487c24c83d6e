//===- CorrectedScales.cpp - ONNX nodes that correct scales ---------------===//
// The rule `rounded_eden`. Sums have nodes of their own for each addition,
// because ReduceSum does not define its order.
//===----------------------------------------------------------------------===//

#include "Codes.h"
#include "Rounding.h"
#include "binade/IR/CorrectedBlocks.h"
#include <limits>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

std::string Codes::correctScales(const std::string &x, const Factors &factors,
                                 const std::string &tensor,
                                 const std::string &random) {
  CorrectedBlocks blocks(format, scaleShape);
  std::string codes = encode(x, factors, /*saturate=*/true, "");
  std::string rounded =
      w.add("Mul", {arrange(decode(codes)), spread(factors.scale)});
  std::string exact = w.add("Mul", {arrange(x), chooseTensorFactor(tensor)});
  auto addUp = [&](const std::string &factor) {
    std::string sum = addInOrder(w.add("Mul", {exact, factor}));
    sum = w.reshape(sum, blocks.getFlat());
    if (blocks.getPadded() != blocks.getFlat())
      sum = w.add(
          "Pad",
          {sum, w.addInts({0, 0, 0, 0,
                           blocks.groups * blocks.size - blocks.count, 0})});
    return addHalves(w.reshape(sum, blocks.getArranged()), blocks.getArranged(),
                     CorrectedBlocks::kBlockAxis);
  };
  std::string quotient = w.add("Div", {addUp(exact), addUp(rounded)});
  std::string isFinite = w.add(
      "LessOrEqual", {quotient, w.addFloat(std::numeric_limits<float>::max())});
  std::string correction =
      w.add("Where", {isFinite, quotient, w.addFloat(1.0)});
  correction = w.add("Expand", {correction, w.addInts(blocks.getArranged())});
  correction = w.reshape(correction, blocks.getPadded());
  if (blocks.getPadded() != blocks.getFlat())
    correction = w.slice(correction, {0, 0, 0}, blocks.getFlat());
  std::string scale =
      w.add("Mul", {factors.scale, w.reshape(correction, scaleShape)});
  FloatType stored = format.getScale();
  return roundTo(w, limit(scale, mlir::binade::getLargest(stored)), stored,
                 random);
}
