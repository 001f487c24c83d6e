//===- OperatorLedger.h - Saved memory counted per operator -----*- C++ -*-===//
//
// Counts activations as papers and frameworks do: each operator keeps what its
// own backward pass reads. A compiler that sees the whole step saves less.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_PRECISION_OPERATORLEDGER_H
#define BINADE_PRECISION_OPERATORLEDGER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// A row of the ledger: the operators of one kind.
struct OperatorRow {
  std::string name; ///< The kinds of their ops, in order.
  int64_t operators = 0;
  int64_t tensors = 0; ///< Tensors that they keep and no earlier row does.
  uint64_t bytes = 0;  ///< Without scales.
  uint64_t scaleBytes = 0;
};

/// Counts the saved tensors of a step whose formats are decided, but whose
/// types are not changed yet, by these rules:
///
///   - Ops that depend on only one tensor, apart from parameters and constants,
///     form one operator, such as a norm or a rotation. It keeps that tensor if
///     the adjoint of one of its ops reads a forward value. A contraction, or
///     an op that combines several tensors, is an operator of its own and keeps
///     what its adjoint reads.
///   - A tensor is kept once, whatever its shape or axis order, in the widest
///     format that an operator needs. It counts for its first reader.
///   - Contractions keep operands in the format in which they read them; other
///     operators keep them in the format of their producer, or in the policy's
///     saved format.
std::vector<OperatorRow> countByOperators(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_PRECISION_OPERATORLEDGER_H
