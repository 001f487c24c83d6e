//===- WriteTransposedOperands.cpp - Transposed copies of operands --------===//
//
// A matmul of 8-bit operands may read one of them transposed, long after it was
// quantized. On a GPU, the kernel that quantizes it can write both orders; then
// the transposed copy is what is saved until the matmul.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_WRITETRANSPOSEDOPERANDSPASS
#include "binade/Kernels/Passes.h.inc"

namespace {
/// The first axis of the rows, and that of the columns.
struct Axes {
  int64_t rows, columns;
};

/// Returns the axes of `shape` that are `matrices`, if there are such.
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

/// Whether an op other than `transpose` reads `codes`, or a view of it, in a
/// phase other than `phase`.
bool isReadLater(Value codes, Phase phase, TransposeOp transpose) {
  return llvm::any_of(codes.getUsers(), [&](Operation *user) {
    if (user == transpose)
      return false;
    return getPhase(user) != phase ||
           (isView(user) && isReadLater(user->getResult(0), phase, transpose));
  });
}

void transposeAtProducer(TransposeOp transpose) {
  std::optional<Matrices> matrices = findTransposedCopy(transpose);
  if (!matrices)
    return;
  Value codes = findBase(transpose.getX());
  auto producer = codes.getDefiningOp<KernelOpInterface>();
  if (!producer || producer->getBlock() != transpose->getBlock() ||
      producer.getSchedule() != Schedule::Elementwise ||
      producer.isRecomputed())
    return;
  // Otherwise both copies would be saved.
  Phase phase = getPhase(producer);
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
  b.setInsertionPointAfter(producer);
  Value transposed = TransposeOp::create(b, codes, order);
  setPhase(transposed.getDefiningOp(), phase);
  transposed = buildReshape(b, transposed, getTensor(transpose).getShape());
  setPhase(transposed.getDefiningOp(), phase);
  // A value that was saved for the backward pass is still saved.
  for (Value value = transpose.getX(); value != codes;
       value = value.getDefiningOp()->getOperand(0))
    if (auto save = value.getDefiningOp<SaveOp>())
      transposed = SaveOp::create(b, transposed.getType(), transposed,
                                  save.getPrecisionAttr());
  transpose->replaceAllUsesWith(ValueRange(transposed));
  transpose->erase();
}

struct WriteTransposedOperandsPass
    : impl::WriteTransposedOperandsPassBase<WriteTransposedOperandsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (getTarget(program))
        program.walk(transposeAtProducer);
  }
};
} // namespace
} // namespace mlir::binade
