//===- Positions.cpp - Positions along an axis, and elements there --------===//
//
// An op that selects by a label compares the positions of all elements with it
// (`iota`, `compare`), and may add up the only element that is left.
//
//===----------------------------------------------------------------------===//

#include "Positions.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

int64_t mlir::binade::getLaneStride(const Offset &offset) {
  int64_t stride = 0;
  for (auto [variable, coefficient] : offset.terms) {
    if (!variable->variesOverLanes)
      continue;
    if (variable->kind != Variable::Kind::Lane)
      return -1;
    stride = coefficient;
  }
  return stride;
}

Offset mlir::binade::getPosition(OffsetSpace &space, IotaOp iota,
                                 const Offset &offset) {
  RankedTensorType type = getTensor(iota.getY());
  std::optional<uint64_t> axis = iota.getAxis();
  if (!axis)
    return offset;
  int64_t inner = 1;
  for (int64_t size : type.getShape().drop_front(*axis + 1))
    inner *= size;
  Offset position = space.divide(offset, inner).quotient;
  if (*axis > 0)
    position = space.divide(position, type.getDimSize(*axis)).remainder;
  return position;
}

/// Returns the operands of an equality with an iota, the iota first.
static std::pair<Operation *, Value> matchPosition(Operation *op) {
  auto compare = dyn_cast<CompareOp>(op);
  if (!compare || compare.getComparison() != Comparison::Equal)
    return {};
  Value lhs = compare.getLhs(), rhs = compare.getRhs();
  if (!lhs.getDefiningOp<IotaOp>())
    std::swap(lhs, rhs);
  return {lhs.getDefiningOp<IotaOp>(), rhs};
}

/// The difference to the first lane's position is computed once; lanes are
/// compared with it in 32 bits.
std::optional<Element> mlir::binade::comparePosition(Emitter &e, Operation *op,
                                                     const Offset &offset) {
  auto [iota, other] = matchPosition(op);
  if (!iota || !getTensor(other).getElementType().isSignlessInteger(64))
    return std::nullopt;
  Offset position = getPosition(e.offsets(), cast<IotaOp>(iota), offset);
  if (getLaneStride(position) != 1)
    return std::nullopt;
  Value index = e.pull(other, offset).value;
  if (isa<VectorType>(index.getType()))
    return std::nullopt;
  ImplicitLocOpBuilder &b = e.builder();
  Value first =
      arith::IndexCastOp::create(b, b.getI64Type(), e.number(position));
  IntLanes lane(b, arith::SubIOp::create(b, index, first));
  BoolLanes isNear =
      lane.compare(arith::CmpIPredicate::ult, lane.constant(e.lanes()));
  IntLanes low = lane.resize(32);
  Value found = e.broadcast(select(isNear, low, low.constant(-1)).value);
  SmallVector<int32_t> lanes(e.lanes());
  std::iota(lanes.begin(), lanes.end(), 0);
  Value numbers = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<VectorType>(found.getType()),
                                ArrayRef<int32_t>(lanes)));
  return Element{
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, found, numbers),
      e.depth()};
}

static bool isZero(Value value) {
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APFloat>().isPosZero();
}

std::optional<IndexedElement> IndexedElement::from(Operation *op) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  auto chosen = sum ? sum.getX().getDefiningOp<SelectOp>() : nullptr;
  if (!chosen || !isZero(chosen.getRhs()))
    return std::nullopt;
  Operation *condition = chosen.getCondition().getDefiningOp();
  auto [iota, other] =
      condition ? matchPosition(condition) : std::pair<Operation *, Value>();
  if (!iota)
    return std::nullopt;
  RankedTensorType type = getTensor(chosen.getY());
  int64_t last = type.getRank() - 1;
  auto spread = other.getDefiningOp<BroadcastOp>();
  bool isOfRow =
      spread && last > 0 &&
      getTensor(spread.getX()).getShape() == type.getShape().drop_back() &&
      llvm::equal(spread.getAxes(), llvm::seq(last));
  auto axis = cast<IotaOp>(iota).getAxis();
  if (!isOfRow || !axis || static_cast<int64_t>(*axis) != last ||
      sum.getAxes() != ArrayRef(last) || type.getDimSize(last) == 0)
    return std::nullopt;
  return IndexedElement{op, spread.getX(), chosen.getLhs()};
}

Element IndexedElement::compute(Emitter &e, const Offset &offset) const {
  ImplicitLocOpBuilder &b = e.builder();
  Value index = e.pull(indices, offset).value;
  int64_t columns = getTensor(x).getShape().back();
  IntLanes number(b, index);
  Value exists =
      number.compare(arith::CmpIPredicate::ult, number.constant(columns)).value;
  auto vector = dyn_cast<VectorType>(index.getType());
  Type type = b.getIndexType();
  if (vector)
    type = vector.clone(type);
  Value position = arith::IndexCastOp::create(
      b, type, select({b, exists}, number, number.constant(0)).value);
  Offset column =
      e.offsets().loaded(position, columns, e.depth(), bool(vector));
  Value value = e.widen(e.pull(x, offset * columns + column).value);
  if (vector)
    value = e.broadcast(value);
  // The sum with the other elements turns -0 into 0.
  FloatLanes zero = FloatLanes(b, value).constant(0.0);
  FloatLanes sum = select({b, exists}, FloatLanes(b, value) + zero, zero);
  Type element = getTensor(op->getResult(0)).getElementType();
  return {e.narrow(sum.value, element), e.depth()};
}
