//===- NormRows.h - What a norm over the last axes works on -----*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H
#define BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H

#include "../Node.h"

namespace mlir::binade::importer {

/// Input 0 of a norm over the axes from `axis` on: several are one after a
/// reshape.
struct NormRows {
  SmallVector<int64_t> shape; ///< [leading axes..., length]
  SmallVector<int64_t> row;   ///< The axes that are normalized.
  int64_t length = 0;

  ArrayRef<int64_t> leading() const { return ArrayRef(shape).drop_back(); }

  /// `statistic` [leading axes...] with axes of one element in place of the
  /// row's.
  Value expand(ImplicitLocOpBuilder &b, Value statistic) const;
};

/// The rows that attribute `axis` makes of input 0, which has to be floats.
FailureOr<NormRows> readRows(Node &node);

/// Input `index`, called `name` in errors, as [length]; null where it is left
/// out. It may be broadcast along the row.
FailureOr<Value> readRowParameter(Node &node, unsigned index, StringRef name,
                                  const NormRows &rows);

/// RMS norm of input 0 with input 1 as scale, which output 0 is set to.
FailureOr<RmsNormOp> importRmsNorm(Node &node, const NormRows &rows);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_NORMROWS_H
