//===- Ports.h - Ports of a plan --------------------------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_PORTS_H
#define BINADE_LIB_KERNELS_PLAN_PORTS_H

#include "binade/IR/Interface.h"
#include "binade/Kernels/EmitPlan.h"

namespace mlir::binade {

/// For each result of a function, the argument that it replaces, which has the
/// same role and name.
using Replaced = SmallVector<std::optional<unsigned>>;

/// A program of the plan, and the arguments of `@step` that are its arguments.
struct Program {
  func::FuncOp function;
  SmallVector<unsigned> arguments;
  Replaced replaced;
};

/// Returns the programs of `module`, `@step` first. Reports duplicate ports,
/// results whose types differ from the argument they replace, arguments that
/// `@step` does not have, and a missing `@step`.
FailureOr<SmallVector<Program>> findPrograms(ModuleOp module);

::binade::plan::Role getPlanRole(Role role);

/// Returns the initial value of the port `name`, from a `binade.init` or the
/// value of a constant; nothing if `init` is null. Tensors that the plan cannot
/// describe are added to `tensors`, for the bundle.
::binade::plan::Init
getInit(Attribute init, StringRef name,
        std::vector<std::pair<std::string, DenseElementsAttr>> &tensors);

/// Returns the range that the optimizer rule allows for a hyper-parameter of
/// `@step`; nothing if no rule reads it.
std::optional<::binade::NumberRange> findNumberRange(Value hyper);

/// Returns the formats and ports of the quantized optimizer states of `step`.
std::vector<::binade::plan::QuantizedStates>
findQuantizedStates(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_PORTS_H
