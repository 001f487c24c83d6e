//===- Ports.h - the step's interface in a plan -----------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PLAN_PORTS_H
#define BINADE_LIB_KERNELS_PLAN_PORTS_H

#include "binade/IR/Interface.h"
#include "binade/Kernels/EmitPlan.h"

namespace mlir::binade {

/// For each result of a function the argument that it replaces, which has its
/// role and name.
using Replaced = SmallVector<std::optional<unsigned>>;

/// A function of the plan, and which arguments of `@step` its own are.
struct Program {
  func::FuncOp function;
  SmallVector<unsigned> arguments;
  Replaced replaced;
};

/// Those that `module` has, `@step` first. Reports what would have two
/// meanings, results that would not fit, arguments that the step does not have,
/// and a module without it.
FailureOr<SmallVector<Program>> findPrograms(ModuleOp module);

::binade::plan::Role getPlanRole(Role role);

/// How a port that is called `name` gets its bytes, from a `binade.init` or a
/// constant's value; none for null. Elements that the plan cannot describe are
/// added to `tensors`, which the bundle takes.
::binade::plan::Init
getInit(Attribute init, StringRef name,
        std::vector<std::pair<std::string, DenseElementsAttr>> &tensors);

/// The numbers that the optimizer's rule allows for a hyper-parameter of
/// `@step`; none where no rule reads it.
std::optional<::binade::NumberRange> findNumberRange(Value hyper);

/// What the codes among the states of `step` stand for.
std::vector<::binade::plan::QuantizedStates>
findQuantizedStates(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PLAN_PORTS_H
