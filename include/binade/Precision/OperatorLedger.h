//===- OperatorLedger.h - what operators keep, one by one -------*- C++ -*-===//
//
// How papers and frameworks count activations: each operator keeps what its own
// backward part reads. A compiler that sees the whole step keeps less.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_PRECISION_OPERATORLEDGER_H
#define BINADE_PRECISION_OPERATORLEDGER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Operators of one kind.
struct OperatorRow {
  std::string name; ///< The ops that they consist of, in order.
  int64_t operators = 0;
  int64_t tensors = 0; ///< That they keep and no row before them does.
  uint64_t bytes = 0;  ///< Without scales.
  uint64_t scaleBytes = 0;
};

/// Counts in a step whose formats are decided and no types yet, by these rules:
///
/// - Ops that depend on one tensor alone, beside parameters and constants, are
///   one operator with it, such as a norm or a rotation; it keeps that tensor
///   if its adjoint reads any. An op that sums products, or joins several
///   tensors, is an operator of its own and keeps what its adjoint reads.
/// - A tensor is kept once, whatever its shape or order, in the widest format
///   that an operator needs; it counts where it is first read.
/// - Sums of products keep operands in the format in which they read them, the
///   others in that in which they were made, or as the policy lets them wait.
std::vector<OperatorRow> countByOperators(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_PRECISION_OPERATORLEDGER_H
