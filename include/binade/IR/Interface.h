//===- Interface.h - arguments and results of a training step ---*- C++ -*-===//
//
// Function arguments and results are told apart by role and name, not by
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
/// Initial value of an argument: elements, #binade.external or #binade.random.
inline constexpr StringLiteral kInitAttr = "binade.init";
inline constexpr StringLiteral kPhaseAttr = "binade.phase";
inline constexpr StringLiteral kPolicyAttr = "binade.policy";
inline constexpr StringLiteral kKernelAttr = "binade.kernel";
inline constexpr StringLiteral kBatchesAttr = "binade.batches";
inline constexpr StringLiteral kSavedAttr = "binade.saved";
inline constexpr StringLiteral kComputationAttr = "binade.computation";
inline constexpr StringLiteral kTargetAttr = "binade.target";

/// Name of the function that an importer makes.
inline constexpr StringLiteral kForwardName = "forward";
/// Name of the function that is a training step.
inline constexpr StringLiteral kStepName = "step";
/// Name of the one that adds the gradients of a batch to those before, and of
/// the one that computes the loss alone, from what the step keeps.
inline constexpr StringLiteral kAccumulationName = "accumulate";
inline constexpr StringLiteral kEvaluationName = "evaluate";

/// Those of the three that `module` has, the step first.
SmallVector<func::FuncOp> getPrograms(ModuleOp module);

/// What `op` is compiled for; null for CPUs, and before kernels are formed.
TargetAttr getTarget(Operation *op);

/// Phase of `op`: forward when it says nothing.
Phase getPhase(Operation *op);
void setPhase(Operation *op, Phase phase);

/// Role and name of an argument or result; no role means not part of the
/// step's interface.
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

/// Adds an argument behind the last one of its role, in role order, and returns
/// its value. `init` may be null.
Value addArgument(func::FuncOp function, Role role, StringRef name, Type type,
                  Location loc, Attribute init = {});

/// Adds a result (and operand of the return) at the end.
void addResult(func::FuncOp function, Role role, StringRef name, Value value);

/// Replaces the value that result `index` returns.
void setResult(func::FuncOp function, unsigned index, Value value);
Value getResultValue(func::FuncOp function, unsigned index);

} // namespace mlir::binade

#endif // BINADE_IR_INTERFACE_H
