//===- GpuContractions.h - Contractions of GPU kernels ----------*- C++ -*-===//
//
// The contractions of a plan, as far as a kernel depends on them. Sums are
// computed in f32 and rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TARGET_GPUCONTRACTIONS_H
#define BINADE_TARGET_GPUCONTRACTIONS_H

#include "binade/Container/DType.h"
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace mlir::binade {

/// An operand or the result of a matmul. Strides are in elements: of the batch
/// axes, from row to row, and from column to column.
struct GpuMatrix {
  /// F32, F16 or BF16; operands may also be F8_E4M3 or F8_E5M2.
  ::binade::DType dtype = ::binade::DType::F32;
  std::vector<int64_t> batch;
  int64_t rows = 0, columns = 1;
  int64_t alignment = 1; ///< Of the address, in bytes.

  bool operator==(const GpuMatrix &) const = default;
};

/// The f32 scale of an operand: one value, or with `block` one per block.
/// Strides are in elements, along rows (for rhs columns) and along the
/// contracted axis.
struct GpuScale {
  int64_t entryStride = 0, termStride = 0;

  bool operator==(const GpuScale &) const = default;
};

/// The elements that share a scale: rows of lhs, columns of rhs, and terms of
/// the contraction of both, a multiple of 32.
struct GpuScaleBlock {
  int64_t m = 1, n = 1, k = 1;

  bool operator==(const GpuScaleBlock &) const = default;
};

/// out[b.., i, j] =
///     round(scales * sum over l of lhs[b.., i, l] * rhs[b.., l, j]
///           + bias[j] (+ out[b.., i, j] if `accumulate`)),
/// as in the plan. With `block`, which needs both scales and no batch, the
/// partial sum of each block is multiplied by its scales.
struct GpuMatmul {
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  GpuMatrix lhs, rhs, out;
  std::optional<GpuMatrix> bias; ///< Only `columns` is used.
  bool accumulate = false;
  std::optional<GpuScale> lhsScale = {}, rhsScale = {};
  std::optional<GpuScaleBlock> block;
  /// Whether there is a workspace of `getWorkspaceBytes` for partial sums.
  bool workspace = false;

  bool operator==(const GpuMatmul &) const = default;
};

/// A convolution of the plan, or a gradient of one. For gradients, `y` is the
/// gradient of the output.
struct GpuConvolution {
  enum Direction { Forward, InputGrad, WeightGrad };
  Direction direction = Forward;
  ::binade::DType x = ::binade::DType::F32, weight = x, y = x;
  std::optional<::binade::DType> bias;
  int64_t batch = 1, inChannels = 1, outChannels = 1, groups = 1;
  std::vector<int64_t> input, kernel, output; ///< Spatial sizes.
  std::vector<int64_t> strides, dilations, paddingLow;
  bool channelsLast = false;
  int64_t alignment = 1; ///< Of all addresses, in bytes.
  bool workspace = false;

  bool operator==(const GpuConvolution &) const = default;
};

/// An attention of the plan, or its gradients. `format` is the type of query,
/// key, value and dy: BF16 or F16. Numbers of columns are multiples of 16, and
/// columns are contiguous.
struct GpuAttention {
  /// The largest magnitude of `lse` with which exp(score - lse) is exact enough
  /// for gradients. Biases, or a finite fill, may give larger ones.
  static constexpr double kMaxExactStatistic = 64;

  /// An operand or a result. Strides are in elements: of the batch axes, and
  /// from row to row.
  struct Tensor {
    ::binade::DType dtype = ::binade::DType::F32;
    std::vector<int64_t> batch;
    int64_t rows = 1;
    int64_t alignment = 1; ///< Of the address, in bytes.
    int64_t columns = 1;   ///< Not 1 only for biases and masks.

    bool operator==(const Tensor &) const = default;
  };
  struct Dropout {
    double ratio = 0;
    int64_t stream = 0;

    bool operator==(const Dropout &) const = default;
  };
  /// What changes scores and probabilities, as in the plan. Biases and mask
  /// have a row per query and a column per key, and strides of 0 along the axes
  /// along which they are broadcast.
  struct Extras {
    std::vector<Tensor> biases;
    std::optional<Tensor> mask;
    std::optional<Dropout> dropout;
    double softcap = 0, fill = -std::numeric_limits<double>::infinity();
    bool zeroHidden = false, zeroNan = false;

    /// Whether scores are not only scaled products, but for the causal mask.
    bool changeScores() const {
      return softcap != 0 || !biases.empty() || mask;
    }
    /// Whether `exp(score - lse)` is exact enough for gradients, as in the
    /// plan.
    bool haveExactStatistic() const {
      return biases.empty() && (!mask || std::isinf(fill));
    }
    /// Whether a thread has more values per score than plain attention.
    bool needRegisters() const { return changeScores() || dropout; }
    bool operator==(const Extras &) const = default;
  };
  ::binade::DType format = ::binade::DType::BF16;
  std::vector<int64_t> batch;
  int64_t queries = 1, keys = 1, depth = 16, width = 16;
  double scale = 1;
  bool causal = false;
  /// Whether the heads of the last batch axis share key and value, and add up
  /// their gradients; the strides of these along the axis are 0.
  bool grouped = false;
  /// query, key, value, y and lse; for gradients also dy, dquery, dkey and
  /// dvalue. Biases, mask, the state of the generator and gradients of biases
  /// follow as arguments of the kernel.
  std::vector<Tensor> tensors;
  Extras extras;
  /// The gradient of bias `bias`, summed over the axes on which its strides are
  /// 0.
  struct BiasGradient {
    size_t bias = 0;
    Tensor out;

    bool operator==(const BiasGradient &) const = default;
  };
  std::vector<BiasGradient> biasGradients;

  bool areGradients() const { return tensors.size() > 5; }
  bool operator==(const GpuAttention &) const = default;
};

/// Return the bytes of workspace with which the kernel splits its sums between
/// several blocks (split-K), so that a result with few tiles uses the whole
/// device; 0 if it has enough tiles.
int64_t getWorkspaceBytes(const GpuMatmul &product);
int64_t getWorkspaceBytes(const GpuConvolution &convolution);

/// Returns the bytes that the first kernel of the gradients passes to the
/// others; 0 for the forward pass.
int64_t getWorkspaceBytes(const GpuAttention &attention);

} // namespace mlir::binade

#endif // BINADE_TARGET_GPUCONTRACTIONS_H
