//===- Rules.h - formulas of optimizers on whole tensors --------*- C++ -*-===//

#ifndef BINADE_IR_RULES_H
#define BINADE_IR_RULES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// What rules call their learning rate.
inline constexpr llvm::StringLiteral kRate = "lr";

/// Whether a hyper-parameter has a value where none is given: a default of NaN
/// is none.
inline bool hasDefault(SettingAttr setting) {
  return !setting.getValue().getValue().isNaN();
}

/// Whether the last argument of `formula` is a random number.
bool drawsNumber(func::FuncOp formula);
/// What is added to the stream of an update for it.
inline constexpr int64_t kFormulaStream = int64_t(1) << 30;

/// Functions `@<rule>.prepare` and `@<rule>.prepare.<form>` of the rule.
SmallVector<func::FuncOp> getPrepares(OptimizerOp rule);

/// The one of `getPrepares` with this form, empty for `@<rule>.prepare`; or
/// null.
func::FuncOp findPrepare(OptimizerOp rule, StringRef form);

/// The number of rows, of which the first axis has one each, and of elements
/// of a row.
std::pair<int64_t, int64_t> getMatrix(ArrayRef<int64_t> shape);

/// Types of the states of a parameter that `prepare` (null where the rule has
/// none) works on.
SmallVector<RankedTensorType>
getStateTypes(OptimizerOp rule, func::FuncOp prepare, ArrayRef<int64_t> shape);

/// Whether the state is one that `update` knows: of the parameter's shape.
bool isElementwise(func::FuncOp prepare, unsigned state);

/// What is wrong with the form of `prepare` in a rule of so many states and
/// scalars, or an empty string.
std::string explainViolation(func::FuncOp prepare, unsigned states,
                             unsigned scalars);

/// The shape that the parameter has inside `prepare`: of one or two axes.
SmallVector<int64_t> getWrittenShape(func::FuncOp prepare,
                                     ArrayRef<int64_t> shape);

/// The ops of `prepare` for a parameter of `shape`. `arguments` are f32, those
/// of the parameter's shape in `getWrittenShape`. Returns the states that are
/// not elementwise, then the values, of the parameter's shape again.
SmallVector<Value> buildPrepare(ImplicitLocOpBuilder &b, func::FuncOp prepare,
                                ArrayRef<int64_t> shape, ValueRange arguments);

} // namespace mlir::binade

#endif // BINADE_IR_RULES_H
