//===- Summary.h - Counts of the chosen formats -----------------*- C++ -*-===//

#ifndef BINADE_PRECISION_SUMMARY_H
#define BINADE_PRECISION_SUMMARY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

namespace mlir::binade {

struct PrecisionSummary {
  /// The number of ops that compute in each format, by its name in MLIR. Only
  /// ops whose format a policy may choose are counted.
  std::map<std::string, int64_t> ops;
  /// The number of casts to each format.
  std::map<std::string, int64_t> casts;
};

/// Counts the formats of a function after `binade-materialize-precision` and
/// before kernels are formed.
PrecisionSummary summarizePrecision(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_PRECISION_SUMMARY_H
