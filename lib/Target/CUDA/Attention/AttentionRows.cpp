//===- AttentionRows.cpp - Rows of attention in registers -----------------===//

#include "../Contraction/Epilogue.h"
#include "AttentionBlock.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

static Value allocateShared(gpu::GPUFuncOp kernel, int64_t count,
                            Type element) {
  auto space = gpu::AddressSpaceAttr::get(kernel.getContext(),
                                          gpu::AddressSpace::Workgroup);
  return kernel.addWorkgroupAttribution(
      MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space),
      kernel.getLoc());
}

SharedTile AttentionBlock::allocate(int64_t columns) {
  SharedTile tile;
  tile.along = Operand::Terms;
  tile.pitch = WarpMma::getPitch(columns);
  tile.elements = tile.pitch * kRows;
  tile.memory = allocateShared(kernel, tile.elements, format);
  return tile;
}

Value AttentionBlock::allocateNumbers(int64_t count) {
  return allocateShared(kernel, count, b.getF32Type());
}

namespace {
/// A vector of a tile that a thread loads, and its place in shared memory.
struct Share {
  Value vector, place;
};
} // namespace

void AttentionBlock::fill(ArrayRef<Filled> filled, Value first,
                          function_ref<void()> store) const {
  constexpr int64_t kAccess = 16; // Maximum bytes per load.
  SmallVector<SmallVector<Share>> shares;
  for (auto [which, tile] : filled) {
    SmallVector<Share> &own = shares.emplace_back();
    Gather from = gather(which);
    int64_t columns = countColumns(which);
    int64_t bytes = format.getIntOrFloatBitWidth() / 8;
    int64_t width = operands[which].getWidth(Operand::Terms, kAccess / bytes);
    int64_t vectors = columns / width;
    auto [outer, inner] = at.divide(thread, vectors);
    for (int64_t i = 0; i < kRows * vectors / kThreads; ++i) {
      Value row, column;
      if (kThreads % vectors == 0) {
        row = at.add(outer, i * (kThreads / vectors));
        column = inner;
      } else {
        std::tie(row, column) =
            at.divide(at.add(thread, i * kThreads), vectors);
      }
      column = at.scale(column, width);
      Value vector = from.load(
          from.find(from.findEntry(at.add(first, row)), from.findTerm(column)),
          width);
      own.push_back({vector, tile->place(at, at.constant(0), row, column)});
    }
  }
  gpu::BarrierOp::create(b);
  for (auto [one, own] : llvm::zip(filled, shares))
    for (auto [vector, place] : own) {
      if (!isa<VectorType>(vector.getType())) {
        memref::StoreOp::create(b, vector, one.second->memory, place);
        continue;
      }
      auto type = cast<VectorType>(vector.getType());
      int64_t bytes = type.getNumElements() * type.getElementTypeBitWidth() / 8;
      vector::StoreOp::create(b, vector, one.second->memory, place,
                              /*nontemporal=*/false, llvm::MaybeAlign(bytes));
    }
  store();
  gpu::BarrierOp::create(b);
}

SmallVector<Value> AttentionBlock::loadOwn(const SharedTile &tile) const {
  Value start =
      matrices.findRow(tile, at.constant(0), at.scale(warp, kWarpRows), 0);
  SmallVector<Value> own;
  for (int64_t term = 0; term < tile.pitch - WarpMma::getPitch(0);
       term += WarpMma::kTerms)
    own.push_back(matrices.load(tile, start, 0, term));
  return own;
}

Value AttentionBlock::multiplyRows(ArrayRef<Value> own, const SharedTile &tile,
                                   int64_t chunk) const {
  Value start = matrices.findRow(tile, at.constant(0), at.constant(0), 1);
  SmallVector<Value> sums = startSums(kChunk);
  for (auto [i, rows] : llvm::enumerate(own)) {
    Value both = matrices.load(tile, start, chunk * kChunk,
                               static_cast<int64_t>(i) * WarpMma::kTerms);
    for (int64_t half = 0; half < 2; ++half)
      matrices.multiply(
          rows, both, half,
          MutableArrayRef(sums).slice(half * WarpMma::kSums, WarpMma::kSums));
  }
  return vector::FromElementsOp::create(
      b, VectorType::get({kScores}, b.getF32Type()), sums);
}

void AttentionBlock::addRows(Value weights, const SharedTile &tile,
                             int64_t chunk, MutableArrayRef<Value> sums) const {
  SharedTile transposed = tile;
  transposed.along = Operand::Entries;
  Value start = matrices.findRow(transposed, at.constant(0), at.constant(0), 1);
  auto columns =
      static_cast<int64_t>(sums.size()) / WarpMma::kSums * WarpMma::kColumns;
  for (int64_t column = 0; column < columns; column += 2 * WarpMma::kColumns) {
    Value both = matrices.load(transposed, start, column, chunk * kChunk);
    for (int64_t half = 0; half < 2; ++half)
      matrices.multiply(
          weights, both, half,
          sums.slice((column / WarpMma::kColumns + half) * WarpMma::kSums,
                     WarpMma::kSums));
  }
}

SmallVector<Value> AttentionBlock::startSums(int64_t columns) const {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  return SmallVector<Value>(columns / WarpMma::kColumns * WarpMma::kSums, zero);
}

void AttentionBlock::storeSums(Which which, ValueRange sums) const {
  Contraction plain;
  plain.batch = getBlockBatch();
  plain.m = getRows(which).size;
  plain.n = countColumns(which);
  plain.out = operands[which];
  ContractionMemory into;
  into.out = memory[which];
  Results results(at, plain, into, batch, getRows(which), {plain.n, plain.n});
  Value row = findOwnRow(), column = at.scale(member, 2);
  int64_t number = 0;
  for (int64_t j = 0; j < plain.n; j += WarpMma::kColumns)
    for (int64_t below : {int64_t(0), kBelow}) {
      results.store(at.add(row, below), at.add(column, j),
                    sums.slice(number, 2));
      number += 2;
    }
}

Value AttentionBlock::loadRow(Which which, Value row) const {
  Gather from = gather(which);
  return from.load(
      from.find(from.findEntry(row), from.findTerm(at.constant(0))), 1);
}

Value AttentionBlock::loadRows(Which which) const {
  Value row = findOwnRow();
  return vector::FromElementsOp::create(
      b, VectorType::get({2}, b.getF32Type()),
      ValueRange{loadRow(which, row), loadRow(which, at.add(row, kBelow))});
}

void AttentionBlock::storeRows(Which which, Value two) const {
  Gather to = gather(which);
  Value row = findOwnRow(), isFirst = at.isBelow(member, 1);
  for (int64_t i = 0; i < 2; ++i) {
    Gather::Place place = to.find(to.findEntry(at.add(row, i * kBelow)),
                                  to.findTerm(at.constant(0)));
    OpBuilder::InsertionGuard guard(b);
    auto branch = scf::IfOp::create(b, at.both(isFirst, place.exists),
                                    /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
    to.store(vector::ExtractOp::create(b, two, i), place);
  }
}

Value AttentionBlock::multiplyOwn(Which one, Which other) const {
  constexpr int64_t kMax = 8;
  int64_t columns = countColumns(one), width = columns / kSharers;
  for (Which which : {one, other})
    width = std::gcd(width, operands[which].getWidth(Operand::Terms, kMax));
  auto type = VectorType::get({width}, b.getF32Type());
  SmallVector<Value> rows;
  for (int64_t i = 0; i < 2; ++i) {
    Value row = at.add(findOwnRow(), i * kBelow), sum = splat(0, width);
    for (int64_t j = 0; j < columns; j += kSharers * width) {
      auto load = [&](Which which) -> Value {
        Gather from = gather(which);
        Value column = at.add(at.scale(member, width), j);
        Value x = from.load(
            from.find(from.findEntry(row), from.findTerm(column)), width);
        x = convert(b, x, b.getF32Type());
        return width == 1 ? vector::BroadcastOp::create(b, type, x).getResult()
                          : x;
      };
      sum = fma(load(one), load(other), sum);
    }
    Value whole = vector::ExtractOp::create(b, sum, int64_t(0));
    for (int64_t j = 1; j < width; ++j)
      whole =
          arith::AddFOp::create(b, whole, vector::ExtractOp::create(b, sum, j));
    rows.push_back(whole);
  }
  return sumLanes(vector::FromElementsOp::create(
      b, VectorType::get({2}, b.getF32Type()), rows));
}
