//===- HalfMatmul.cpp - Matmuls of f16 on AMX -----------------------------===//
// An infinity or NaN is not a sum of two bf16. If an operand has one, which a
// loss scale that is too large causes, the own kernels compute the matmul.
//===----------------------------------------------------------------------===//

#include "../Attention/Kernels.h"
#include "Contraction.h"
#include <algorithm>
#include <atomic>

using namespace binade;
using namespace binade::plan;

namespace {
/// An f16 operand as rows of adjacent elements, if it has an axis of stride 1.
struct HalfOperand {
  Address address;
  std::vector<std::int64_t> sizes, strides; ///< Of all axes but the dense one.
  std::int64_t count = 1, length = 0, step = 1;

  HalfOperand(const View &view, const Memory &memory,
              std::vector<std::int64_t> batch, std::int64_t rows,
              std::int64_t columns)
      : address(memory.addressOf(view)), sizes(std::move(batch)),
        strides(view.strides.begin(), view.strides.end() - 2) {
    std::int64_t rowStride = view.strides.end()[-2];
    std::int64_t columnStride = view.strides.end()[-1];
    bool isTurned = rowStride < columnStride;
    sizes.push_back(isTurned ? columns : rows);
    strides.push_back(isTurned ? columnStride : rowStride);
    length = isTurned ? rows : columns;
    step = isTurned ? rowStride : columnStride;
    // Repeated elements are read once.
    for (std::size_t d = 0; d < sizes.size(); ++d)
      count *= sizes[d] = strides[d] == 0 ? 1 : sizes[d];
  }

  bool isFinite(const std::uint16_t *base, std::int64_t index) const {
    for (std::size_t d = sizes.size(); d-- > 0; index /= sizes[d])
      base += index % sizes[d] * strides[d];
    constexpr std::uint16_t kExponent = 0x7c00;
    bool found = false;
    if (step == 1)
      for (std::int64_t i = 0; i < length; ++i)
        found |= (base[i] & kExponent) == kExponent;
    else
      for (std::int64_t i = 0; i < length; ++i)
        found |= (base[i * step] & kExponent) == kExponent;
    return !found;
  }

  bool isFinite(const ExecutionContext &context) const {
    auto *base =
        reinterpret_cast<const std::uint16_t *>(address.at(context.iteration));
    // One thread checks some rows at a time.
    std::int64_t rows = std::max<std::int64_t>(1, 65536 / length);
    std::atomic<bool> finite = true;
    context.team->parallelFor(
        context.threads, (count - 1) / rows + 1,
        [&](std::int64_t item, unsigned) {
          for (std::int64_t i = item * rows;
               i < std::min(count, (item + 1) * rows) && finite; ++i)
            if (!isFinite(base, i))
              finite = false;
        });
    return finite;
  }
};

class HalfMatmul : public Operation {
public:
  HalfMatmul(const Matmul &matmul, const Memory &memory, unsigned threads)
      : lhs(matmul.lhs, memory, matmul.batch, matmul.m, matmul.k),
        rhs(matmul.rhs, memory, matmul.batch, matmul.k, matmul.n),
        fast(createOwnMatmul(matmul, memory, threads, tile::amxHalf)),
        general(createOwnMatmul(matmul, memory, threads)) {}

  void run(const ExecutionContext &context) override {
    bool finite = lhs.isFinite(context) && rhs.isFinite(context);
    (finite ? fast : general)->run(context);
  }
  std::uint64_t getScratchBytes() const override {
    return std::max(fast->getScratchBytes(), general->getScratchBytes());
  }
  void setScratch(std::byte *scratch) override {
    fast->setScratch(scratch);
    general->setScratch(scratch);
  }
  std::string getImplementation() const override { return "own amx"; }
  bool multipliesF16() const override { return true; }

private:
  HalfOperand lhs, rhs;
  std::unique_ptr<Operation> fast, general;
};
} // namespace

std::unique_ptr<Operation> binade::createHalfMatmul(const Matmul &matmul,
                                                    const Memory &memory,
                                                    unsigned threads) {
  if (memory.typeOf(matmul.lhs) != DType::F16 ||
      memory.typeOf(matmul.rhs) != DType::F16 || matmul.lhsScale ||
      matmul.rhsScale || matmul.k % tile::kAmxDepth != 0 ||
      std::min(matmul.m, matmul.n) < 16 ||
      attention::getHighestLevel() != attention::Level::Amx)
    return nullptr;
  return std::make_unique<HalfMatmul>(matmul, memory, threads);
}
