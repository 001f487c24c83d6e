//===- LibraryMatmul.cpp - Lowering of matmuls to cuBLASLt ----------------===//

#include "LibraryMatmul.h"
#include <algorithm>
#include <numeric>

using namespace binade;
using namespace binade::cuda;

/// Minimum alignment of matrices in bytes. cuBLASLt would reject an alignment
/// of 2 bytes only when the matmul runs.
static constexpr std::uint32_t kMinAlignment = 4;

namespace {
/// The layout of a matrix with contiguous rows or, if transposed, columns.
struct Layout {
  bool isTransposed = false;
  std::int64_t stride = 0;
};

class ProblemBuilder {
public:
  ProblemBuilder(const plan::Matmul &matmul, const StreamSetup &setup)
      : matmul(matmul), setup(setup) {}

  Result<LibraryMatmul> build() {
    std::size_t axes = matmul.batch.size();
    LibraryMatmul product;
    MatmulProblem &problem = product.problem;
    problem.m = matmul.m;
    problem.n = matmul.n;
    problem.k = matmul.k;
    problem.lhs = setup.memory.typeOf(matmul.lhs);
    problem.rhs = setup.memory.typeOf(matmul.rhs);
    problem.out = setup.memory.typeOf(matmul.out);
    problem.accumulate = matmul.accumulate;
    problem.tf32 = matmul.tf32;
    problem.alignment = getAlignment();
    if (problem.alignment < kMinAlignment)
      return fail("has a matrix at an address that is not a multiple of " +
                  std::to_string(kMinAlignment));
    std::optional<Layout> lhs = find(matmul.lhs, matmul.m, matmul.k, axes),
                          rhs = find(matmul.rhs, matmul.k, matmul.n, axes),
                          out = find(matmul.out, matmul.m, matmul.n, axes);
    if (!lhs || !rhs || !out || out->isTransposed)
      return fail("has a matrix in which neither rows nor columns are "
                  "contiguous");
    problem.transposeLhs = lhs->isTransposed;
    problem.lhsStride = lhs->stride;
    problem.transposeRhs = rhs->isTransposed;
    problem.rhsStride = rhs->stride;
    problem.outStride = out->stride;
    if (matmul.bias) {
      if (matmul.n > 1 && matmul.bias->strides.at(0) != 1)
        return fail("has a bias that is not contiguous");
      problem.epilogue = Epilogue::Bias;
      problem.bias = setup.memory.typeOf(*matmul.bias);
    }
    chooseBatch(product);
    if (auto done = chooseScales(problem); !done)
      return done.takeError();
    return product;
  }

private:
  Error fail(std::string what) const {
    return Error{setup.where,
                 "a matmul " + std::move(what) +
                     ", which cuBLASLt does not support",
                 ExitCode::Device};
  }

  /// Returns the mode of the scales of `count` rows, of which `entries` share a
  /// scale; nothing if cuBLASLt does not support it.
  std::optional<ScaleMode> findMode(const plan::View &view, std::int64_t count,
                                    std::int64_t entries) const {
    constexpr std::int64_t kBlock = 128, kMultiple = 4;
    std::int64_t terms = (matmul.k - 1) / kBlock + 1,
                 entryStride = view.strides.at(0),
                 termStride = view.strides.at(1);
    if (matmul.block->k != kBlock)
      return std::nullopt;
    if (entries == 1 && entryStride == 1 && termStride == count)
      return ScaleMode::Vec128;
    std::int64_t padded = (terms - 1) / kMultiple * kMultiple + kMultiple;
    if (entries == kBlock && entryStride == padded && termStride == 1)
      return ScaleMode::Block128x128;
    return std::nullopt;
  }

  Result<void> chooseScales(MatmulProblem &problem) const {
    if (!matmul.block)
      return {};
    auto lhs = findMode(*matmul.lhsScale, matmul.m, matmul.block->m),
         rhs = findMode(*matmul.rhsScale, matmul.n, matmul.block->n);
    if (!lhs || !rhs)
      return fail("has block scales in another layout");
    for (const auto *scale : {&matmul.lhsScale, &matmul.rhsScale})
      if (plan::findAlignment(setup.plan->buffers, **scale) !=
          plan::kDeviceAlignment)
        return fail("has block scales at an address that is not a multiple "
                    "of " +
                    std::to_string(plan::kDeviceAlignment));
    problem.lhsScale = *lhs;
    problem.rhsScale = *rhs;
    return {};
  }

  std::int64_t getStride(const plan::View &view, std::size_t axis) const {
    return view.strides.empty() ? 0 : view.strides[axis];
  }

  std::optional<Layout> find(const plan::View &view, std::int64_t rows,
                             std::int64_t columns, std::size_t axes) const {
    std::int64_t row = getStride(view, axes),
                 column = getStride(view, axes + 1);
    if (column == 1 || columns == 1)
      if (rows == 1 || row >= columns)
        return Layout{false, std::max(row, columns)};
    if (row == 1 || rows == 1)
      if (columns == 1 || column >= rows)
        return Layout{true, std::max(column, rows)};
    return std::nullopt;
  }

  std::uint32_t getAlignment() const {
    std::int64_t bytes = plan::kDeviceAlignment;
    for (const plan::View *view : {&matmul.lhs, &matmul.rhs, &matmul.out}) {
      auto size =
          static_cast<std::int64_t>(byteSize(setup.memory.typeOf(*view)));
      bytes = std::gcd(bytes, plan::findAlignment(setup.plan->buffers, *view));
      for (std::size_t axis = 0; axis < matmul.batch.size(); ++axis)
        bytes = std::gcd(bytes, getStride(*view, axis) * size);
    }
    return static_cast<std::uint32_t>(bytes);
  }

  /// Chooses the batch axis of the library, which supports only one: merges
  /// contiguous axes, then takes the longest. The others become `outer`.
  void chooseBatch(LibraryMatmul &product) {
    std::vector<BatchAxis> axes;
    for (std::size_t axis = 0; axis < matmul.batch.size(); ++axis) {
      if (matmul.batch[axis] == 1)
        continue;
      BatchAxis own{matmul.batch[axis], getStride(matmul.lhs, axis),
                    getStride(matmul.rhs, axis), getStride(matmul.out, axis)};
      if (!axes.empty() && axes.back().lhs == own.lhs * own.size &&
          axes.back().rhs == own.rhs * own.size &&
          axes.back().out == own.out * own.size) {
        own.size *= axes.back().size;
        axes.pop_back();
      }
      axes.push_back(own);
    }
    auto longest = std::max_element(
        axes.begin(), axes.end(),
        [](const BatchAxis &a, const BatchAxis &b) { return a.size < b.size; });
    if (longest != axes.end()) {
      MatmulProblem &problem = product.problem;
      problem.batch = longest->size;
      problem.lhsBatchStride = longest->lhs;
      problem.rhsBatchStride = longest->rhs;
      problem.outBatchStride = longest->out;
      axes.erase(longest);
    }
    auto bytesOf = [&](const plan::View &view) {
      return static_cast<std::int64_t>(byteSize(setup.memory.typeOf(view)));
    };
    for (BatchAxis &axis : axes) {
      axis.lhs *= bytesOf(matmul.lhs);
      axis.rhs *= bytesOf(matmul.rhs);
      axis.out *= bytesOf(matmul.out);
    }
    product.outer = std::move(axes);
  }

  const plan::Matmul &matmul;
  const StreamSetup &setup;
};
} // namespace

Result<LibraryMatmul> cuda::toLibrary(const plan::Matmul &matmul,
                                      const StreamSetup &setup) {
  return ProblemBuilder(matmul, setup).build();
}
