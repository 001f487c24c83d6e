//===- Ports.h - the step's interface in a plan -----------------*- C++ -*-===//

#ifndef BINADE_LIB_KERNELS_PORTS_H
#define BINADE_LIB_KERNELS_PORTS_H

#include "binade/IR/Interface.h"
#include "binade/Kernels/EmitPlan.h"

namespace mlir::binade {

/// For each result of `step` the argument that it replaces, which has its role
/// and name. Reports what would have two meanings, and results that would not
/// fit.
using Replaced = SmallVector<std::optional<unsigned>>;
FailureOr<Replaced> findReplaced(func::FuncOp step);

/// `@evaluate`, null where there is none, and for each of its arguments that of
/// `@step` with its role and name. Reports arguments that the step does not
/// have, and results other than the one loss.
struct Evaluation {
  func::FuncOp function;
  SmallVector<unsigned> arguments;
};
FailureOr<Evaluation> findEvaluation(ModuleOp module, func::FuncOp step);

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

} // namespace mlir::binade

#endif // BINADE_LIB_KERNELS_PORTS_H
