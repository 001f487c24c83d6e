//===- Movement.cpp - Offsets through ops that move elements --------------===//

#include "Movement.h"
#include "Emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Movement of one operand
//===----------------------------------------------------------------------===//

namespace {
/// One axis of a result, or several adjacent axes that move as one: `size`
/// entries, `stride` elements apart in the operand; a stride of 0 repeats one
/// element.
struct Axis {
  int64_t size, stride;
};
} // namespace

/// Returns the operand's offset, axis by axis from the innermost.
static Offset follow(OffsetSpace &space, ArrayRef<Axis> axes,
                     const Offset &offset) {
  SmallVector<Axis> merged;
  for (Axis axis : axes) {
    if (axis.size == 1)
      continue;
    if (!merged.empty()) {
      Axis &outer = merged.back();
      if (outer.stride == axis.stride * axis.size) {
        outer = {outer.size * axis.size, axis.stride};
        continue;
      }
    }
    merged.push_back(axis);
  }
  Offset source, rest = offset;
  while (!merged.empty()) {
    Axis axis = merged.pop_back_val();
    Offset position = rest;
    if (!merged.empty()) {
      OffsetSpace::Division division = space.divide(rest, axis.size);
      rest = division.quotient;
      position = division.remainder;
    }
    source = source + position * axis.stride;
  }
  return source;
}

static SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::optional<Offset> mlir::binade::moveOffset(OffsetSpace &space,
                                               Operation *op,
                                               const Offset &offset) {
  if (isa<ReshapeOp, SaveOp>(op))
    return offset;
  if (!isa<BroadcastOp, TransposeOp, SliceOp>(op))
    return std::nullopt;
  ArrayRef<int64_t> from = getTensor(op->getOperand(0)).getShape();
  ArrayRef<int64_t> to = getTensor(op->getResult(0)).getShape();
  SmallVector<int64_t> strides = getStrides(from);
  SmallVector<Axis> axes;
  Offset start;
  for (int64_t size : to)
    axes.push_back({size, 0});
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [axis, target] : llvm::enumerate(broadcast.getAxes()))
      if (from[axis] == to[target])
        axes[target].stride = strides[axis];
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (auto [axis, source] : llvm::enumerate(transpose.getPermutation()))
      axes[axis].stride = strides[source];
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [axis, stride] : llvm::enumerate(strides)) {
      axes[axis].stride = stride * slice.getStrides()[axis];
      start.constant += stride * slice.getOffsets()[axis];
    }
  }
  return follow(space, axes, offset) + start;
}

//===----------------------------------------------------------------------===//
// Concatenation and padding
//===----------------------------------------------------------------------===//

namespace {
/// Whether an element comes from one piece of the result. Without a condition
/// it always does.
struct Membership {
  Value uniform; ///< One condition for all lanes.
  Value perLane;
};
} // namespace

/// Returns low <= offset < high, with each comparison only if it can fail.
/// Without a condition, `never` is set if the result is always false.
static Membership isWithin(Emitter &emitter, const Offset &offset, int64_t low,
                           int64_t high, bool &never) {
  ImplicitLocOpBuilder &b = emitter.builder();
  never |= offset.maximum() < low || offset.constant >= high;
  bool perLane = offset.variesOverLanes();
  Value answer;
  auto ask = [&](arith::CmpIPredicate predicate, int64_t bound) {
    Value limit = emitter.index(bound);
    Value position = perLane ? emitter.perLane(offset) : emitter.number(offset);
    if (perLane)
      limit = emitter.broadcast(limit);
    answer = conjunction(b, answer,
                         arith::CmpIOp::create(b, predicate, position, limit));
  };
  if (offset.constant < low)
    ask(arith::CmpIPredicate::uge, low);
  if (offset.maximum() >= high)
    ask(arith::CmpIPredicate::ult, high);
  return perLane ? Membership{{}, answer} : Membership{answer, {}};
}

/// Returns `inside()` where the element is in the piece, otherwise `previous`.
Value Emitter::choose(Value uniform, Value perLane, Value previous,
                      llvm::function_ref<Value()> inside) {
  bool isVector = isa<VectorType>(previous.getType());
  auto get = [&]() -> Value {
    Value x = inside();
    if (isVector)
      x = broadcast(x);
    return perLane ? arith::SelectOp::create(b, perLane, x, previous) : x;
  };
  if (!uniform)
    return get();
  return conditional(uniform, previous,
                     [&] { return SmallVector<Value>{get()}; })
      .front();
}

Element Emitter::computeConcat(ConcatOp op, const Offset &offset) {
  RankedTensorType type = getTensor(op.getY());
  int64_t axis = op.getAxis(), inner = 1;
  for (int64_t size : type.getShape().drop_front(axis + 1))
    inner *= size;
  auto [outer, within] = space.divide(offset, type.getDimSize(axis) * inner);
  int64_t unit = 0;
  for (Value input : op.getInputs())
    unit = std::gcd(unit, getTensor(input).getDimSize(axis) * inner);
  auto [step, first, second] = space.split(within, unit);
  Value y = zero(type.getElementType(), offset);
  int64_t low = 0;
  for (Value input : op.getInputs()) {
    int64_t size = getTensor(input).getDimSize(axis) * inner;
    int64_t begin = low / step, count = size / step;
    low += size;
    bool never = count == 0;
    Membership in = isWithin(*this, first, begin, begin + count, never);
    if (never)
      continue;
    y = choose(in.uniform, in.perLane, y, [&] {
      Offset position = space.shifted(first, begin, count, depth());
      return pull(input, outer * size + position * step + second).value;
    });
  }
  return {y, depth()};
}

Element Emitter::computePad(PadOp op, const Offset &offset) {
  /// An axis of the result, or a padded axis merged with the unpadded axes
  /// inside it.
  struct Axis {
    int64_t size, low, count, stride;
    bool isWhole() const { return low == 0 && stride == 1 && count == size; }
  };
  RankedTensorType from = getTensor(op.getX()), to = getTensor(op.getY());
  SmallVector<Axis> axes;
  for (int64_t axis = 0; axis < to.getRank(); ++axis) {
    Axis next = {to.getDimSize(axis), op.getOffsets()[axis],
                 from.getDimSize(axis), op.getStrides()[axis]};
    if (!axes.empty() && next.isWhole() && axes.back().stride == 1) {
      Axis &outer = axes.back();
      outer = {outer.size * next.size, outer.low * next.size,
               outer.count * next.size, 1};
    } else {
      axes.push_back(next);
    }
  }
  /// The position of the element along an axis, `first` * `step` + `second`.
  struct Place {
    Axis axis;
    OffsetSpace::Split split;
    int64_t stride;
  };
  SmallVector<Place> places;
  Value uniform, perLane;
  Offset rest = offset;
  int64_t stride = 1;
  bool never = false;
  auto require = [&](Membership in) {
    uniform = conjunction(b, uniform, in.uniform);
    perLane = conjunction(b, perLane, in.perLane);
  };
  while (!axes.empty()) {
    Axis axis = axes.pop_back_val();
    Offset position = rest;
    if (!axes.empty())
      std::tie(rest, position) = space.divide(rest, axis.size).asPair();
    int64_t span = (axis.count - 1) * axis.stride + 1;
    OffsetSpace::Split split = {1, position, Offset()};
    if (axis.stride == 1)
      split = space.split(position, std::gcd(axis.low, axis.count));
    require(isWithin(*this, split.first, axis.low / split.unit,
                     (axis.low + span - 1) / split.unit + 1, never));
    if (axis.stride > 1) {
      Offset relative = space.shifted(position, axis.low, span, depth());
      Offset off = space.divide(relative, axis.stride).remainder;
      require(isWithin(*this, off, 0, 1, never));
    }
    places.push_back({axis, split, stride});
    stride *= axis.count;
  }
  Value y = zero(to.getElementType(), offset);
  if (never || from.getNumElements() == 0)
    return {y, depth()};
  y = choose(uniform, perLane, y, [&] {
    Offset source;
    for (auto &[axis, split, stride] : places) {
      int64_t span = (axis.count - 1) * axis.stride + 1;
      Offset position = space.shifted(split.first, axis.low / split.unit,
                                      (span - 1) / split.unit + 1, depth()) *
                            split.unit +
                        split.second;
      position = space.divide(position, axis.stride).quotient;
      source = source + position * stride;
    }
    return pull(op.getX(), source).value;
  });
  return {y, depth()};
}

//===----------------------------------------------------------------------===//
// Gather and index checks
//===----------------------------------------------------------------------===//

/// Sets the first word of the workspace if `bad`, or one of its lanes, is true.
void Emitter::reportIndex(Value bad) {
  if (isa<VectorType>(bad.getType()))
    bad = vector::ReductionOp::create(b, vector::CombiningKind::OR, bad);
  // A team without a work item repeats another's, whose operands may have been
  // overwritten.
  bad = conjunction(b, bad, hasItem);
  auto report = scf::IfOp::create(b, bad, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(report.thenBlock());
  Value word = memref::ViewOp::create(b, MemRefType::get({1}, b.getI32Type()),
                                      workspace(), index(0), ValueRange());
  Value one = arith::ConstantIntOp::create(b, 1, 32);
  if (shape)
    memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::ori, one, word,
                                index(0));
  else
    memref::StoreOp::create(b, one, word, index(0));
}

Value Emitter::checkIndex(Value index, int64_t rows) {
  bool isVector = isa<VectorType>(index.getType());
  auto like = [&](int64_t value) -> Value {
    Value constant = this->index(value);
    return isVector ? broadcast(constant) : constant;
  };
  using Is = arith::CmpIPredicate;
  Value below = arith::CmpIOp::create(b, Is::slt, index, like(0));
  Value fromEnd = arith::AddIOp::create(b, index, like(rows));
  index = arith::SelectOp::create(b, below, fromEnd, index);
  Value bad = arith::CmpIOp::create(b, Is::uge, index, like(rows));
  reportIndex(bad);
  return arith::SelectOp::create(b, bad, like(0), index);
}

Offset Emitter::gatherOffset(GatherOp op, const Offset &offset) {
  RankedTensorType table = getTensor(op.getTable());
  int64_t rows = table.getDimSize(0);
  int64_t width = rows ? table.getNumElements() / rows : 1;
  auto [which, within] = space.divide(offset, width);
  Element index = pull(op.getIndices(), which);
  At at(*this, index.depth);
  auto vector = dyn_cast<VectorType>(index.value.getType());
  Type type = b.getIndexType();
  if (vector)
    type = vector.clone(type);
  Value row = arith::IndexCastOp::create(b, type, index.value);
  row = checkIndex(row, rows);
  return space.loaded(row, rows, index.depth, /*perLane=*/bool(vector)) *
             width +
         within;
}

Element Emitter::computeCheck(CheckIndexOp op, const Offset &offset) {
  Element element = pull(op.getX(), offset);
  At at(*this, element.depth);
  auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) -> Value {
    Type type = getElementTypeOrSelf(element.value.getType());
    Value limit = arith::ConstantOp::create(b, b.getIntegerAttr(type, bound));
    if (isa<VectorType>(element.value.getType()))
      limit = broadcast(limit);
    return arith::CmpIOp::create(b, predicate, element.value, limit);
  };
  IndexRange range = *op.getIndexRange(0);
  using Is = arith::CmpIPredicate;
  Value bad = arith::OrIOp::create(b, compare(Is::slt, range.low),
                                   compare(Is::sge, range.high));
  if (range.ignored)
    bad = arith::AndIOp::create(b, bad, compare(Is::ne, *range.ignored));
  reportIndex(bad);
  return element;
}
