//===- Accuracy.cpp - Accuracy of transcendental functions ----------------===//

#include "binade/IR/Accuracy.h"
#include "binade/IR/Binade.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::binade;

FloatType mlir::binade::getAccuracy(Operation *op) {
  auto format = op->getAttrOfType<TypeAttr>(kAccuracyAttr);
  return format ? dyn_cast<FloatType>(format.getValue()) : FloatType();
}

FloatType mlir::binade::getAccuracyFor(FloatType format) {
  if (format.isF16() || format.isBF16())
    return format;
  return format.getWidth() <= 8 ? BFloat16Type::get(format.getContext())
                                : FloatType();
}

bool mlir::binade::dependsOnAccuracy(Operation *op) {
  return isa<math::ErfOp, math::ErfcOp, math::ExpOp, math::LogOp, math::TanhOp>(
      op);
}

bool mlir::binade::hasFunction(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  if (!elementwise || !llvm::all_of(op->getOperandTypes(), [](Type type) {
        return isa<FloatType>(getElementTypeOrSelf(type));
      }))
    return false;
  Block formula;
  ImplicitLocOpBuilder b(op->getLoc(), op->getContext());
  b.setInsertionPointToStart(&formula);
  SmallVector<Value> operands;
  for (Type type : op->getOperandTypes()) {
    bool isWide = getElementTypeOrSelf(type).isF64();
    operands.push_back(formula.addArgument(
        isWide ? Type(b.getF64Type()) : Type(b.getF32Type()), op->getLoc()));
  }
  elementwise.buildScalar(b, operands);
  return llvm::any_of(formula,
                      [](Operation &part) { return dependsOnAccuracy(&part); });
}

AccuracyKeeper::AccuracyKeeper(Operation *replaced)
    : accuracy(replaced->getAttr(kAccuracyAttr)) {}

void AccuracyKeeper::notifyOperationInserted(Operation *op,
                                             OpBuilder::InsertPoint) {
  if (accuracy && (dependsOnAccuracy(op) || hasFunction(op)))
    op->setAttr(kAccuracyAttr, accuracy);
}
