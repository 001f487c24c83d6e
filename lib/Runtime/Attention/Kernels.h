//===- Kernels.h - Fused attention of a head --------------------*- C++ -*-===//
// The kernels compute attention, and its gradients, of one head at a time. They
// keep the scores of a block of queries in private memory of a thread, which
// fits into its caches. Operands are converted to the format of the
// instruction set's multiply-adds and copied into the layout that these need.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_ATTENTION_KERNELS_H
#define BINADE_LIB_RUNTIME_ATTENTION_KERNELS_H

#include "binade/Container/DType.h"
#include <cstddef>
#include <cstdint>

namespace binade::attention {

/// Dropout of probabilities, derived from `plan::AttentionExtras::Dropout`.
struct Dropout {
  /// The largest random word with which a probability is dropped.
  std::uint32_t largestDropped = 0;
  float scale = 1; ///< Multiplies the probabilities that are kept.
  std::uint32_t stream = 0;
};

/// What all heads have in common.
struct Shape {
  /// The type of query, key, value and the gradient of y, to which
  /// probabilities are rounded before they are multiplied.
  DType dtype = DType::F32;
  std::int64_t queries = 0, keys = 0;
  std::int64_t depth = 0; ///< Columns of query and key.
  std::int64_t width = 0; ///< Columns of value and y.
  float scale = 1;
  bool causal = false;
  std::int64_t biases = 0;
  bool hasMask = false;
  float fill = 0; ///< The score where the mask is false.
  /// As in `plan::AttentionExtras`.
  bool zeroHidden = false, zeroNan = false, hasExactStatistic = true;
  float softcap = 0; ///< 0 if scores have none.
  bool hasDropout = false;
  Dropout dropout;

  /// Whether scores are products times the scale.
  bool hasPlainScores() const {
    return biases == 0 && !hasMask && softcap == 0;
  }
};

/// A matrix whose rows are dense. Row i starts at element i * stride.
struct Rows {
  std::byte *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t stride = 0;
};

/// A bias or a mask of a head, which may be broadcast: the element of a query
/// and a key is at their numbers times these strides.
struct ScoreOperand {
  const std::byte *data = nullptr;
  DType dtype = DType::F32;
  std::int64_t queryStride = 0, keyStride = 0;
};

/// What determines the random words of a head.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  /// The index of the first score of the head among those of all heads.
  std::uint64_t firstIndex = 0;
};

struct Head {
  Rows query, key, value, y;
  float *lse = nullptr;
  std::int64_t lseStride = 1;
  /// Gradients of y and of the query. Those of key and value are not part of a
  /// head, because several heads may share them.
  Rows dy, dquery;
  /// The f32 gradient of a bias, to which the gradients of scores are added;
  /// may be null.
  Rows dbias;
  const ScoreOperand *biases = nullptr, *mask = nullptr;
  RandomState random;
};

/// The kernels for one instruction set and one format.
struct Kernels {
  const char *name;
  /// Return the bytes of private memory of a thread, aligned to 64 bytes.
  std::int64_t (*countForwardBytes)(const Shape &shape);
  std::int64_t (*countBackwardBytes)(const Shape &shape);

  /// Prepares the keys and values of a head in `memory` for `computeRows`.
  void (*prepareKeys)(const Shape &shape, const Head &head, std::byte *memory);
  /// Computes `count` rows of `y` and `lse` from row `first` on. A row does not
  /// depend on the other rows, nor on how they are divided among calls.
  void (*computeRows)(const Shape &shape, const Head &head, std::int64_t first,
                      std::int64_t count, std::byte *memory);

  /// Sets the gradients of keys and values in `memory` to 0.
  void (*clearGradients)(const Shape &shape, std::byte *memory);
  /// Computes `dquery`, and adds what a head contributes to the gradients of
  /// keys and values to those in `memory`.
  void (*addGradients)(const Shape &shape, const Head &head, std::byte *memory);
  /// Writes the gradients of keys and values.
  void (*writeGradients)(const Shape &shape, const Rows &dkey,
                         const Rows &dvalue, std::byte *memory);

  /// Four functions that sum a part of the gradient of a bias over heads. If
  /// `areQueriesSummed`, all queries add to one row; otherwise each query has a
  /// row, and a call has at most `kMaxBiasRows` queries.
  std::int64_t (*countBiasBytes)(const Shape &shape);
  void (*clearBiasGradient)(const Shape &shape, std::byte *memory);
  /// Adds the gradients of the scores of `count` queries from `first` on.
  void (*addToBiasGradient)(const Shape &shape, const Head &head,
                            std::int64_t first, std::int64_t count,
                            bool areQueriesSummed, std::byte *memory);
  /// Writes the first `count` rows of the sum; if `areKeysSummed`, the sum of
  /// each row over the keys.
  void (*writeBiasGradient)(const Shape &shape, const Rows &to,
                            std::int64_t count, bool areKeysSummed,
                            std::byte *memory);
};

/// The maximum number of rows of the gradient of a bias that a task computes.
constexpr std::int64_t kMaxBiasRows = 128;

/// An instruction set for which there are kernels, in ascending order.
enum class Level { Avx2, Avx512, Avx512Bf16, Amx };

/// Returns the highest level that this CPU and its operating system support,
/// limited by the environment variable BINADE_ISA.
Level getHighestLevel();

/// Returns the kernels that a machine with `level` uses for operands of
/// `dtype`: f32 multiply-adds unless the level has instructions for this
/// format.
const Kernels &getKernels(Level level, DType dtype);

/// The kernels of a level: for F32, BF16 and F16.
struct LevelKernels {
  Kernels f32, bf16, f16;
};
extern const LevelKernels avx2Kernels, avx512Kernels;
extern const Kernels avx512Bf16Kernels, amxKernels;

} // namespace binade::attention

#endif // BINADE_LIB_RUNTIME_ATTENTION_KERNELS_H
