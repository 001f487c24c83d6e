//===- Accuracy.h - Accuracy of transcendental functions --------*- C++ -*-===//
//
// A function whose result is rounded to 16 bits or fewer need not be as
// accurate as f32. docs/Math.md defines which format decides, and has the
// errors.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_ACCURACY_H
#define BINADE_IR_ACCURACY_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::binade {

/// On an op of this dialect or of the math dialect: bf16 or f16, the format for
/// which its functions are accurate enough. Without the attribute they are
/// accurate for f32.
inline constexpr StringLiteral kAccuracyAttr = "binade.accuracy";

/// Returns the value of the attribute; null if `op` does not have it.
FloatType getAccuracy(Operation *op);

/// Returns the accuracy of functions whose results are rounded to `format`: f16
/// for f16, bf16 for bf16 and for formats of 8 bits and less, otherwise null.
FloatType getAccuracyFor(FloatType format);

/// Whether `op`, an op of the math dialect, is a function that is computed in
/// less time if f32 accuracy is not needed.
bool dependsOnAccuracy(Operation *op);

/// Whether `op` is an elementwise op whose formula contains such a function.
bool hasFunction(Operation *op);

/// Sets the attribute of functions, and of ops with functions, that a builder
/// with this listener creates to that of an op which they replace.
class AccuracyKeeper : public OpBuilder::Listener {
public:
  explicit AccuracyKeeper(Operation *replaced);
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override;

private:
  Attribute accuracy;
};

} // namespace mlir::binade

#endif // BINADE_IR_ACCURACY_H
