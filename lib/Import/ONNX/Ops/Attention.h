//===- Attention.h - Building blocks of attention ---------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H
#define BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H

#include "../Node.h"

namespace mlir::binade::importer {

/// Reshapes input `index` from [batch, length, heads * size] to [batch, heads,
/// length, size].
Value splitHeads(Node &node, unsigned index, int64_t heads);
/// Reshapes `x` from [batch, heads, length, size] to [batch, length, heads *
/// size].
Value joinHeads(ImplicitLocOpBuilder &b, Value x);

/// Repeats the heads of keys or values [batch, heads, length, size] for `heads`
/// heads of queries, a multiple: consecutive query heads share one
/// (grouped-query attention).
Value repeatHeads(ImplicitLocOpBuilder &b, Value x, int64_t heads);

/// Builds scale * query key^T in f32 or wider. Each side is multiplied by the
/// square root of the scale, so that the product does not overflow.
Value buildScores(ImplicitLocOpBuilder &b, Value query, Value key,
                  double scale);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H
