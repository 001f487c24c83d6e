//===- HoistReshapes.cpp - Elementwise ops in the shape of their readers --===//
//
// Ops share a kernel only if their loops have one shape. An elementwise op can
// have any shape: if other kernels read its result through a reshape, it is
// computed in their shape, and the reshape moves to its operands. A reduction
// of all axes but the last reads through a reshape that keeps this axis.
//
//===----------------------------------------------------------------------===//

#include "ColumnMaxima.h"
#include "Grouping.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Subgradient.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_HOISTRESHAPESPASS
#include "binade/Kernels/Passes.h.inc"

static ArrayRef<int64_t> getShape(Value value) {
  return getTensor(value).getShape();
}

/// Whether `op` is part of a generated kernel.
static bool isInKernel(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() != Schedule::View &&
         kernelOp.getSchedule() != Schedule::Library;
}

/// Whether a kernel reads `value` in its shape.
static bool isReadByKernel(Value value) {
  return llvm::any_of(value.getUsers(), isInKernel);
}

/// Sets `shape` to that of the reshapes of `value` that kernels read, if there
/// are any. Returns false if they have several shapes, or another than `shape`.
static bool addReadShape(Value value, std::optional<ArrayRef<int64_t>> &shape) {
  for (Operation *user : value.getUsers()) {
    auto view = dyn_cast<ReshapeOp>(user);
    if (!view || !isReadByKernel(view))
      continue;
    if (shape && *shape != getShape(view))
      return false;
    shape = getShape(view);
  }
  return true;
}

/// Returns the shape in which kernels read `value`, if none reads it in its
/// own.
static std::optional<ArrayRef<int64_t>> findReadShape(Value value) {
  std::optional<ArrayRef<int64_t>> found;
  if (isReadByKernel(value))
    return found;
  if (!addReadShape(value, found))
    return std::nullopt;
  return found;
}

/// Returns the shape in which other kernels read an operand of `op` as large as
/// its result, if none reads it in the shape of `op`, and no kernel reads the
/// result: one kernel can then load the operand for both.
static std::optional<ArrayRef<int64_t>> findSiblingShape(Operation *op) {
  Value result = op->getResult(0);
  std::optional<ArrayRef<int64_t>> found;
  if (isReadByKernel(result))
    return found;
  for (Value operand : op->getOperands()) {
    if (getNumElements(operand) != getNumElements(result))
      continue;
    bool isAlone = llvm::all_of(operand.getUsers(), [&](Operation *user) {
      return user == op || !isInKernel(user);
    });
    if (!isAlone)
      return std::nullopt;
    if (!addReadShape(operand, found))
      return std::nullopt;
  }
  return found;
}

/// Returns the axes of `to` along which an operand is broadcast that is
/// broadcast along `axes` of `from`: both shapes have its axes at the end.
static std::optional<SmallVector<int64_t>>
moveAxes(ArrayRef<int64_t> axes, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  int64_t shift = static_cast<int64_t>(to.size()) - from.size();
  SmallVector<int64_t> moved;
  size_t count = axes.empty() ? 0 : from.size() - axes.front();
  if (count > to.size() || from.take_back(count) != to.take_back(count))
    return std::nullopt;
  for (int64_t axis : axes)
    moved.push_back(axis + shift);
  return moved;
}

static Reduced reduceAllButLast(ArrayRef<int64_t> shape) {
  auto last = static_cast<int64_t>(shape.size()) - 1;
  return {llvm::to_vector(llvm::seq(last))};
}

namespace {
/// Builds values in another shape.
class Reshaper {
public:
  Reshaper(Operation *at, ArrayRef<int64_t> shape)
      : b(at->getLoc(), at), at(at), shape(shape), phase(getPhase(at)) {}

  /// Whether `reader` can be computed in the new shape, and with it the ops
  /// that would share its kernel before.
  bool canMove(Operation *reader) const {
    return llvm::all_of(reader->getOperands(), [&](Value operand) {
      return canReshape(operand, reader);
    });
  }

  Value reshape(Value value) {
    if (Value known = made.lookup(value))
      return known;
    Value built = build(value); // May add other values.
    return made[value] = built;
  }

  Value clone(Operation *op) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(reshape(operand));
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    Value result = copy->getResult(0);
    result.setType(getTensor(result).clone(shape));
    return result;
  }

private:
  Value build(Value value) {
    Operation *producer = value.getDefiningOp();
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(producer))
      return mark(buildBroadcast(
          b, broadcast.getX(),
          *moveAxes(broadcast.getAxes(), getShape(value), shape), shape));
    if (isElementwiseKernel(producer) && isRecomputed(producer))
      return clone(producer);
    if (ReshapeOp known = findReshape(value))
      return known;
    Value view =
        b.createOrFold<ReshapeOp>(getTensor(value).clone(shape), value);
    return view.getDefiningOp<ReshapeOp>() ? mark(view) : view;
  }

  /// Returns a view of `value` in the new shape that exists already, so that a
  /// kernel that other ops join loads the value once.
  ReshapeOp findReshape(Value value) const {
    for (Operation *user : value.getUsers()) {
      auto view = dyn_cast<ReshapeOp>(user);
      if (!view || getShape(view) != ArrayRef(shape) ||
          view->getBlock() != at->getBlock() || getPhase(view) != phase)
        continue;
      if (at->isBeforeInBlock(view))
        view->moveBefore(at);
      return view;
    }
    return {};
  }

  bool canReshape(Value value, Operation *reader) const {
    Operation *producer = value.getDefiningOp();
    if (!producer || !isInKernel(producer))
      return true;
    if (auto broadcast = dyn_cast<BroadcastOp>(producer))
      return moveAxes(broadcast.getAxes(), getShape(value), shape).has_value();
    bool isAlone = isRecomputed(producer) ||
                   llvm::all_of(producer->getUsers(), [&](Operation *user) {
                     return user == reader;
                   });
    return isElementwiseKernel(producer) && isAlone && canMove(producer);
  }

  Value mark(Value value) {
    setPhase(value.getDefiningOp(), phase);
    return value;
  }

  ImplicitLocOpBuilder b;
  Operation *at;
  SmallVector<int64_t> shape;
  Phase phase;
  DenseMap<Value, Value> made; ///< Values in the new shape.
};

/// Lets a reduction of all axes but the last read the operand of a reshape that
/// keeps this axis, so that it can share a kernel with what computes this.
static void readThroughReshape(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  if (!kernelOp || kernelOp.getSchedule() != Schedule::ColumnReduction ||
      op->getNumOperands() != 1 || !op->hasAttr(kAxes) ||
      kernelOp.getReduced() != reduceAllButLast(getShape(op->getOperand(0))))
    return;
  Value x = op->getOperand(0);
  SmallVector<Operation *> casts;
  for (Operation *producer = x.getDefiningOp();
       isElementwiseKernel(producer) && isRecomputed(producer) &&
       producer->getNumOperands() == 1;
       producer = x.getDefiningOp()) {
    casts.push_back(producer);
    x = producer->getOperand(0);
  }
  for (auto view = x.getDefiningOp<ReshapeOp>();
       view && !view->hasAttr(kDetachedAttr);
       view = x.getDefiningOp<ReshapeOp>())
    x = view.getX();
  ArrayRef<int64_t> before = getShape(op->getOperand(0)), shape = getShape(x);
  if (shape == before || shape.size() < 2 || shape.back() != before.back())
    return;
  OpBuilder b(op);
  for (Operation *cast : llvm::reverse(casts)) {
    Operation *copy = b.clone(*cast);
    copy->setOperand(0, x);
    x = copy->getResult(0);
    x.setType(getTensor(x).clone(shape));
  }
  op->setOperand(0, x);
  op->setAttr(kAxes, b.getDenseI64ArrayAttr(reduceAllButLast(shape).axes));
}

struct HoistReshapesPass : impl::HoistReshapesPassBase<HoistReshapesPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        program.walk([](Block *block) { hoist(*block); });
  }

private:
  static void hoist(Block &block) {
    for (Operation &op : block)
      readThroughReshape(&op);
    reduceMaximaByColumns(block);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isElementwiseKernel(&op) && !isRecomputed(&op))
        hoistAbove(&op);
  }

  static void hoistAbove(Operation *op) {
    Value before = op->getResult(0);
    std::optional<ArrayRef<int64_t>> found = findReadShape(before);
    if (!found)
      found = findSiblingShape(op);
    if (!found)
      return;
    Reshaper reshaper(op, *found);
    if (!reshaper.canMove(op))
      return;
    Value after = reshaper.clone(op);
    for (Operation *user : llvm::make_early_inc_range(before.getUsers()))
      if (user->getResultTypes() == TypeRange(after.getType()) &&
          isa<ReshapeOp>(user)) {
        user->replaceAllUsesWith(ValueRange(after));
        user->erase();
      }
    if (!before.use_empty()) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      Value view = buildReshape(b, after, getShape(before));
      setPhase(view.getDefiningOp(), getPhase(op));
      before.replaceAllUsesWith(view);
    }
    op->erase();
  }
};
} // namespace
} // namespace mlir::binade
