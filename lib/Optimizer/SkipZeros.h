//===- SkipZeros.h - Leave elements without gradient unchanged --*- C++ -*-===//

#ifndef BINADE_LIB_OPTIMIZER_SKIPZEROS_H
#define BINADE_LIB_OPTIMIZER_SKIPZEROS_H

#include "binade/IR/Rules.h"

namespace mlir::binade {

/// The setting that `skipZeros` adds to a rule.
inline constexpr StringLiteral kSkipZeros = "skip_zeros";

/// Makes `rule` leave elements whose gradient is 0 and their states unchanged
/// where the setting `skip_zeros` is 1. Emits an error if the rule computes on
/// whole tensors.
LogicalResult skipZeros(OptimizerOp rule);

} // namespace mlir::binade

#endif // BINADE_LIB_OPTIMIZER_SKIPZEROS_H
