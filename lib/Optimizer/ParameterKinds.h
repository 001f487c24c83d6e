//===- ParameterKinds.h - Kinds of parameters -------------------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H
#define BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// The suffix of functions that handle gradients which are not finite.
inline constexpr StringLiteral kShrink = "shrink";

/// Returns the kind of `parameter`, by its shape and readers in the forward
/// pass: an embedding if its rows are looked up, a scale if it has one axis and
/// is a factor.
ParameterKind getParameterKind(Value parameter);

/// Whether `rule` updates parameters of `kind`.
bool isFor(OptimizerOp rule, ParameterKind kind);

/// Returns the `prepare` of `rule` for a parameter of this kind and shape, or
/// null. `form` replaces the function without a suffix, and `mode` is appended
/// to all names; both may be empty.
func::FuncOp choosePrepare(OptimizerOp rule, ParameterKind kind,
                           ArrayRef<int64_t> shape, StringRef form,
                           StringRef mode);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H
