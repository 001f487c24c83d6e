//===- Attention.h - What kinds of attention share --------------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H
#define BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H

#include "../Node.h"

namespace mlir::binade::importer {

/// Heads of input `index`, [batch, length, heads * size], become an axis:
/// [batch, heads, length, size].
Value splitHeads(Node &node, unsigned index, int64_t heads);
/// The reverse.
Value joinHeads(ImplicitLocOpBuilder &b, Value x);

/// Keys or values [batch, heads, length, size] for `heads` heads of queries, a
/// multiple: each serves several, which are neighbours.
Value spreadHeads(ImplicitLocOpBuilder &b, Value x, int64_t heads);

/// scale query key^T, each side times the root, so that nothing overflows; f32
/// at least.
Value buildScores(ImplicitLocOpBuilder &b, Value query, Value key,
                  double scale);

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_OPS_ATTENTION_H
