//===- Interface.h - Arguments and results of a step ------------*- C++ -*-===//
//
// Function arguments and results are identified by role and name, not by
// position: `binade.role`, `binade.name`, and for arguments `binade.init`.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_INTERFACE_H
#define BINADE_IR_INTERFACE_H

#include "binade/IR/Binade.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

inline constexpr StringLiteral kRoleAttr = "binade.role";
inline constexpr StringLiteral kNameAttr = "binade.name";
/// The initial value of an argument: elements, #binade.external, #binade.random
/// or #binade.companion.
inline constexpr StringLiteral kInitAttr = "binade.init";
inline constexpr StringLiteral kPhaseAttr = "binade.phase";
inline constexpr StringLiteral kPolicyAttr = "binade.policy";
inline constexpr StringLiteral kKernelAttr = "binade.kernel";
inline constexpr StringLiteral kBatchesAttr = "binade.batches";
inline constexpr StringLiteral kSavedAttr = "binade.saved";
inline constexpr StringLiteral kComputationAttr = "binade.computation";
inline constexpr StringLiteral kTargetAttr = "binade.target";

/// The name of the function that importers create.
inline constexpr StringLiteral kForwardName = "forward";
/// The name of the function that is a training step.
inline constexpr StringLiteral kStepName = "step";
/// The names of the program that adds the gradients of a batch to accumulated
/// ones, and of the program that computes only the loss, from the step's
/// parameters and buffers.
inline constexpr StringLiteral kAccumulationName = "accumulate";
inline constexpr StringLiteral kEvaluationName = "evaluate";

/// Returns the programs that `module` has, the step first.
SmallVector<func::FuncOp> getPrograms(ModuleOp module);

/// Returns the target of the module; null for CPUs, and before kernels are
/// formed.
TargetAttr getTarget(Operation *op);

/// Returns the phase of `op`: forward if it has no attribute.
Phase getPhase(Operation *op);
void setPhase(Operation *op, Phase phase);

/// The role and name of an argument or result. One without a role is not part
/// of the step's interface.
struct Port {
  unsigned index;
  Role role;
  StringRef name;
};
std::optional<Port> getArgument(func::FuncOp function, unsigned index);
std::optional<Port> getResult(func::FuncOp function, unsigned index);
SmallVector<Port> getArguments(func::FuncOp function, Role role);
SmallVector<Port> getResults(func::FuncOp function, Role role);
std::optional<Port> findArgument(func::FuncOp function, Role role,
                                 StringRef name);
std::optional<Port> findResult(func::FuncOp function, Role role,
                               StringRef name);

/// Adds an argument after the last one of its role, in role order, and returns
/// its value. `init` may be null.
Value addArgument(func::FuncOp function, Role role, StringRef name, Type type,
                  Location loc, Attribute init = {});

/// Appends a result to the function, and an operand to its return.
void addResult(func::FuncOp function, Role role, StringRef name, Value value);

/// Replaces the value that result `index` returns.
void setResult(func::FuncOp function, unsigned index, Value value);
Value getResultValue(func::FuncOp function, unsigned index);

} // namespace mlir::binade

#endif // BINADE_IR_INTERFACE_H
