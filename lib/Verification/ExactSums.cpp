//===- ExactSums.cpp - Exact results of matmuls ---------------------------===//

#include "ExactSums.h"
#include "binade/Container/Philox.h"
#include "binade/Reference/Reference.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

void Judgement::add(size_t index, ::binade::DType dtype,
                    const Deviation &deviation, double value, double expected) {
  if (deviation.ratio <= ratio)
    return;
  ratio = deviation.ratio;
  if (ratio <= 1.0)
    return;
  access = index;
  difference.emplace();
  difference->what = "beyond the bound of the reference";
  difference->dtype = dtype;
  difference->element = deviation.index;
  difference->value = value;
  difference->expected = expected;
  difference->bound = deviation.bound;
}

/// Returns the deviation of a value. If the sum may overflow, its bound is
/// infinite, and any non-finite value is accepted.
static Deviation deviate(int64_t element, double value, double expected,
                         double bound) {
  Deviation deviation;
  deviation.index = element;
  deviation.bound = bound;
  deviation.difference = std::fabs(value - expected);
  if (value == expected || (std::isnan(value) && std::isnan(expected)))
    return deviation;
  if (!std::isfinite(bound))
    deviation.ratio = std::isfinite(value) ? INFINITY : 0.0;
  else
    deviation.ratio =
        std::isfinite(value) ? deviation.difference / bound : INFINITY;
  return deviation;
}

Judgement
mlir::binade::judgeSums(const Execution &execution, size_t out, int64_t count,
                        int64_t terms,
                        llvm::function_ref<ExactElement(int64_t)> compute) {
  constexpr int64_t kMaxTerms = 1 << 24, kMinElements = 1024;
  const RecordAccess &access = execution.accesses[out];
  Judgement judgement;
  auto compare = [&](int64_t number) {
    auto [element, sum] = compute(number);
    // The bound of the reference for a matmul.
    double error = sum.magnitude *
                   std::max(0x1p-24 * getSumConstant(sum.terms), sum.dropped);
    double bound =
        error + getSpacing(access.dtype, std::fabs(sum.value) + error);
    if (execution.onBound)
      execution.onBound(out, element, sum.value, bound);
    double value = readElement(access.dtype, execution.after[out], element);
    judgement.add(out, access.dtype, deviate(element, value, sum.value, bound),
                  value, sum.value);
  };
  int64_t most =
      std::max(kMinElements, kMaxTerms / std::max<int64_t>(terms, 1));
  if (count <= most || execution.onBound) {
    for (int64_t number = 0; number < count; ++number)
      compare(number);
    return judgement;
  }
  for (int64_t i = 0; i < most; ++i) {
    auto random = ::binade::philox({static_cast<uint32_t>(i), 0, 0, 0}, {});
    uint64_t number = uint64_t(random[1]) << 32 | random[0];
    compare(static_cast<int64_t>(number % count));
  }
  return judgement;
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Hopper's tensor cores align the terms of FP8 matmuls with the largest term,
/// and keep 14 bits of their sum (DeepSeek-V3, 2024, 3.3.2). For random values
/// the error is at most 2^-13.5 of the sum of magnitudes.
static constexpr double kDroppedOfFp8 = 0x1p-10;

namespace {
class ExactMatmul {
public:
  ExactMatmul(const plan::Matmul &matmul, const Execution &execution)
      : matmul(matmul), execution(execution) {}

  /// Computes element `number` of the result in row-major order.
  ExactElement compute(int64_t number) const {
    int64_t j = number % matmul.n, i = number / matmul.n % matmul.m;
    std::vector<int64_t> index = getBatch(number / (matmul.n * matmul.m));
    int64_t left = getOffset(matmul.lhs, index, i, 0);
    int64_t right = getOffset(matmul.rhs, index, 0, j);
    size_t rows = matmul.batch.size();
    ExactSum sum;
    if (isFp8(Lhs) && isFp8(Rhs))
      sum.dropped = kDroppedOfFp8;
    int64_t length = matmul.block ? matmul.block->k : matmul.k;
    for (int64_t begin = 0; begin < matmul.k; begin += length) {
      ExactSum part;
      for (int64_t l = begin; l < std::min(matmul.k, begin + length); ++l)
        part.add(readBefore(Lhs, left + l * matmul.lhs.strides[rows + 1]) *
                 readBefore(Rhs, right + l * matmul.rhs.strides[rows]));
      multiplyByScales(part, i, j, begin);
      sum.add(part);
    }
    int64_t out = getOffset(matmul.out, index, i, j);
    if (matmul.bias)
      sum.add(readBefore(Bias, j * matmul.bias->strides.front()));
    if (matmul.accumulate)
      sum.add(readBefore(Out, out));
    return {out, sum};
  }

  enum Operand { Lhs, Rhs, Out, Bias }; ///< In the order of `listAccesses`.

private:
  std::vector<int64_t> getBatch(int64_t number) const {
    std::vector<int64_t> index(matmul.batch.size());
    for (size_t axis = index.size(); axis-- > 0;) {
      index[axis] = number % matmul.batch[axis];
      number /= matmul.batch[axis];
    }
    return index;
  }

  static int64_t getOffset(const plan::View &view, ArrayRef<int64_t> batch,
                           int64_t row, int64_t column) {
    int64_t offset = row * view.strides[batch.size()] +
                     column * view.strides[batch.size() + 1];
    for (auto [stride, index] : llvm::zip(view.strides, batch))
      offset += stride * index;
    return offset;
  }

  /// Multiplies a sum by the scales of row i, column j and the terms from
  /// `term` on.
  void multiplyByScales(ExactSum &sum, int64_t i, int64_t j,
                        int64_t term) const {
    // The scales follow the bias, which may be missing.
    size_t access = Bias + matmul.bias.has_value();
    auto multiply = [&](const std::optional<plan::View> &scale, int64_t entry,
                        int64_t entryBlock) {
      if (!scale)
        return;
      int64_t element = 0;
      if (matmul.block)
        element = entry / entryBlock * scale->strides[0] +
                  term / matmul.block->k * scale->strides[1];
      sum.scale(readBefore(access++, element));
    };
    plan::ScaleBlock block = matmul.block.value_or(plan::ScaleBlock());
    multiply(matmul.lhsScale, i, block.m);
    multiply(matmul.rhsScale, j, block.n);
  }

  bool isFp8(Operand operand) const {
    return ::binade::byteSize(execution.accesses[operand].dtype) == 1;
  }

  double readBefore(size_t operand, int64_t element) const {
    return readElement(execution.accesses[operand].dtype,
                       execution.before[operand], element);
  }

  const plan::Matmul &matmul;
  const Execution &execution;
};
} // namespace

::binade::Result<Judgement> mlir::binade::judge(ModuleOp,
                                                const plan::Matmul &matmul,
                                                const Execution &execution) {
  ExactMatmul product(matmul, execution);
  int64_t count = matmul.m * matmul.n;
  for (int64_t size : matmul.batch)
    count *= size;
  return judgeSums(execution, ExactMatmul::Out, count, matmul.k,
                   [&](int64_t number) { return product.compute(number); });
}
