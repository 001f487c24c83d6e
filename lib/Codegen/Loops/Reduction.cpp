//===- Reduction.cpp - Sums and maxima in a fixed order -------------------===//

#include "Reduction.h"
#include "Positions.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Loops Loops::of(ArrayRef<int64_t> shape, ArrayRef<int64_t> reduced) {
  Loops loops;
  for (auto [axis, size] : llvm::enumerate(shape)) {
    bool isReduced = llvm::is_contained(reduced, axis);
    if (!loops.groups.empty() &&
        (size == 1 || loops.groups.back().isReduced == isReduced))
      loops.groups.back().size *= size;
    else if (!loops.groups.empty() && loops.groups.back().size == 1)
      loops.groups.back() = {size, isReduced};
    else
      loops.groups.push_back({size, isReduced});
  }
  // Reducing one element is still a reduction.
  if (llvm::none_of(loops.groups, [](Group g) { return g.isReduced; }))
    loops.groups.push_back({1, true});
  return loops;
}

Loops Loops::rows(int64_t rows, int64_t columns) {
  return {{{rows, false}, {columns, true}}};
}

int64_t Loops::getKept() const {
  int64_t product = 1;
  for (Group group : groups)
    product *= group.isReduced ? 1 : group.size;
  return product;
}

int64_t Loops::getReduced() const {
  int64_t product = 1;
  for (Group group : groups)
    product *= group.isReduced ? group.size : 1;
  return product;
}

Offset Loops::getOffset(OffsetSpace &space, Offset kept, Offset reduced,
                        const Offset &column) const {
  Offset offset = column;
  int64_t stride = groups.back().size;
  int64_t keptLeft = getKept(), reducedLeft = getReduced();
  (groups.back().isReduced ? reducedLeft : keptLeft) /= groups.back().size;
  for (Group group : llvm::reverse(ArrayRef(groups).drop_back())) {
    Offset &digits = group.isReduced ? reduced : kept;
    int64_t &left = group.isReduced ? reducedLeft : keptLeft;
    Offset digit = digits;
    if (left > group.size)
      std::tie(digits, digit) = space.divide(digits, group.size).asPair();
    left /= group.size;
    offset = offset + digit * stride;
    stride *= group.size;
  }
  return offset;
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

std::optional<Reduction> Reduction::from(Operation *op) {
  if (isa<ReduceSumOp, ReduceMaxOp, GroupMaxOp>(op) &&
      !IndexedElement::from(op))
    return Reduction{op};
  return std::nullopt;
}

Loops Reduction::getLoops() const {
  Reduced reduced = cast<KernelOpInterface>(op).getReduced();
  SmallVector<int64_t> shape(getTensor(getInput()).getShape());
  if (reduced.group == 0)
    return Loops::of(shape, reduced.axes);
  int64_t axis = reduced.axes.front();
  shape[axis] /= reduced.group;
  shape.insert(shape.begin() + axis + 1, reduced.group);
  return Loops::of(shape, {axis + 1});
}

Type Reduction::getPartialType() const {
  return getComputeType(getTensor(getInput()).getElementType());
}

/// Whether this is a maximum of magnitudes. The bit patterns of these have the
/// same order, with NaN after infinity, so that it takes one instruction
/// instead of the five of `maximum`.
bool Reduction::isOfMagnitudes() const {
  return !isa<ReduceSumOp>(op) && getInput().getDefiningOp<AbsOp>() &&
         getTensor(getInput()).getNumElements() > 0;
}

Value Reduction::combine(ImplicitLocOpBuilder &b, Value lhs, Value rhs) const {
  if (isa<ReduceSumOp>(op))
    return arith::AddFOp::create(b, lhs, rhs);
  if (isOfMagnitudes()) {
    IntLanes larger(b,
                    arith::MaxUIOp::create(b, FloatLanes(b, lhs).bits().value,
                                           FloatLanes(b, rhs).bits().value));
    return floatFromBits(larger).value;
  }
  return arith::MaximumFOp::create(b, lhs, rhs);
}

double Reduction::getNeutral() const {
  return isa<ReduceSumOp>(op) || isOfMagnitudes() ? 0.0 : -INFINITY;
}

Value Reduction::start(ImplicitLocOpBuilder &b, int64_t lanes) const {
  auto type = VectorType::get({lanes}, getPartialType());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(
             type, Attribute(FloatAttr::get(getPartialType(), getNeutral()))));
}

Value Reduction::getCounted() const {
  auto ones = getInput().getDefiningOp<CastOp>();
  bool counts = isa<ReduceSumOp>(op) && ones &&
                getTensor(ones.getX()).getElementType().isInteger(1);
  return counts ? ones.getX() : Value();
}

Value Reduction::getSquared() const {
  auto square = getInput().getDefiningOp<MulOp>();
  if (!isa<ReduceSumOp>(op) || !square || square.getLhs() != square.getRhs())
    return {};
  auto wide = square.getLhs().getDefiningOp<CastOp>();
  auto element =
      wide ? dyn_cast<FloatType>(getTensor(wide.getX()).getElementType())
           : nullptr;
  bool isExact = element && element.getWidth() <= 32 &&
                 getTensor(square).getElementType().isF64();
  return isExact ? square.getLhs() : Value();
}

Value Reduction::getAccumulated() const {
  Value counted = getCounted(), squared = getSquared();
  return counted ? counted : squared ? squared : getInput();
}

/// Returns `lanes`, extended by the last lanes of `rest` to as many lanes.
static Value pad(ImplicitLocOpBuilder &b, Value lanes, Value rest) {
  if (lanes.getType() == rest.getType())
    return lanes;
  return vector::InsertStridedSliceOp::create(
      b, lanes, rest, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
}

/// Returns the largest of the magnitudes in `lanes`.
static Value combineMagnitudes(ImplicitLocOpBuilder &b, Value lanes) {
  IntLanes bits = FloatLanes(b, lanes).bits();
  IntLanes largest(b, vector::ReductionOp::create(
                          b, vector::CombiningKind::MAXUI, bits.value));
  return floatFromBits(largest).value;
}

Value Reduction::accumulate(Emitter &emitter, Value partial,
                            const Offset &offset) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  auto type = cast<VectorType>(partial.getType());
  auto splat = [&](Type element, Attribute value) -> Value {
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(type.clone(element), value));
  };
  if (Value counted = getCounted()) {
    // An add with a mask takes one instruction, a conversion to 1 and 0 takes
    // three.
    Value truth = pad(b, emitter.pullLanes(counted, offset),
                      splat(b.getI1Type(), b.getBoolAttr(false)));
    Type element = type.getElementType();
    Value more =
        combine(b, partial, splat(element, FloatAttr::get(element, 1.0)));
    return arith::SelectOp::create(b, truth, more, partial);
  }
  Value rest = start(b, type.getDimSize(0));
  if (Value squared = getSquared()) {
    // The square is exact, so that the sum is rounded once, with or without an
    // fma instruction.
    Value x = pad(b, emitter.pullLanes(squared, offset), rest);
    constexpr auto kFused = arith::FastMathFlags::contract;
    return arith::AddFOp::create(
        b, partial, arith::MulFOp::create(b, x, x, kFused), kFused);
  }
  Value lanes = emitter.pullLanes(getInput(), offset);
  if (type.getDimSize(0) < emitter.lanes())
    lanes = vector::BroadcastOp::create(b, type, combineMagnitudes(b, lanes));
  return combine(b, partial, pad(b, lanes, rest));
}

void Reduction::define(Emitter &emitter, Value total,
                       const Offset &offset) const {
  Type element = getTensor(getResult()).getElementType();
  emitter.define(getResult(), offset, emitter.narrow(total, element));
}

Value mlir::binade::combineLanes(
    ImplicitLocOpBuilder &b, Value lanes,
    llvm::function_ref<Value(Value, Value)> combine) {
  int64_t count = cast<VectorType>(lanes.getType()).getDimSize(0);
  for (int64_t half = count / 2; half > 0; half /= 2) {
    auto part = [&](int64_t from) -> Value {
      return vector::ExtractStridedSliceOp::create(
          b, lanes, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{half},
          ArrayRef<int64_t>{1});
    };
    lanes = combine(part(0), part(half));
  }
  return vector::ExtractOp::create(b, lanes, int64_t(0));
}

Value Reduction::finish(Emitter &emitter, Value partial) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  if (isOfMagnitudes()) {
    IntLanes own = FloatLanes(b, combineMagnitudes(b, partial)).bits();
    // Without a sign bit, signed and unsigned integers have the same order; a
    // warp has an instruction for signed ones.
    auto combineBits = [&](Value x, Value y) -> Value {
      return arith::MaxSIOp::create(b, x, y);
    };
    std::optional<vector::CombiningKind> kind;
    if (own.width() == 32)
      kind = vector::CombiningKind::MAXSI;
    Value all = emitter.combineThreads(own.value, combineBits, kind);
    return floatFromBits(IntLanes(b, all)).value;
  }
  auto combineFloats = [&](Value x, Value y) { return combine(b, x, y); };
  return emitter.combineThreads(combineLanes(b, partial, combineFloats),
                                combineFloats);
}

Value Reduction::combineAll(Emitter &emitter, Value partials,
                            const Offset &first, int64_t stride,
                            int64_t count) const {
  ImplicitLocOpBuilder &b = emitter.builder();
  auto get = [&](const Offset &offset) -> Value {
    Value x = emitter.loadNow(partials, offset);
    if (!isa<ReduceSumOp>(op) || getElementTypeOrSelf(x).isF64())
      return x;
    Type wide = b.getF64Type();
    if (auto vector = dyn_cast<VectorType>(x.getType()))
      wide = vector.clone(wide);
    return arith::ExtFOp::create(b, wide, x);
  };
  Value total = get(first);
  if (count == 1)
    return total;
  // Threads of a GPU start with the neutral element, so that the first entry is
  // added only once.
  int64_t start = emitter.isOnGpu() ? 0 : 1;
  if (emitter.isOnGpu())
    total = splat(b, total, getNeutral());
  total = emitter
              .rows(emitter.index(start), emitter.index(count), count, total,
                    [&](const Offset &at, ValueRange now) {
                      return SmallVector<Value>{
                          combine(b, now.front(), get(first + at * stride))};
                    })
              .front();
  return emitter.combineThreads(
      total, [&](Value x, Value y) { return combine(b, x, y); });
}
