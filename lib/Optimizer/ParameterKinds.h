//===- ParameterKinds.h - what a model's parameters are ---------*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H
#define BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H

#include "binade/IR/Interface.h"

namespace mlir::binade {

/// What names of functions end with that answer to gradients which are not
/// finite.
inline constexpr StringLiteral kShrink = "shrink";

/// What `parameter` is to an optimizer, by shape and readers in the forward
/// part: an embedding where rows of it are looked up, a scale where it has one
/// axis and something multiplies with it.
ParameterKind getParameterKind(Value parameter);

/// Whether `rule` is for parameters of `kind`.
bool isFor(OptimizerOp rule, ParameterKind kind);

/// The `prepare` of `rule` for a parameter of this kind and shape, or null.
/// `form` takes the place of the one without a name, and `mode` is what runs
/// add to all names; both may be empty.
func::FuncOp choosePrepare(OptimizerOp rule, ParameterKind kind,
                           ArrayRef<int64_t> shape, StringRef form,
                           StringRef mode);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_PARAMETERKINDS_H
