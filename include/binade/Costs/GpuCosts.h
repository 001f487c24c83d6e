//===- GpuCosts.h - Predicted times on a GPU --------------------*- C++ -*-===//
//
// How long matmuls and passes over memory take on a GPU, from rates that were
// measured on it (lib/Costs/Chips). Passes that choose between ways to compute
// a value on a GPU compare these times.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_COSTS_GPUCOSTS_H
#define BINADE_COSTS_GPUCOSTS_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <string>
#include <vector>

namespace mlir::binade {

/// A matmul of an m x k by a k x n matrix, `batch` times.
struct MatmulShape {
  /// Returns the shape of a matmul whose result has `elements` elements in rows
  /// of `columns`, each a sum of `macs / elements` products. Matrices of a
  /// batch count as one.
  static MatmulShape get(int64_t elements, int64_t columns, int64_t macs) {
    MatmulShape shape;
    shape.n = columns;
    shape.m = elements / columns;
    shape.k = macs / elements;
    return shape;
  }

  int64_t m = 1, n = 1, k = 1, batch = 1;
  /// Bytes of an element of the operands (1, 2 or 4), and of the result.
  unsigned bytes = 2;
  unsigned outBytes = 2;
  /// Whether the products are added to what the result holds.
  bool accumulates = false;
};

/// What tiles of a matmul take: operations per second of the whole GPU in large
/// tiles, seconds from one wave of tiles to the next, seconds to start, and how
/// much of its rate a tile loses, in elements of its sides.
struct MatmulLaw {
  double rate = 0, wave = 0, start = 0, edge = 0;
};

/// What results in f32 cost.
struct MatmulEpilogue {
  double exposed = 0; ///< The share of the time to write them not hidden.
  /// Bytes per second of reading what the products are added to.
  double accumulateRate = 0;
};

/// The microseconds of a measured matmul with a 16-bit result.
struct MeasuredMatmul {
  int64_t m = 0, n = 0, k = 0;
  int64_t bytes = 2;
  double us = 0;
};

/// The size of gradients of attention.
struct AttentionShape {
  int64_t heads = 1; ///< Of all samples.
  int64_t queries = 1, keys = 1;
  int64_t depth = 1; ///< Columns of query and key.
  int64_t width = 1; ///< Columns of value and result.
  bool causal = false;
  bool grouped = false; ///< Whether heads share keys and values.

  int64_t getColumns() const { return std::max(depth, width); }
  /// Returns the number of scores in tiles of 128 x 128 that a causal mask does
  /// not hide, or of all scores.
  double countScores() const;
  /// Returns the workspace with which cuDNN 9.19 computes the gradients of all
  /// heads at once on Hopper. Its deterministic engine keeps what each block of
  /// keys adds to the gradient of each query, so that the size grows with the
  /// square of the context.
  uint64_t countWorkspaceBytes() const;
};

/// The terms of the time that the gradients of attention take, in seconds. All
/// are 0 if cuDNN has no deterministic engine for the GPU.
struct AttentionGradientLaw {
  double score = 0;        ///< Of a score, by cuDNN.
  double column = 0;       ///< Of a score and a column of a head, by cuDNN.
  double query = 0;        ///< Of a query of a head, by cuDNN.
  double part = 0;         ///< Of each part after the first, by cuDNN.
  double kernelScore = 0;  ///< Of a score, by the bundle's kernels.
  double kernelColumn = 0; ///< Of a score and a column, by these.
};

/// The rates of a GPU, as a file of lib/Costs/Chips has them.
struct GpuRates {
  std::string name;
  int64_t multiprocessors = 0;
  /// Seconds from a kernel of a graph to the next one, if both do nothing.
  double start = 0;
  /// Bytes per second that large kernels read and write in memory.
  double memory = 0;
  /// The laws for operands of 16, 8 and 32 bits.
  MatmulLaw bf16, fp8, f32;
  MatmulEpilogue epilogue;
  AttentionGradientLaw attentionGradients;
  std::vector<MeasuredMatmul> matmuls;
};

/// Predicts times on one GPU.
class GpuCosts {
public:
  /// Returns the costs of `chip`, such as "sm_90", or null if no file has them.
  static const GpuCosts *find(StringRef chip, MLIRContext *context);
  /// Returns the names of the chips that have a file, sorted.
  static std::vector<StringRef> getNames();

  explicit GpuCosts(GpuRates rates);

  const GpuRates &getRates() const { return rates; }

  /// Returns the seconds of a matmul by NVIDIA's library: what the law of its
  /// tiles says, times what measured matmuls of similar shapes took in
  /// proportion to it.
  double predictMatmul(const MatmulShape &shape) const;

  /// Returns the seconds of the gradients of attention by cuDNN in `parts`
  /// parts, or by a bundle's kernels; 0 if cuDNN has no engine for them.
  double predictLibraryGradients(const AttentionShape &shape,
                                 int64_t parts) const;
  double predictKernelGradients(const AttentionShape &shape) const;

  /// Returns the seconds of a kernel that only reads and writes `bytes`.
  double predictPass(double bytes) const {
    return rates.start + bytes / rates.memory;
  }

private:
  const MatmulLaw &getLaw(unsigned bytes) const;
  double applyLaw(const MatmulShape &shape) const;
  double correct(const MatmulShape &shape) const;

  GpuRates rates;
  /// For each measured matmul, the logarithm of its time over that of the law.
  std::vector<double> corrections;
};

} // namespace mlir::binade

#endif // BINADE_COSTS_GPUCOSTS_H
