//===- Warp.cpp - Ops that warps execute together -------------------------===//

#include "Warp.h"
#include "Arithmetic.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Shuffles and reductions
//===----------------------------------------------------------------------===//

Exchange mlir::binade::getExchange(gpu::ShuffleOp op,
                                   ArrayRef<Registers> operands,
                                   ArrayRef<Registers> results) {
  uint32_t value = operands[0].first, offsets = operands[1].first,
           widths = operands[2].first, to = results[0].first,
           valid = results[1].first;
  return [=](Machine &m, MutableArrayRef<Thread> warp) mutable {
    SmallVector<uint64_t> values;
    for (const Thread &thread : warp)
      values.push_back(thread.registers[value]);
    for (auto [index, thread] : llvm::enumerate(warp)) {
      auto lane = static_cast<int64_t>(index);
      auto offset = static_cast<int32_t>(thread.registers[offsets]);
      auto width = static_cast<int32_t>(thread.registers[widths]);
      if (width < 1 || width > kWarp || (width & (width - 1)) != 0)
        return m.fail(thread, op,
                      "shuffles among " + Twine(width) +
                          " lanes; expected a power of two up to 32");
      int64_t begin = lane / width * width, source = lane;
      switch (op.getMode()) {
      case gpu::ShuffleMode::XOR:
        source = lane ^ offset;
        break;
      case gpu::ShuffleMode::UP:
        source = lane - offset;
        break;
      case gpu::ShuffleMode::DOWN:
        source = lane + offset;
        break;
      case gpu::ShuffleMode::IDX:
        source = begin + (offset & (width - 1));
        break;
      }
      bool isValid = source >= begin && source < begin + width;
      if (isValid && source >= static_cast<int64_t>(warp.size()))
        return m.fail(thread, op,
                      "shuffles with lane " + Twine(source) +
                          ", which its warp does not have");
      thread.registers[to] = values[isValid ? source : lane];
      thread.registers[valid] = isValid;
    }
  };
}

static bool isWhole(Machine &m, Operation *op, ArrayRef<Thread> warp) {
  if (warp.size() == kWarp)
    return true;
  m.fail(warp.front(), op,
         "needs a warp of 32 threads, but has " + Twine(warp.size()));
  return false;
}

Exchange mlir::binade::getExchange(gpu::SubgroupReduceOp op,
                                   ArrayRef<Registers> operands,
                                   ArrayRef<Registers> results) {
  uint32_t value = operands[0].first, to = results[0].first;
  auto kind = vector::symbolizeCombiningKind(
      gpu::stringifyAllReduceOperation(op.getOp()));
  auto attribute = vector::CombiningKindAttr::get(op.getContext(), *kind);
  LaneFunction combine = getCombiner(attribute, op.getType());
  return [=](Machine &m, MutableArrayRef<Thread> warp) mutable {
    if (!isWhole(m, op, warp))
      return;
    uint64_t total = warp.front().registers[value];
    for (const Thread &thread : warp.drop_front()) {
      uint64_t both[] = {total, thread.registers[value]};
      total = combine(both);
    }
    for (Thread &thread : warp)
      thread.registers[to] = total;
  };
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// Implements "Matrix fragments for mma.m16n8k16 with .f16/.bf16" of the PTX
/// ISA. Of the first operand, lane 4 g + t has two adjacent elements from
/// column 2 t on in rows g and g + 8, then the same eight columns further; of
/// the second operand two adjacent elements from row 2 t on in column g, then
/// eight rows further; of the sums two adjacent elements from column 2 t on in
/// row g, then in row g + 8.
///
/// The order in which a device adds is not specified. Here the products are
/// exact, and are added one by one to the sum in f64, which is rounded once.
Exchange mlir::binade::getExchange(nvgpu::MmaSyncOp op,
                                   ArrayRef<Registers> operands,
                                   ArrayRef<Registers> results) {
  constexpr unsigned kRows = 16, kColumns = 8, kTerms = 16;
  uint32_t lhs = operands[0].first, rhs = operands[1].first,
           before = operands[2].first, to = results[0].first;
  auto format = cast<FloatType>(op.getMatrixA().getType().getElementType());
  return [=](Machine &m, MutableArrayRef<Thread> warp) mutable {
    if (!isWhole(m, op, warp))
      return;
    auto get = [&](uint64_t bits) { return toDouble(bits, format); };
    double x[kRows][kTerms], y[kTerms][kColumns];
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const std::vector<uint64_t> &own = warp[lane].registers;
      unsigned g = lane / 4, t = lane % 4 * 2;
      for (unsigned i = 0; i < 8; ++i)
        x[g + i / 2 % 2 * 8][t + i % 2 + i / 4 * 8] = get(own[lhs + i]);
      for (unsigned i = 0; i < 4; ++i)
        y[t + i % 2 + i / 2 * 8][g] = get(own[rhs + i]);
    }
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      std::vector<uint64_t> &own = warp[lane].registers;
      unsigned g = lane / 4, t = lane % 4 * 2;
      for (unsigned i = 0; i < 4; ++i) {
        double sum =
            llvm::bit_cast<float>(static_cast<uint32_t>(own[before + i]));
        for (unsigned l = 0; l < kTerms; ++l)
          sum += x[g + i / 2 * 8][l] * y[l][t + i % 2];
        own[to + i] = llvm::bit_cast<uint32_t>(static_cast<float>(sum));
      }
    }
  };
}

/// Implements "ldmatrix" of the PTX ISA for 16-bit elements. Lanes 8 i to 8 i +
/// 7 supply the addresses of the rows of matrix i, each of 16 bytes. Of each
/// matrix, lane 4 g + t gets two adjacent elements from column 2 t on in row g;
/// transposed, from row 2 t on in column g.
Exchange mlir::binade::getExchange(nvgpu::LdMatrixOp op,
                                   std::function<Place(const Thread &)> matrix,
                                   Registers result) {
  constexpr unsigned kSide = 8, kRowBytes = 16;
  return [=](Machine &m, MutableArrayRef<Thread> warp) mutable {
    if (!isWhole(m, op, warp))
      return;
    for (uint32_t number = 0; number < op.getNumTiles(); ++number) {
      uint16_t elements[kSide][kSide];
      for (unsigned row = 0; row < kSide; ++row) {
        Thread &thread = warp[number * kSide + row];
        Place place = matrix(thread);
        if (!m.isAligned(thread, op, place, kRowBytes))
          return;
        const char *bytes =
            m.access(thread, op, place, kRowBytes, AccessKind::Read);
        if (!bytes)
          return;
        std::memcpy(elements[row], bytes, kRowBytes);
      }
      for (unsigned lane = 0; lane < kWarp; ++lane)
        for (unsigned i = 0; i < 2; ++i) {
          unsigned row = lane / 4, column = lane % 4 * 2 + i;
          if (op.getTranspose())
            std::swap(row, column);
          warp[lane].registers[result.first + 2 * number + i] =
              elements[row][column];
        }
    }
  };
}
