//===- Shape.cpp - Constants and data movement ----------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Subgradient.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

#define GET_OP_CLASSES
#include "binade/IR/Ops/Shape.cpp.inc"

/// Checks that operands and result have the same element type, because data
/// movement changes no element.
static LogicalResult verifySameElements(Operation *op) {
  Type expected = getElementTypeOrSelf(op->getResult(0).getType());
  for (Type type : op->getOperandTypes())
    if (getElementTypeOrSelf(type) != expected)
      return op->emitOpError("moves elements of ")
             << type << " to " << op->getResult(0).getType();
  return success();
}

//===----------------------------------------------------------------------===//
// ConstantOp, IotaOp
//===----------------------------------------------------------------------===//

Schedule ConstantOp::getSchedule() { return Schedule::View; }

/// A splat fits into an instruction; other constants are in memory.
bool ConstantOp::isRecomputed() { return isa<SplatElementsAttr>(getValue()); }

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

Schedule IotaOp::getSchedule() { return Schedule::Elementwise; }
bool IotaOp::isRecomputed() { return true; }

LogicalResult IotaOp::verify() {
  int64_t rank = getTensor(getY()).getRank();
  if (getAxis() && (static_cast<int64_t>(*getAxis()) < 0 ||
                    static_cast<int64_t>(*getAxis()) >= rank))
    return emitOpError("axis ") << *getAxis() << " is not one of " << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// ReshapeOp
//===----------------------------------------------------------------------===//

Schedule ReshapeOp::getSchedule() { return Schedule::View; }

LogicalResult ReshapeOp::verify() {
  if (getTensor(getX()).getNumElements() != getTensor(getY()).getNumElements())
    return emitOpError("expects as many elements on both sides, got ")
           << getX().getType() << " and " << getType();
  return verifySameElements(*this);
}

SmallVector<Value> ReshapeOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                           ArrayRef<Value> cotangents) {
  return {buildReshape(b, cotangents.front(), getTensor(getX()).getShape())};
}

/// A slice of rows is a slice of elements if the first axes are divided alike.
std::optional<Rows> ReshapeOp::getRows() { return getRowsOfElements(*this); }

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if ((*this)->hasAttr(kDetachedAttr))
    return {};
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  if (auto before = getX().getDefiningOp<ReshapeOp>();
      before && !before.getPrecisionAttr() && !before->hasAttr(kDetachedAttr)) {
    getXMutable().assign(before.getX());
    return getResult();
  }
  return {};
}

//===----------------------------------------------------------------------===//
// TransposeOp
//===----------------------------------------------------------------------===//

static Schedule unlessElided(Operation *op, Schedule schedule) {
  return op->hasAttr(kElidedAttr) ? Schedule::View : schedule;
}

Schedule TransposeOp::getSchedule() {
  return unlessElided(*this, Schedule::Permute);
}

/// The last axes that keep their places move together.
int64_t TransposeOp::getRunLength() {
  ArrayRef<int64_t> order = getPermutation(),
                    shape = getTensor(getY()).getShape();
  int64_t run = 1;
  for (int64_t axis = order.size(); axis-- > 0 && order[axis] == axis;)
    run *= shape[axis];
  return run;
}

void TransposeOp::build(OpBuilder &, OperationState &state, Value x,
                        ArrayRef<int64_t> permutation) {
  RankedTensorType type = getTensor(x);
  state.addOperands(x);
  state.getOrAddProperties<Properties>().permutation =
      DenseI64ArrayAttr::get(x.getContext(), permutation);
  state.addTypes(type.clone(applyPermutation(type.getShape(), permutation)));
}

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> shape = getTensor(getX()).getShape();
  if (getPermutation().size() != shape.size() ||
      !isPermutationVector(getPermutation()))
    return emitOpError("expects a permutation of ")
           << shape.size() << " axes, got [" << getPermutation() << "]";
  if (ArrayRef(applyPermutation(shape, getPermutation())) !=
      getTensor(getY()).getShape())
    return emitOpError("of ") << getX().getType() << " by [" << getPermutation()
                              << "] is not " << getType();
  return verifySameElements(*this);
}

SmallVector<Value> TransposeOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  return {TransposeOp::create(b, cotangents.front(),
                              invertPermutationVector(getPermutation()))};
}

std::optional<Rows> TransposeOp::getRows() {
  if (getPermutation().empty() || getPermutation().front() != 0)
    return std::nullopt;
  return Rows{{true}};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentityPermutation(getPermutation()))
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  if (auto before = getX().getDefiningOp<TransposeOp>();
      before && !before.getPrecisionAttr()) {
    setPermutation(applyPermutation(before.getPermutation(), getPermutation()));
    getXMutable().assign(before.getX());
    return getResult();
  }
  return {};
}

//===----------------------------------------------------------------------===//
// BroadcastOp
//===----------------------------------------------------------------------===//

Schedule BroadcastOp::getSchedule() { return Schedule::Elementwise; }
bool BroadcastOp::isRecomputed() { return true; }

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = getTensor(getX()).getShape();
  ArrayRef<int64_t> to = getTensor(getY()).getShape();
  if (getAxes().size() != from.size())
    return emitOpError("expects one axis per axis of ")
           << getX().getType() << ", got [" << getAxes() << "]";
  int64_t previous = -1;
  for (auto [size, axis] : llvm::zip(from, getAxes())) {
    if (axis <= previous || axis >= static_cast<int64_t>(to.size()))
      return emitOpError("expects ascending axes of ")
             << getType() << ", got [" << getAxes() << "]";
    if (size != 1 && size != to[axis])
      return emitOpError("cannot copy an axis of length ")
             << size << " to axis " << axis << " of " << getType();
    previous = axis;
  }
  return verifySameElements(*this);
}

SmallVector<Value> BroadcastOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                             ArrayRef<Value> cotangents) {
  ArrayRef<int64_t> from = getTensor(getX()).getShape();
  ArrayRef<int64_t> to = getTensor(getY()).getShape();
  SmallVector<int64_t> reduced;
  for (int64_t axis = 0, rank = to.size(); axis < rank; ++axis) {
    const int64_t *source = llvm::find(getAxes(), axis);
    bool isNew = source == getAxes().end();
    if (isNew || (from[source - getAxes().begin()] == 1 && to[axis] != 1))
      reduced.push_back(axis);
  }
  Value dx = cotangents.front();
  if (!reduced.empty())
    dx = ReduceSumOp::create(b, dx, reduced);
  return {buildReshape(b, dx, from)};
}

/// Is built for one reader, in the layout that it needs. The operand's axes
/// then have the order of the result's.
Layouts BroadcastOp::chooseLayouts(const Layouts &known) {
  Layouts chosen(*this);
  const Layout &to = chosen.results.front() = known.results.front();
  for (int64_t axis : to)
    if (const int64_t *found = llvm::find(getAxes(), axis);
        found != getAxes().end())
      chosen.operands.front().push_back(found - getAxes().begin());
  return chosen;
}

void BroadcastOp::applyLayouts(const Layouts &chosen) {
  setAxes(findAxes(chosen.results.front(), getAxes()));
}

std::optional<Rows> BroadcastOp::getRows() {
  bool hasRows =
      !getAxes().empty() && getAxes().front() == 0 &&
      getTensor(getX()).getDimSize(0) == getTensor(getY()).getDimSize(0);
  return Rows{{hasRows}};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

//===----------------------------------------------------------------------===//
// SliceOp, PadOp
//===----------------------------------------------------------------------===//

Schedule SliceOp::getSchedule() {
  return unlessElided(*this, Schedule::Permute);
}
Schedule PadOp::getSchedule() { return Schedule::Permute; }

/// Whether the box (the shape of `part` at offsets and strides) is within
/// `whole`.
static LogicalResult verifyBox(Operation *op, Value part, Value whole,
                               ArrayRef<int64_t> offsets,
                               ArrayRef<int64_t> strides) {
  ArrayRef<int64_t> sizes = getTensor(part).getShape();
  ArrayRef<int64_t> bounds = getTensor(whole).getShape();
  if (sizes.size() != bounds.size() || offsets.size() != bounds.size() ||
      strides.size() != bounds.size())
    return op->emitOpError("expects offset, stride and size for each of ")
           << bounds.size() << " axes";
  for (auto [axis, size] : llvm::enumerate(sizes)) {
    // Counts the steps that fit after the offset, without products that may
    // overflow.
    int64_t remaining =
        offsets[axis] < 0 ? -1 : bounds[axis] - 1 - offsets[axis];
    bool inside = offsets[axis] >= 0 && strides[axis] > 0 &&
                  (size == 0 ||
                   (remaining >= 0 && remaining / strides[axis] >= size - 1));
    if (!inside)
      return op->emitOpError("box leaves axis ")
             << axis << " of length " << bounds[axis] << ": offset "
             << offsets[axis] << ", stride " << strides[axis] << ", size "
             << size;
  }
  return verifySameElements(op);
}

LogicalResult SliceOp::verify() {
  return verifyBox(*this, getY(), getX(), getOffsets(), getStrides());
}

LogicalResult PadOp::verify() {
  return verifyBox(*this, getX(), getY(), getOffsets(), getStrides());
}

/// Rows of the box are consecutive along the last axis and along whole axes
/// before it.
int64_t SliceOp::getRunLength() {
  ArrayRef<int64_t> sizes = getTensor(getY()).getShape(),
                    bounds = getTensor(getX()).getShape();
  int64_t run = 1;
  for (int64_t axis = sizes.size(); axis-- > 0;) {
    if (getStrides()[axis] != 1)
      break;
    if (sizes[axis] != bounds[axis])
      return run *
             std::gcd(std::gcd(sizes[axis], bounds[axis]), getOffsets()[axis]);
    run *= sizes[axis];
  }
  return run;
}

SmallVector<Value> SliceOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                         ArrayRef<Value> cotangents) {
  return {PadOp::create(b, getX().getType(), cotangents.front(), getOffsets(),
                        getStrides())};
}

SmallVector<Value> PadOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                       ArrayRef<Value> cotangents) {
  return {SliceOp::create(b, getX().getType(), cotangents.front(), getOffsets(),
                          getStrides())};
}

void SliceOp::applyLayouts(const Layouts &chosen) {
  setOffsets(reorder(chosen.results.front(), getOffsets()));
  setStrides(reorder(chosen.results.front(), getStrides()));
}

void PadOp::applyLayouts(const Layouts &chosen) {
  setOffsets(reorder(chosen.results.front(), getOffsets()));
  setStrides(reorder(chosen.results.front(), getStrides()));
}

/// Rows stay rows if the box contains all of them.
static std::optional<Rows> getRowsOfBox(Value part, Value whole) {
  ArrayRef<int64_t> sizes = getTensor(part).getShape();
  if (sizes.empty() || sizes.front() != getTensor(whole).getDimSize(0))
    return std::nullopt;
  return Rows{{true}};
}

std::optional<Rows> SliceOp::getRows() { return getRowsOfBox(getY(), getX()); }
std::optional<Rows> PadOp::getRows() { return getRowsOfBox(getX(), getY()); }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getX().getType() == getType() ? getX() : Value();
}

/// Returns the axis along which the boxes of two pads are adjacent, `l` first.
static std::optional<int64_t> findSharedFace(PadOp l, PadOp r) {
  RankedTensorType left = getTensor(l.getX()), right = getTensor(r.getX());
  std::optional<int64_t> found;
  for (int64_t axis = 0; axis < left.getRank(); ++axis) {
    if (l.getStrides()[axis] != 1 || r.getStrides()[axis] != 1)
      return std::nullopt;
    int64_t from = l.getOffsets()[axis], to = r.getOffsets()[axis];
    if (from == to && left.getDimSize(axis) == right.getDimSize(axis))
      continue;
    if (found || from + left.getDimSize(axis) != to)
      return std::nullopt;
    found = axis;
  }
  return found;
}

/// Replaces the sum of two pads whose boxes are adjacent by one pad of their
/// concatenation. Sums of gradients of slices have this form. (x + 0 is x, and
/// a zero keeps its sign.)
static LogicalResult joinPads(AddOp add, PatternRewriter &rewriter) {
  auto l = add.getLhs().getDefiningOp<PadOp>();
  auto r = add.getRhs().getDefiningOp<PadOp>();
  if (!l || !r || add.getPrecisionAttr() || l.getPrecisionAttr() ||
      r.getPrecisionAttr() || !l->hasOneUse() || !r->hasOneUse())
    return failure();
  std::optional<int64_t> axis = findSharedFace(l, r);
  if (!axis) {
    std::swap(l, r);
    axis = findSharedFace(l, r);
  }
  if (!axis)
    return failure();
  Phase phase = getPhase(add);
  RankedTensorType type = getTensor(l.getX());
  SmallVector<int64_t> shape(type.getShape());
  shape[*axis] += getTensor(r.getX()).getDimSize(*axis);
  auto joined = ConcatOp::create(rewriter, add.getLoc(), type.clone(shape),
                                 ValueRange{l.getX(), r.getX()}, *axis);
  auto pad = rewriter.replaceOpWithNewOp<PadOp>(add, add.getType(), joined,
                                                l.getOffsets(), l.getStrides());
  for (Operation *op : {joined.getOperation(), pad.getOperation()})
    setPhase(op, phase);
  return success();
}

void PadOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                        MLIRContext *) {
  patterns.add(joinPads);
}

//===----------------------------------------------------------------------===//
// ConcatOp
//===----------------------------------------------------------------------===//

Schedule ConcatOp::getSchedule() {
  return unlessElided(*this, Schedule::Permute);
}

LogicalResult ConcatOp::verify() {
  RankedTensorType type = getTensor(getY());
  int64_t axis = getAxis();
  if (getInputs().empty() || axis < 0 || axis >= type.getRank())
    return emitOpError("expects operands and one of ")
           << type.getRank() << " axes, got axis " << axis;
  int64_t total = 0;
  for (Value input : getInputs()) {
    SmallVector<int64_t> shape(getTensor(input).getShape());
    if (static_cast<int64_t>(shape.size()) != type.getRank())
      return emitOpError("cannot join ") << input.getType() << " to " << type;
    total += shape[axis];
    shape[axis] = type.getDimSize(axis);
    if (ArrayRef(shape) != type.getShape())
      return emitOpError("cannot join ")
             << input.getType() << " to " << type << " along axis " << axis;
  }
  if (total != type.getDimSize(axis))
    return emitOpError("operands have ")
           << total << " entries along axis " << axis << ", the result "
           << type.getDimSize(axis);
  return verifySameElements(*this);
}

int64_t ConcatOp::getRunLength() {
  int64_t run = 0, inner = 1;
  for (Value input : getInputs())
    run = std::gcd(run, getTensor(input).getDimSize(getAxis()));
  for (int64_t size : getTensor(getY()).getShape().drop_front(getAxis() + 1))
    inner *= size;
  return run * inner;
}

void ConcatOp::applyLayouts(const Layouts &chosen) {
  setAxis(findAxis(chosen.results.front(), getAxis()));
}

std::optional<Rows> ConcatOp::getRows() {
  if (getAxis() == 0)
    return std::nullopt;
  return Rows{SmallVector<bool>(getNumOperands(), true)};
}

/// Merges a concat of concats along the same axis.
LogicalResult ConcatOp::canonicalize(ConcatOp op, PatternRewriter &rewriter) {
  SmallVector<Value> inputs;
  for (Value input : op.getInputs()) {
    auto inner = input.getDefiningOp<ConcatOp>();
    if (inner && inner.getAxis() == op.getAxis() && inner->hasOneUse() &&
        !inner.getPrecisionAttr())
      llvm::append_range(inputs, inner.getInputs());
    else
      inputs.push_back(input);
  }
  if (inputs.size() == op.getInputs().size())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getInputsMutable().assign(inputs); });
  return success();
}

SmallVector<Value> ConcatOp::buildAdjoint(ImplicitLocOpBuilder &b,
                                          ArrayRef<Value> cotangents) {
  int64_t rank = getTensor(getY()).getRank();
  SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
  SmallVector<Value> gradients;
  for (Value input : getInputs()) {
    gradients.push_back(SliceOp::create(b, input.getType(), cotangents.front(),
                                        offsets, strides));
    offsets[getAxis()] += getTensor(input).getDimSize(getAxis());
  }
  return gradients;
}

FailureOr<SmallVector<Value>>
ConcatOp::buildWithoutElements(ImplicitLocOpBuilder &b) {
  SmallVector<Value> inputs = dropEmpty(getInputs());
  if (inputs.size() == 1)
    return inputs;
  return SmallVector<Value>{ConcatOp::create(b, getType(), inputs, getAxis())};
}
