//===- Taps.cpp - Interpolation between elements --------------------------===//

#include "Taps.h"
#include "Arithmetic.h"
#include "Indexing.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

Tap mlir::binade::importer::makeTap(ImplicitLocOpBuilder &b, Value at,
                                    Value weight, int64_t length,
                                    bool isZeroOutside) {
  Arithmetic a(b, at);
  double last = static_cast<double>(length) - 1.0;
  Value inside = a.min(a.max(at, 0.0), last);
  if (isZeroOutside) {
    Value isInside = CompareOp::create(b, inside, at, Comparison::Equal);
    if (!weight)
      weight = a.splat(1.0);
    weight = a.select(isInside, weight, a.splat(0.0));
  }
  // For a NaN coordinate, use element 0; its weight is NaN.
  Value isNumber = CompareOp::create(b, inside, inside, Comparison::Equal);
  inside = a.select(isNumber, inside, a.splat(0.0));
  return {buildCast(b, inside, b.getI64Type()), weight};
}

SmallVector<Tap> mlir::binade::importer::findLinearTaps(ImplicitLocOpBuilder &b,
                                                        Value coordinate,
                                                        int64_t length,
                                                        bool isZeroOutside) {
  Arithmetic a(b, coordinate);
  Value floor = FloorOp::create(b, coordinate);
  Value t = a.sub(coordinate, floor);
  return {makeTap(b, floor, a.sub(a.splat(1.0), t), length, isZeroOutside),
          makeTap(b, a.add(floor, 1.0), t, length, isZeroOutside)};
}

SmallVector<Tap> mlir::binade::importer::combineTaps(ImplicitLocOpBuilder &b,
                                                     ArrayRef<Tap> outer,
                                                     ArrayRef<Tap> inner,
                                                     int64_t stride) {
  SmallVector<Tap> taps;
  for (const Tap &far : outer)
    for (const Tap &near : inner) {
      Value row = AddOp::create(b, far.place, times(b, near.place, stride));
      Value weight = far.weight && near.weight
                         ? Value(MulOp::create(b, far.weight, near.weight))
                     : near.weight ? near.weight
                                   : far.weight;
      taps.push_back({row, weight});
    }
  return taps;
}

SmallVector<Value> mlir::binade::importer::gatherTaps(ImplicitLocOpBuilder &b,
                                                      Value table,
                                                      ArrayRef<Tap> taps) {
  SmallVector<Value> parts;
  for (const Tap &tap : taps) {
    Value part = GatherOp::create(b, table, tap.place, PrecisionAttr());
    if (tap.weight) {
      int64_t rank = cast<RankedTensorType>(tap.weight.getType()).getRank();
      auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(part.getType()).getShape();
      part = MulOp::create(b, part, buildBroadcast(b, tap.weight, axes, shape));
    }
    parts.push_back(part);
  }
  return parts;
}

Value mlir::binade::importer::addTaps(ImplicitLocOpBuilder &b, Value table,
                                      ArrayRef<Tap> taps) {
  SmallVector<Value> parts = gatherTaps(b, table, taps);
  Value sum = parts.front();
  for (Value part : ArrayRef(parts).drop_front())
    sum = AddOp::create(b, sum, part);
  return sum;
}
