//===- GpuContractions.h - products of a plan and their like ----*- C++ -*-===//
//
// As far as a kernel depends on them. Sums are f32 and rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_TARGET_GPUCONTRACTIONS_H
#define BINADE_TARGET_GPUCONTRACTIONS_H

#include "binade/Container/DType.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::binade {

/// An operand or the result of a product. Strides are in elements: those of the
/// product's batch axes, from row to row and from column to column.
struct GpuMatrix {
  /// F32, F16 or BF16; of lhs and rhs F8_E4M3 or F8_E5M2, too.
  ::binade::DType dtype = ::binade::DType::F32;
  std::vector<int64_t> batch;
  int64_t rows = 0, columns = 1;
  int64_t alignment = 1; ///< Of its address, in bytes.

  bool operator==(const GpuMatrix &) const = default;
};

/// What f32 an operand is multiplied by: one, or with a block those of blocks,
/// from one to the next along rows (of rhs columns) and terms.
struct GpuScale {
  int64_t entryStride = 0, termStride = 0;

  bool operator==(const GpuScale &) const = default;
};

/// What shares a scale: rows of lhs, columns of rhs, and terms of both, a
/// multiple of 32.
struct GpuScaleBlock {
  int64_t m = 1, n = 1, k = 1;

  bool operator==(const GpuScaleBlock &) const = default;
};

/// out[b.., i, j] = round(scales * sum over l of lhs[b.., i, l] * rhs[b.., l,
/// j]
///                        + bias[j] (+ out[b.., i, j] if `accumulate`)),
/// as a plan's. With `block`, which needs both scales and no batch, sums of its
/// terms are multiplied by their scales.
struct GpuProduct {
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  GpuMatrix lhs, rhs, out;
  std::optional<GpuMatrix> bias; ///< Has columns only.
  bool accumulate = false;
  std::optional<GpuScale> lhsScale, rhsScale;
  std::optional<GpuScaleBlock> block;
  /// Whether there is memory of `getWorkspaceBytes` for partial sums.
  bool workspace = false;

  bool operator==(const GpuProduct &) const = default;
};

/// A plan's convolution. `y` is the gradient of the output where `x` or
/// `weight` is written.
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

/// A plan's attention, or its gradients. `format` is that of query, key, value
/// and dy: BF16 or F16. Columns are multiples of 16, and dense.
struct GpuAttention {
  /// An operand or a result. Strides are in elements, of the batch axes and
  /// from row to row.
  struct Tensor {
    ::binade::DType dtype = ::binade::DType::F32;
    std::vector<int64_t> batch;
    int64_t rows = 1;
    int64_t alignment = 1; ///< Of its address, in bytes.

    bool operator==(const Tensor &) const = default;
  };
  ::binade::DType format = ::binade::DType::BF16;
  std::vector<int64_t> batch;
  int64_t queries = 1, keys = 1, depth = 16, width = 16;
  double scale = 1;
  bool causal = false;
  /// query, key, value, y and lse, and for gradients dy, dquery, dkey and
  /// dvalue.
  std::vector<Tensor> tensors;

  bool areGradients() const { return tensors.size() > 5; }
  bool operator==(const GpuAttention &) const = default;
};

/// What a kernel would use that adds up parts of its sums in several blocks, so
/// that a result of few tiles keeps a device busy; 0 where it has enough.
int64_t getWorkspaceBytes(const GpuProduct &product);
int64_t getWorkspaceBytes(const GpuConvolution &convolution);

/// What the kernels of gradients hand from one to the other.
int64_t getWorkspaceBytes(const GpuAttention &attention);

} // namespace mlir::binade

#endif // BINADE_TARGET_GPUCONTRACTIONS_H
