//===- AccumulatedMatmul.cpp - Matmuls with modelled accumulators ---------===//
// Blocks of 64 x 64 elements are parallel tasks, which unpack both sides in
// pieces of the contracted axis. An element depends on the order of its
// products alone, so that results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

#include "Accumulator.h"
#include "Contraction.h"
#include "TiledOperation.h"
#include "binade/Container/FloatConversion.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace binade;
using namespace binade::plan;
using accumulator::kColumns;
using accumulator::kRows;

namespace {
/// Rows and columns of a task, and products that are unpacked at a time.
constexpr std::int64_t kTile = 64, kDepth = 512;

/// A quantized element: its value and power (see `accumulator::Panel`), which
/// are 0 for elements that are not finite, and all that it represents.
struct Code {
  float value = 0, power = 0, element = 0;
};
using Codes = std::array<Code, 256>;

Code decode(unsigned bits, ByteFormat format) {
  auto fraction = static_cast<int>(format.fraction);
  unsigned magnitude = bits & 0x7f, field = magnitude >> fraction,
           significand = magnitude & ((1u << fraction) - 1);
  Code code;
  if (magnitude > format.largest) {
    // Only E5M2 has an infinity.
    bool isInfinite = format.largest == kE5M2.largest && significand == 0;
    code.element = isInfinite ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude != 0) {
    code.power = std::ldexp(1.0f, static_cast<int>(std::max(field, 1u)) -
                                      static_cast<int>(format.bias));
    if (field != 0)
      significand += 1u << fraction;
    code.element =
        code.power * std::ldexp(static_cast<float>(significand), -fraction);
  }
  if (bits & 0x80)
    code.element = -code.element;
  if (code.power != 0)
    code.value = code.element;
  return code;
}

Codes decodeAll(DType dtype) {
  Codes codes;
  for (unsigned bits = 0; bits < codes.size(); ++bits)
    codes[bits] = decode(bits, dtype == DType::F8_E4M3 ? kE4M3 : kE5M2);
  return codes;
}

/// An operand as rows of elements along the contracted axis.
struct Side {
  Address address, scales;
  const Codes codes;
  std::vector<std::int64_t> batch, scaleStrides;
  std::int64_t count, rowStride, termStride, shared;
  const std::byte *base = nullptr;
  const float *scale = nullptr;

  Side(const View &view, const View &scale, const Memory &memory,
       std::int64_t count, bool areRowsFirst, std::int64_t shared)
      : address(memory.addressOf(view)), scales(memory.addressOf(scale)),
        codes(decodeAll(memory.typeOf(view))),
        batch(view.strides.begin(), view.strides.end() - 2),
        scaleStrides(scale.strides), count(count),
        rowStride(view.strides.end()[areRowsFirst ? -2 : -1]),
        termStride(view.strides.end()[areRowsFirst ? -1 : -2]), shared(shared) {
  }

  void startAt(const ExecutionContext &context) {
    base = address.at(context.iteration);
    scale = reinterpret_cast<const float *>(scales.at(context.iteration));
  }
  const Code &at(std::int64_t offset, std::int64_t row,
                 std::int64_t term) const {
    auto index = offset + row * rowStride + term * termStride;
    return codes[static_cast<std::size_t>(base[index])];
  }
  /// The scale of a row and a block of summed elements.
  float scaleOf(std::int64_t row, std::int64_t block) const {
    return scaleStrides.empty() ? *scale
                                : scale[row / shared * scaleStrides[0] +
                                        block * scaleStrides[1]];
  }
};

/// What a thread works on: panels of both sides, and the accumulators, sums and
/// totals of the elements of a task.
struct Work {
  static constexpr std::int64_t kSide = kTile * kDepth;
  float left[kSide], leftPowers[kSide], right[kSide], rightPowers[kSide];
  float accumulators[kTile * kTile], sums[kTile * kTile], totals[kTile * kTile];
  bool isSpecialRow[kTile], isSpecialColumn[kTile];
};

class AccumulatedMatmul : public TiledOperation {
public:
  AccumulatedMatmul(const Matmul &matmul, const Memory &memory,
                    unsigned threads);
  void run(const ExecutionContext &context) override;
  std::string getImplementation() const override {
    return "own accumulator " + std::string(kernels.name);
  }

private:
  /// The elements that a task computes, and the offsets of its matrices.
  struct Task {
    std::int64_t row, column, rows, columns, lhs = 0, rhs = 0, out = 0;
  };
  Task getTask(std::int64_t index) const;
  void addBlock(const Task &task, std::int64_t first, Work &work) const;
  void addSpecial(const Task &task, std::int64_t first, std::int64_t last,
                  Work &work) const;
  void store(const Task &task, const Work &work) const;

  Side lhs, rhs;
  Address out;
  std::optional<Address> bias;
  DType outType, biasType = DType::F32;
  std::int64_t biasStride = 0;
  std::vector<std::int64_t> batch, outStrides;
  std::int64_t m, n, k, block;
  Accumulation accumulation;
  std::byte *outBase = nullptr;
  const std::byte *biasBase = nullptr;
};
} // namespace

AccumulatedMatmul::AccumulatedMatmul(const Matmul &matmul, const Memory &memory,
                                     unsigned threads)
    : TiledOperation(threads),
      lhs(matmul.lhs, *matmul.lhsScale, memory, matmul.m, true,
          matmul.block ? matmul.block->m : 1),
      rhs(matmul.rhs, *matmul.rhsScale, memory, matmul.n, false,
          matmul.block ? matmul.block->n : 1),
      out(memory.addressOf(matmul.out)), outType(memory.typeOf(matmul.out)),
      batch(matmul.batch), outStrides(matmul.out.strides), m(matmul.m),
      n(matmul.n), k(matmul.k), block(matmul.block ? matmul.block->k : k),
      accumulation(*matmul.accumulation) {
  if (matmul.bias) {
    bias = memory.addressOf(*matmul.bias);
    biasType = memory.typeOf(*matmul.bias);
    biasStride = matmul.bias->strides[0];
  }
  privateFloats = roundUp(sizeof(Work) / sizeof(float), 16);
}

AccumulatedMatmul::Task AccumulatedMatmul::getTask(std::int64_t index) const {
  std::int64_t columnTiles = roundUp(n, kTile) / kTile,
               rowTiles = roundUp(m, kTile) / kTile;
  Task task;
  task.column = index % columnTiles * kTile;
  index /= columnTiles;
  task.row = index % rowTiles * kTile;
  index /= rowTiles;
  task.rows = std::min(kTile, m - task.row);
  task.columns = std::min(kTile, n - task.column);
  for (std::size_t d = batch.size(); d-- > 0; index /= batch[d]) {
    std::int64_t i = index % batch[d];
    task.lhs += i * lhs.batch[d];
    task.rhs += i * rhs.batch[d];
    task.out += i * outStrides[d];
  }
  return task;
}

/// Unpacks `depth` elements of `count` rows into panels of `width` rows, with
/// zeros after the last row.
static void unpack(const Side &side, std::int64_t offset, std::int64_t row,
                   std::int64_t count, std::int64_t width, std::int64_t first,
                   std::int64_t depth, float *values, float *powers,
                   bool *isSpecial) {
  for (std::int64_t i = 0; i < roundUp(count, width); ++i) {
    std::int64_t to = i / width * width * depth + i % width;
    for (std::int64_t l = 0; l < depth; ++l, to += width) {
      Code code;
      if (i < count)
        code = side.at(offset, row + i, first + l);
      values[to] = code.value;
      powers[to] = code.power;
      if (i < count && code.value == 0)
        isSpecial[i] |= code.element != 0;
    }
  }
}

/// Adds the products of one block of scales to the totals.
void AccumulatedMatmul::addBlock(const Task &task, std::int64_t first,
                                 Work &work) const {
  std::int64_t last = std::min(k, first + block),
               piece = kDepth / accumulation.step * accumulation.step;
  std::fill_n(work.accumulators, kTile * kTile, 0.0f);
  std::fill_n(work.sums, kTile * kTile, 0.0f);
  std::fill_n(work.isSpecialRow, kTile, false);
  std::fill_n(work.isSpecialColumn, kTile, false);
  for (std::int64_t from = first; from < last; from += piece) {
    accumulator::Panel panel;
    panel.depth = std::min(piece, last - from);
    panel.position = from - first;
    panel.accumulation = accumulation;
    panel.pitch = kTile;
    unpack(lhs, task.lhs, task.row, task.rows, kRows, from, panel.depth,
           work.left, work.leftPowers, work.isSpecialRow);
    unpack(rhs, task.rhs, task.column, task.columns, kColumns, from,
           panel.depth, work.right, work.rightPowers, work.isSpecialColumn);
    for (std::int64_t i = 0; i < task.rows; i += kRows)
      for (std::int64_t j = 0; j < task.columns; j += kColumns) {
        panel.left = work.left + i * panel.depth;
        panel.leftPowers = work.leftPowers + i * panel.depth;
        panel.right = work.right + j * panel.depth;
        panel.rightPowers = work.rightPowers + j * panel.depth;
        panel.accumulators = work.accumulators + i * kTile + j;
        panel.sums = work.sums + i * kTile + j;
        accumulator::add(panel);
      }
  }
  for (std::int64_t i = 0; i < kTile * kTile; ++i)
    work.sums[i] += work.accumulators[i];
  addSpecial(task, first, last, work);
  for (std::int64_t i = 0; i < task.rows; ++i) {
    float left = lhs.scaleOf(task.row + i, first / block);
    for (std::int64_t j = 0; j < task.columns; ++j) {
      float right = rhs.scaleOf(task.column + j, first / block);
      float &total = work.totals[i * kTile + j];
      total = std::fma(work.sums[i * kTile + j], left * right, total);
    }
  }
}

/// Replaces sums by those of the products that are not finite, if there are
/// any.
void AccumulatedMatmul::addSpecial(const Task &task, std::int64_t first,
                                   std::int64_t last, Work &work) const {
  for (std::int64_t i = 0; i < task.rows; ++i)
    for (std::int64_t j = 0; j < task.columns; ++j) {
      if (!work.isSpecialRow[i] && !work.isSpecialColumn[j])
        continue;
      float sum = 0;
      for (std::int64_t l = first; l < last; ++l) {
        float product = lhs.at(task.lhs, task.row + i, l).element *
                        rhs.at(task.rhs, task.column + j, l).element;
        if (!std::isfinite(product))
          sum += product;
      }
      if (sum != 0)
        work.sums[i * kTile + j] = sum;
    }
}

static float load(DType dtype, const std::byte *base, std::int64_t index) {
  if (dtype == DType::F32)
    return reinterpret_cast<const float *>(base)[index];
  std::uint16_t bits = reinterpret_cast<const std::uint16_t *>(base)[index];
  return dtype == DType::BF16 ? bf16ToFloat(bits) : f16ToFloat(bits);
}

void AccumulatedMatmul::store(const Task &task, const Work &work) const {
  std::int64_t rowStride = outStrides.end()[-2],
               columnStride = outStrides.end()[-1];
  for (std::int64_t i = 0; i < task.rows; ++i)
    for (std::int64_t j = 0; j < task.columns; ++j) {
      float total = work.totals[i * kTile + j];
      std::int64_t column = task.column + j;
      if (bias)
        total += load(biasType, biasBase, column * biasStride);
      std::int64_t index =
          task.out + (task.row + i) * rowStride + column * columnStride;
      if (outType == DType::F32)
        reinterpret_cast<float *>(outBase)[index] = total;
      else
        reinterpret_cast<std::uint16_t *>(outBase)[index] =
            outType == DType::BF16 ? floatToBF16(total) : floatToF16(total);
    }
}

void AccumulatedMatmul::run(const ExecutionContext &context) {
  lhs.startAt(context);
  rhs.startAt(context);
  outBase = out.at(context.iteration);
  biasBase = bias ? bias->at(context.iteration) : nullptr;
  std::int64_t matrices = std::accumulate(batch.begin(), batch.end(),
                                          std::int64_t(1), std::multiplies<>());
  context.team->parallelFor(
      context.threads,
      matrices * (roundUp(m, kTile) / kTile) * (roundUp(n, kTile) / kTile),
      [&](std::int64_t index, unsigned thread) {
        Work &work = *reinterpret_cast<Work *>(privateMemory(thread));
        Task task = getTask(index);
        std::fill_n(work.totals, kTile * kTile, 0.0f);
        for (std::int64_t first = 0; first < k; first += block)
          addBlock(task, first, work);
        store(task, work);
      });
}

std::unique_ptr<Operation> binade::createAccumulatedMatmul(const Matmul &matmul,
                                                           const Memory &memory,
                                                           unsigned threads) {
  return std::make_unique<AccumulatedMatmul>(matmul, memory, threads);
}
