//===- WriteTransposedOperands.cpp - Sink transposes into producers -------===//
// A product of codes may read them by columns, some time after they were made.
// On a GPU the kernel that makes them writes them both ways; then what waits
// for the product are the codes as it reads them.
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_WRITETRANSPOSEDOPERANDSPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// Axes of a value: how many there are in front of the rows, and of the
/// columns.
struct Axes {
  int64_t rows, columns;
};

/// Those of `shape` that hold `matrices`, if they do.
std::optional<Axes> findAxes(ArrayRef<int64_t> shape,
                             const Matrices &matrices) {
  auto find = [&](int64_t wanted) -> std::optional<int64_t> {
    int64_t count = 1, axis = 0, rank = shape.size();
    while (count < wanted && axis < rank)
      count *= shape[axis++];
    return count == wanted ? std::optional(axis) : std::nullopt;
  };
  std::optional<int64_t> rows = find(matrices.count),
                         columns = find(matrices.count * matrices.rows);
  if (!rows || !columns)
    return std::nullopt;
  return Axes{*rows, *columns};
}

/// Whether another op than `transpose` reads `codes` in a later phase than
/// `phase`, as they are or under another shape.
bool isReadLater(Value codes, Phase phase, TransposeOp transpose) {
  return llvm::any_of(codes.getUsers(), [&](Operation *user) {
    if (user == transpose)
      return false;
    return getPhase(user) != phase ||
           (isView(user) && isReadLater(user->getResult(0), phase, transpose));
  });
}

void turnWhereMade(TransposeOp transpose) {
  std::optional<Matrices> matrices = findTransposedCopy(transpose);
  if (!matrices)
    return;
  Value codes = findBase(transpose.getX());
  auto maker = codes.getDefiningOp<KernelOpInterface>();
  if (!maker || maker->getBlock() != transpose->getBlock() ||
      maker.getSchedule() != Schedule::Elementwise || maker.isRecomputed())
    return;
  // Otherwise both orders would wait.
  Phase phase = getPhase(maker);
  if (getPhase(transpose) != phase && isReadLater(codes, phase, transpose))
    return;
  ArrayRef<int64_t> shape = getTensor(codes).getShape();
  std::optional<Axes> axes = findAxes(shape, *matrices);
  if (!axes)
    return;
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::rotate(order.begin() + axes->rows, order.begin() + axes->columns,
              order.end());
  ImplicitLocOpBuilder b(transpose.getLoc(), transpose.getContext());
  b.setInsertionPointAfter(maker);
  Value turned = TransposeOp::create(b, codes, order);
  setPhase(turned.getDefiningOp(), phase);
  turned = buildReshape(b, turned, getTensor(transpose).getShape());
  setPhase(turned.getDefiningOp(), phase);
  // What is kept for the backward part stays kept.
  for (Value value = transpose.getX(); value != codes;
       value = value.getDefiningOp()->getOperand(0))
    if (auto save = value.getDefiningOp<SaveOp>())
      turned =
          SaveOp::create(b, turned.getType(), turned, save.getPrecisionAttr());
  transpose->replaceAllUsesWith(ValueRange(turned));
  transpose->erase();
}

struct WriteTransposedOperandsPass
    : impl::WriteTransposedOperandsPassBase<WriteTransposedOperandsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        program.walk(turnWhereMade);
  }
};
} // namespace
} // namespace mlir::binade
