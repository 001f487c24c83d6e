//===- OwnMatmul.cpp - Matmuls without oneDNN -----------------------------===//
// The right side is packed; then blocks of rows are parallel tasks, each of
// which packs its rows of the left side. A large right side is packed by all
// threads before the tasks, in parts that fit into a cache. A small one, such
// as that of an attention head, is packed by each task, and tasks are also
// parallel over the batch.
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "TiledOperation.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace binade;
using namespace binade::plan;

namespace {
/// An operand of the matmul, with its batch strides.
struct MatmulOperand {
  Address address;
  DType dtype;
  std::vector<std::int64_t> batch; ///< Strides of the batch axes.
  std::int64_t rowStride, columnStride;

  MatmulOperand(const View &view, const Memory &memory)
      : address(memory.addressOf(view)), dtype(memory.typeOf(view)),
        batch(view.strides.begin(), view.strides.end() - 2),
        rowStride(view.strides.end()[-2]),
        columnStride(view.strides.end()[-1]) {}

  std::byte *element(std::byte *base, std::int64_t offset) const {
    return base + offset * static_cast<std::int64_t>(byteSize(dtype));
  }
};

class OwnMatmul : public TiledOperation {
public:
  OwnMatmul(const Matmul &matmul, const Memory &memory, unsigned threads,
            const tile::Kernels &kernels);
  void run(const ExecutionContext &context) override;

private:
  /// The addresses of the operands of one batch element.
  struct Position {
    std::byte *lhs, *rhs, *out;
  };
  Position positionOf(std::int64_t index) const;
  void packRhs(const Position &at, std::int64_t column, std::int64_t columns,
               float *to) const;
  void multiplyRows(const Position &at, std::int64_t row, std::int64_t column,
                    std::int64_t columns, const float *rhs,
                    float *memory) const;
  /// Adds the sums of the block of terms from `depth` on, multiplied by their
  /// scales, to `totals`.
  void addScaled(const float *sums, float *totals, std::int64_t row,
                 std::int64_t rows, std::int64_t column, std::int64_t columns,
                 std::int64_t depth) const;
  void runPrivately(const ExecutionContext &context);
  void runShared(const ExecutionContext &context);

  MatmulOperand lhs, rhs, out;
  std::optional<Address> lhsScale, rhsScale, bias;
  std::optional<ScaleBlock> block;
  /// Strides of the scales from block to block: along rows (or columns), and
  /// along the contracted axis.
  std::vector<std::int64_t> lhsScaleStrides, rhsScaleStrides;
  DType biasType = DType::F32;
  std::int64_t biasStride = 0;
  std::vector<std::int64_t> batch;
  std::int64_t m, n, k;
  bool accumulate;

  std::int64_t batchCount;
  bool packsPrivately; ///< Whether each task packs its right side.
  std::int64_t rowBlock, depthBlock;
  std::int64_t shareColumns; ///< Columns of the right side packed at a time.
  std::int64_t itemColumns;  ///< Columns of one task.
  std::int64_t sumsPitch;    ///< Distance of rows of sums in floats.
  Position base = {};
  std::byte *biasBase = nullptr;
  const float *lhsScales = nullptr, *rhsScales = nullptr;
  float scale = 1;
};
} // namespace

OwnMatmul::OwnMatmul(const Matmul &matmul, const Memory &memory,
                     unsigned threadCount, const tile::Kernels &tileKernels)
    : TiledOperation(threadCount, tileKernels), lhs(matmul.lhs, memory),
      rhs(matmul.rhs, memory), out(matmul.out, memory), block(matmul.block),
      batch(matmul.batch), m(matmul.m), n(matmul.n), k(matmul.k),
      accumulate(matmul.accumulate) {
  if (matmul.lhsScale) {
    lhsScale = memory.addressOf(*matmul.lhsScale);
    lhsScaleStrides = matmul.lhsScale->strides;
  }
  if (matmul.rhsScale) {
    rhsScale = memory.addressOf(*matmul.rhsScale);
    rhsScaleStrides = matmul.rhsScale->strides;
  }
  if (matmul.bias) {
    bias = memory.addressOf(*matmul.bias);
    biasType = memory.typeOf(*matmul.bias);
    biasStride = matmul.bias->strides[0];
  }
  batchCount = std::accumulate(batch.begin(), batch.end(), std::int64_t(1),
                               std::multiplies<>());
  // Split the contracted axis into equal parts, such that a right panel fits
  // into the L1 cache.
  std::int64_t pieces = (k + 383) / 384;
  depthBlock =
      block ? std::min(block->k, k) : roundUp((k + pieces - 1) / pieces, 16);
  std::int64_t paddedColumns = roundUp(n, kernels.columns);
  constexpr std::int64_t privateLimit = 1 << 18, shareLimit = 6 << 20;
  packsPrivately = batchCount > 1 && paddedColumns * k <= privateLimit;
  itemColumns = shareColumns = paddedColumns;
  if (!packsPrivately) {
    shareColumns =
        std::clamp(shareLimit / k / kernels.columns * kernels.columns,
                   kernels.columns, paddedColumns);
    itemColumns =
        std::min<std::int64_t>(shareColumns, roundUp(2048, kernels.columns));
  }
  // Rows of sums are in different sets of the cache.
  sumsPitch = itemColumns + 16;
  // Rows of a task: sixteen panels, or fewer if they are high or threads would
  // be idle.
  std::int64_t outer =
      packsPrivately ? batchCount : (shareColumns - 1) / itemColumns + 1;
  rowBlock = std::min<std::int64_t>(16, 224 / kernels.rows) * kernels.rows;
  while (rowBlock > 2 * kernels.rows &&
         outer * ((m - 1) / rowBlock + 1) < 3 * threads)
    rowBlock -= kernels.rows;
  rowBlock = std::min(rowBlock, roundUp(m, kernels.rows));

  sharedFloats = packsPrivately ? 0 : shareColumns * k;
  privateFloats = roundUp(rowBlock * depthBlock + 16, 16)  // left panels
                  + (block ? 2 : 1) * rowBlock * sumsPitch // sums
                  + itemColumns                            // bias
                  + (packsPrivately ? itemColumns * k : 0);
  privateFloats = roundUp(privateFloats, 16);
  sharedFloats = roundUp(sharedFloats, 16);
}

OwnMatmul::Position OwnMatmul::positionOf(std::int64_t index) const {
  std::int64_t l = 0, r = 0, o = 0;
  for (std::size_t d = batch.size(); d-- > 0; index /= batch[d]) {
    std::int64_t i = index % batch[d];
    l += i * lhs.batch[d];
    r += i * rhs.batch[d];
    o += i * out.batch[d];
  }
  return {lhs.element(base.lhs, l), rhs.element(base.rhs, r),
          out.element(base.out, o)};
}

void OwnMatmul::packRhs(const Position &at, std::int64_t column,
                        std::int64_t columns, float *to) const {
  tile::Source source{rhs.element(at.rhs, column * rhs.columnStride),
                      rhs.dtype,
                      columns,
                      rhs.columnStride,
                      k,
                      rhs.rowStride};
  kernels.packRight(source, kernels.columns, to, k * kernels.columns);
}

void OwnMatmul::multiplyRows(const Position &at, std::int64_t row,
                             std::int64_t column, std::int64_t columns,
                             const float *right, float *memory) const {
  std::int64_t rows = std::min(rowBlock, m - row);
  float *left = memory;
  float *sums = left + roundUp(rowBlock * depthBlock + 16, 16);
  float *totals = sums + (block ? rowBlock * sumsPitch : 0);
  float *biasRow = totals + rowBlock * sumsPitch;
  if (bias) {
    tile::Source source{biasBase +
                            column * biasStride *
                                static_cast<std::int64_t>(byteSize(biasType)),
                        biasType,
                        columns,
                        biasStride,
                        1,
                        0};
    kernels.pack(source, kernels.columns, biasRow, kernels.columns);
  }
  tile::PackedMatmul product;
  product.left = left;
  product.rightPitch = k * kernels.columns;
  product.rows = rows;
  product.columns = columns;
  product.sums = sums;
  product.sumsPitch = sumsPitch;
  product.target = {
      out.element(at.out, row * out.rowStride + column * out.columnStride),
      out.dtype,
      out.rowStride,
      out.columnStride,
      bias ? biasRow : nullptr,
      accumulate,
      scale};
  for (std::int64_t depth = 0; depth < k; depth += depthBlock) {
    product.depth = std::min(depthBlock, k - depth);
    product.right = right + depth * kernels.columns;
    product.first = block || depth == 0;
    product.last = !block && depth + product.depth == k;
    tile::Source source{
        lhs.element(at.lhs, row * lhs.rowStride + depth * lhs.columnStride),
        lhs.dtype,
        rows,
        lhs.rowStride,
        product.depth,
        lhs.columnStride};
    kernels.packLeft(source, kernels.rows, left, product.depth * kernels.rows);
    kernels.multiply(product);
    if (block)
      addScaled(sums, totals, row, rows, column, columns, depth);
  }
  if (!block)
    return;
  // Round the totals into the output, without further multiplications.
  product.sums = totals;
  product.depth = 0;
  product.first = false;
  product.last = true;
  kernels.multiply(product);
}

void OwnMatmul::addScaled(const float *sums, float *totals, std::int64_t row,
                          std::int64_t rows, std::int64_t column,
                          std::int64_t columns, std::int64_t depth) const {
  const float *left = lhsScales + depth / block->k * lhsScaleStrides[1],
              *right = rhsScales + depth / block->k * rhsScaleStrides[1];
  for (std::int64_t i = 0; i < rows; ++i) {
    float own = left[(row + i) / block->m * lhsScaleStrides[0]];
    for (std::int64_t j = 0; j < columns; ++j) {
      std::int64_t at = i * sumsPitch + j;
      totals[at] = std::fma(sums[at] * own,
                            right[(column + j) / block->n * rhsScaleStrides[0]],
                            depth == 0 ? 0.0f : totals[at]);
    }
  }
}

void OwnMatmul::runPrivately(const ExecutionContext &context) {
  std::int64_t blocks = (m - 1) / rowBlock + 1;
  context.team->parallelFor(
      context.threads, batchCount * blocks,
      [&](std::int64_t item, unsigned thread) {
        float *memory = privateMemory(thread);
        float *right = memory + privateFloats - roundUp(itemColumns * k, 16);
        Position at = positionOf(item / blocks);
        packRhs(at, 0, n, right);
        multiplyRows(at, item % blocks * rowBlock, 0, n, right, memory);
      });
}

void OwnMatmul::runShared(const ExecutionContext &context) {
  std::int64_t rowBlocks = (m - 1) / rowBlock + 1;
  for (std::int64_t index = 0; index < batchCount; ++index) {
    Position at = positionOf(index);
    for (std::int64_t start = 0; start < n; start += shareColumns) {
      std::int64_t columns = std::min(shareColumns, n - start);
      std::int64_t panels = (columns - 1) / kernels.columns + 1;
      context.team->parallelFor(
          context.threads, panels, [&](std::int64_t panel, unsigned) {
            std::int64_t column = panel * kernels.columns;
            packRhs(at, start + column,
                    std::min(kernels.columns, columns - column),
                    scratch + column * k);
          });
      std::int64_t groups = (columns - 1) / itemColumns + 1;
      context.team->parallelFor(
          context.threads, rowBlocks * groups,
          [&](std::int64_t item, unsigned thread) {
            std::int64_t column = item % groups * itemColumns;
            multiplyRows(at, item / groups * rowBlock, start + column,
                         std::min(itemColumns, columns - column),
                         scratch + column * k, privateMemory(thread));
          });
    }
  }
}

void OwnMatmul::run(const ExecutionContext &context) {
  base = {lhs.address.at(context.iteration), rhs.address.at(context.iteration),
          out.address.at(context.iteration)};
  auto find = [&](const std::optional<Address> &side) {
    return side ? reinterpret_cast<const float *>(side->at(context.iteration))
                : nullptr;
  };
  lhsScales = find(lhsScale);
  rhsScales = find(rhsScale);
  scale = 1;
  for (const float *side : {lhsScales, rhsScales})
    if (side && !block)
      scale *= *side;
  if (bias)
    biasBase = bias->at(context.iteration);
  if (packsPrivately)
    runPrivately(context);
  else
    runShared(context);
}

std::unique_ptr<Operation>
binade::createOwnMatmul(const Matmul &matmul, const Memory &memory,
                        unsigned threads, const tile::Kernels &kernels) {
  return std::make_unique<OwnMatmul>(matmul, memory, threads, kernels);
}
