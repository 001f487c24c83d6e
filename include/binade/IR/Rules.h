//===- Rules.h - Optimizer rules on whole tensors ---------------*- C++ -*-===//

#ifndef BINADE_IR_RULES_H
#define BINADE_IR_RULES_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// The name of the learning rate in rules.
inline constexpr llvm::StringLiteral kRate = "lr";

/// The name of the state that is the difference between the weights to evaluate
/// and export and the parameter, at which gradients are computed.
inline constexpr llvm::StringLiteral kEvaluationOffset = "evaluation_offset";
/// Returns the index of that state, if the rule has it.
std::optional<unsigned> findEvaluationOffset(OptimizerOp rule);

/// The attribute of a `prepare` for parameters whose rows are divided into this
/// number of heads: it computes on heads as rows.
inline constexpr llvm::StringLiteral kRowHeadsAttr = "binade.row_heads";

/// Whether a hyper-parameter has a default value. A NaN means that it has none.
inline bool hasDefault(SettingAttr setting) {
  return !setting.getValue().getValue().isNaN();
}

/// Whether the last argument of `formula` is a random value.
bool drawsRandomValue(func::FuncOp formula);
/// The offset of the random stream of a formula from that of the update.
inline constexpr int64_t kFormulaStream = int64_t(1) << 30;

/// Returns the functions `@<rule>.prepare` and `@<rule>.prepare.<form>` of the
/// rule.
SmallVector<func::FuncOp> getPrepares(OptimizerOp rule);

/// Returns the function of `getPrepares` with this form, which is empty for
/// `@<rule>.prepare`; null if there is none.
func::FuncOp findPrepare(OptimizerOp rule, StringRef form);

/// Returns the number of rows, which are elements of the first axis, and the
/// number of elements per row.
std::pair<int64_t, int64_t> getMatrix(ArrayRef<int64_t> shape);

/// Returns the types of the states of a parameter of `shape` under `prepare`,
/// which is null if the rule has none.
SmallVector<RankedTensorType>
getStateTypes(OptimizerOp rule, func::FuncOp prepare, ArrayRef<int64_t> shape);

/// Whether the state has the parameter's shape, so that `update` handles it.
bool isElementwise(func::FuncOp prepare, unsigned state);

/// Returns what is wrong with the signature or body of `prepare` in a rule with
/// so many states and scalars; empty if nothing is.
std::string explainViolation(func::FuncOp prepare, unsigned states,
                             unsigned scalars);

/// Returns what is wrong with the types that `formula` takes, except a random
/// value, and returns; empty if nothing is.
std::string explainViolation(func::FuncOp formula, TypeRange inputs,
                             TypeRange outputs);

/// As above for `scalars`, which returns scalars in f64.
std::string explainScalarsViolation(OptimizerOp rule, func::FuncOp scalars);

/// As above for `update`, which follows `prepare`, in a rule with so many
/// states and scalars.
std::string explainUpdateViolation(func::FuncOp update, func::FuncOp prepare,
                                   unsigned states, unsigned scalars);

/// Returns the shape of the parameter inside `prepare`, which has one or two
/// axes.
SmallVector<int64_t> getWrittenShape(func::FuncOp prepare,
                                     ArrayRef<int64_t> shape);

/// Called with each op of a `prepare` that reduces the rows of the parameter,
/// or an axis of all its elements. Returns the value that replaces the result.
using ReplaceReduction = llvm::function_ref<Value(Operation *)>;

/// Inlines `prepare` for a parameter of `shape`. `arguments` are f32; those
/// with the parameter's shape have `getWrittenShape`. Returns the states that
/// are not elementwise, then the values, which have the parameter's shape
/// again.
SmallVector<Value> buildPrepare(ImplicitLocOpBuilder &b, func::FuncOp prepare,
                                ArrayRef<int64_t> shape, ValueRange arguments,
                                ReplaceReduction replace = {});

/// Builds the f32 value of the parameter of `op` before the update, with what
/// its master stores in addition.
Value buildWideParameter(ImplicitLocOpBuilder &b, OptimizerUpdateOp op);

/// Returns the results of `op`, with its `prepare` inlined before it.
SmallVector<Value> decomposeUpdate(ImplicitLocOpBuilder &b,
                                   OptimizerUpdateOp op,
                                   ReplaceReduction replace = {});

} // namespace mlir::binade

#endif // BINADE_IR_RULES_H
