//===- Summary.h - how often each format was chosen -------------*- C++ -*-===//

#ifndef BINADE_PRECISION_SUMMARY_H
#define BINADE_PRECISION_SUMMARY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

namespace mlir::binade {

struct PrecisionSummary {
  /// Format, as MLIR prints it: number of ops that compute in it, of those
  /// whose format a policy may choose.
  std::map<std::string, int64_t> ops;
  /// Format: number of casts that lead to it.
  std::map<std::string, int64_t> casts;
};

/// Counts in a function whose decisions were made types, before its kernels
/// are formed.
PrecisionSummary summarizePrecision(func::FuncOp function);

} // namespace mlir::binade

#endif // BINADE_PRECISION_SUMMARY_H
