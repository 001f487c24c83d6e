//===- IntegerCasts.cpp - Integers to narrow floats -----------------------===//

#include "binade/Codegen/IntegerCasts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

template <typename Op> static void split(Op op) {
  Type single = Float32Type::get(op.getContext()), wide = single;
  if (getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth() >=
      single.getIntOrFloatBitWidth())
    return;
  if (auto vector = dyn_cast<VectorType>(op.getType()))
    wide = vector.clone(single);
  OpBuilder b(op);
  Value number = Op::create(b, op.getLoc(), wide, op.getIn());
  Value rounded = arith::TruncFOp::create(b, op.getLoc(), op.getType(), number);
  op.replaceAllUsesWith(rounded);
  op.erase();
}

void mlir::binade::splitIntegerCasts(Operation *root) {
  root->walk(split<arith::SIToFPOp>);
  root->walk(split<arith::UIToFPOp>);
}
