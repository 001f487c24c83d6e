//===- Contraction.cpp - Tiling of contractions ---------------------------===//

#include "Contraction.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

int64_t Operand::countElements(ArrayRef<int64_t> batchSizes) const {
  int64_t last = 0;
  for (const Axis &axis : llvm::concat<const Axis>(entries, terms))
    last += (axis.size - 1) * axis.stride;
  for (auto [size, stride] : llvm::zip(batchSizes, batch))
    last += (size - 1) * stride;
  for (const Window &window : windows)
    last += (window.size - 1) * window.stride;
  return last + 1;
}

int64_t Operand::getWidth(Direction along, int64_t most) const {
  const Axis &last = (along == Entries ? entries : terms).back();
  if (last.stride != 1)
    return 1;
  auto bytes = static_cast<int64_t>(byteSize(dtype));
  auto fits = [&](int64_t width) {
    auto divides = [&](int64_t stride) { return stride % width == 0; };
    auto keepsAlignment = [&](const Axis &axis) {
      return &axis == &last || axis.size == 1 || divides(axis.stride);
    };
    return divides(last.size) && alignment % (width * bytes) == 0 &&
           llvm::all_of(entries, keepsAlignment) &&
           llvm::all_of(terms, keepsAlignment) &&
           llvm::all_of(batch, divides) &&
           llvm::all_of(windows, [&](const Window &window) {
             return divides(window.stride);
           });
  };
  int64_t width = most;
  while (width > 1 && !fits(width))
    width /= 2;
  return width;
}

int64_t Contraction::countBatches() const { return llvm::product_of(batch); }

static Operand getOperand(const GpuMatrix &matrix, int64_t entries,
                          int64_t terms, int64_t entryStride,
                          int64_t termStride) {
  Operand operand;
  operand.dtype = matrix.dtype;
  operand.alignment = matrix.alignment;
  operand.entries = {{entries, entryStride}};
  operand.terms = {{terms, termStride}};
  llvm::append_range(operand.batch, matrix.batch);
  return operand;
}

/// Returns the digits of the index of an element in blocks of `size`: the
/// block, with stride `stride`, and the element in it.
static SmallVector<Axis> getBlocks(int64_t number, int64_t size,
                                   int64_t stride) {
  auto blocks = static_cast<int64_t>(llvm::divideCeil(number, size));
  return {{blocks, stride}, {size, 0}};
}

Contraction mlir::binade::getContraction(const GpuMatmul &product) {
  auto [m, n, k] = std::tuple(product.m, product.n, product.k);
  const GpuMatrix &lhs = product.lhs, &rhs = product.rhs, &out = product.out;
  Contraction contraction;
  llvm::append_range(contraction.batch, product.batch);
  contraction.m = m;
  contraction.n = n;
  contraction.k = k;
  contraction.lhs = getOperand(lhs, m, k, lhs.rows, lhs.columns);
  contraction.rhs = getOperand(rhs, n, k, rhs.columns, rhs.rows);
  contraction.out = getOperand(out, m, n, out.rows, out.columns);
  if (product.bias) {
    contraction.bias =
        getOperand(*product.bias, 1, n, 0, product.bias->columns);
    contraction.bias->batch.assign(product.batch.size(), 0);
  }
  contraction.accumulate = product.accumulate;
  GpuScaleBlock block = product.block.value_or(GpuScaleBlock{m, n, k});
  auto addScale = [&](std::optional<Operand> &to,
                      const std::optional<GpuScale> &scale, int64_t entries,
                      int64_t entryBlock) {
    if (!scale)
      return;
    to.emplace();
    to->entries = getBlocks(entries, entryBlock, scale->entryStride);
    to->terms = getBlocks(k, block.k, scale->termStride);
    to->batch.assign(product.batch.size(), 0);
  };
  addScale(contraction.lhsScale, product.lhsScale, m, block.m);
  addScale(contraction.rhsScale, product.rhsScale, n, block.n);
  contraction.scaledTerms = product.block ? block.k : 0;
  contraction.workspace = product.workspace;
  return contraction;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

static bool isByte(DType dtype) { return byteSize(dtype) == 1; }

/// Returns the format for tensor cores. 8-bit floats are exact in f16 and bf16;
/// f16 is preferred, because most chips convert to it by an instruction.
static DType getFormat(const Contraction &contraction) {
  DType lhs = contraction.lhs.dtype, rhs = contraction.rhs.dtype;
  auto isOneOf = [](DType dtype, DType wide) {
    return dtype == wide || isByte(dtype);
  };
  for (DType format : {DType::F16, DType::BF16})
    if (isOneOf(lhs, format) && isOneOf(rhs, format))
      return format;
  return DType::F32;
}

/// Number of blocks that uses a large device completely, such as one per
/// multiprocessor of an H200. It is constant, because bits depend on it.
static constexpr int64_t kBusyBlocks = 132;
/// Minimum steps per split.
static constexpr int64_t kMinSteps = 8;

static void split(Tiling &tiling, int64_t batches) {
  int64_t tiles = batches * tiling.rowTiles * tiling.columnTiles;
  int64_t wanted = std::min(kBusyBlocks / tiles, tiling.steps / kMinSteps);
  if (wanted < 2)
    return;
  tiling.splitSteps = llvm::divideCeil(tiling.steps, wanted);
  if (tiling.scaledSteps < tiling.steps)
    tiling.splitSteps = llvm::alignTo(tiling.splitSteps, tiling.scaledSteps);
  tiling.splits = llvm::divideCeil(tiling.steps, tiling.splitSteps);
}

Tiling mlir::binade::chooseTiling(const Contraction &contraction) {
  // Threads along the sides of a tile without tensor cores.
  constexpr int64_t kSide = 16, kWideShare = 4;
  auto [m, n, k] = std::tuple(contraction.m, contraction.n, contraction.k);
  int64_t batches = contraction.countBatches();
  Tiling tiling;
  DType format = getFormat(contraction);
  bool isSmall = std::min(m, n) <= kSide;
  if (format != DType::F32 && !isSmall) {
    tiling.format = format;
    tiling.step = 32;
    bool fillsLarge =
        batches * llvm::divideCeil(m, 128) * llvm::divideCeil(n, 128) >=
        kBusyBlocks;
    tiling.warpRows = 2;
    tiling.warpColumns = fillsLarge ? 4 : 2;
    tiling.rows = tiling.columns = fillsLarge ? 128 : 64;
    tiling.threads = 32 * tiling.warpRows * tiling.warpColumns;
  } else {
    tiling.rows = tiling.columns = isSmall ? kSide : kSide * kWideShare;
    tiling.step = kSide;
    tiling.threads = kSide * kSide;
  }
  tiling.rowTiles = llvm::divideCeil(m, tiling.rows);
  tiling.columnTiles = llvm::divideCeil(n, tiling.columns);
  tiling.splitSteps = tiling.steps = llvm::divideCeil(k, tiling.step);
  assert(contraction.scaledTerms % tiling.step == 0 &&
         "blocks that share scales must have whole steps");
  tiling.scaledSteps = contraction.scaledTerms
                           ? contraction.scaledTerms / tiling.step
                           : tiling.steps;
  if (contraction.workspace)
    split(tiling, batches);
  return tiling;
}

int64_t mlir::binade::getWorkspaceBytes(const Contraction &contraction) {
  Contraction with = contraction;
  with.workspace = true;
  int64_t splits = chooseTiling(with).splits;
  if (splits == 1)
    return 0;
  return splits * with.countBatches() * with.m * with.n *
         int64_t(sizeof(float));
}

int64_t mlir::binade::getWorkspaceBytes(const GpuMatmul &product) {
  return getWorkspaceBytes(getContraction(product));
}

int64_t mlir::binade::getWorkspaceBytes(const GpuConvolution &convolution) {
  return getWorkspaceBytes(getContraction(convolution));
}
