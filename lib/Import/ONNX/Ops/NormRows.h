//===- NormRows.h - Rows of norms over the last axes ------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H
#define BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H

#include "../Node.h"

namespace mlir::binade::importer {

/// The shape of input 0 of a norm over the axes from `axis` on, which are
/// merged into one by a reshape.
struct NormRows {
  SmallVector<int64_t> shape; ///< [leading axes..., length]
  SmallVector<int64_t> row;   ///< The axes that are normalized.
  int64_t length = 0;

  ArrayRef<int64_t> leading() const { return ArrayRef(shape).drop_back(); }

  /// Reshapes `statistic` [leading axes...] to have axes of length 1 in place
  /// of the normalized ones.
  Value expand(ImplicitLocOpBuilder &b, Value statistic) const;
};

/// Returns the rows of input 0 by attribute `axis`; fails unless the elements
/// are floats.
FailureOr<NormRows> readRows(Node &node);

/// Returns input `index`, called `name` in errors, broadcast to the row and
/// reshaped to [length]; null if it is left out.
FailureOr<Value> readRowParameter(Node &node, unsigned index, StringRef name,
                                  const NormRows &rows);

/// Sets output 0 to the RMS norm of input 0 with input 1 as scale.
FailureOr<RmsNormOp> importRmsNorm(Node &node, const NormRows &rows);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H
