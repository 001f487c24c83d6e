//===- AttentionRows.cpp - Rows of attention in registers -----------------===//

#include "../Contraction/Epilogue.h"
#include "AttentionBlock.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

void AttentionBlock::allocate() {
  auto space = gpu::AddressSpaceAttr::get(kernel.getContext(),
                                          gpu::AddressSpace::Workgroup);
  auto add = [&](int64_t count, Type element) -> Value {
    return kernel.addWorkgroupAttribution(
        MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space),
        kernel.getLoc());
  };
  int64_t count = 0, own = 0;
  for (auto [tile, columns] :
       llvm::zip(tilesOf, ArrayRef{attention.depth, attention.width})) {
    tile.along = Operand::Terms;
    tile.pitch = WarpMma::getPitch(columns);
    tile.elements = tile.pitch * tileRows;
    tile.first = count;
    count += 2 * tile.elements;
    own = std::max(own, tile.pitch * countOwnRows());
  }
  // The block's own rows are there before the tiles.
  Value all = add(std::max(count, own), format);
  for (SharedTile &tile : tilesOf)
    tile.memory = all;
  if (!shape.hasQueries)
    factors = add(2 * countFactors(attention) * tileRows, b.getF32Type());
  if (shape.biasGradient && !hasOwnQueries())
    partial = add(kWarps * (hasOwnKeys() ? tileRows : 1), b.getF32Type());
}

/// Starts to copy `width` elements, or zeros if they do not exist.
void AttentionBlock::copyElements(const Gather::Place &from, Value source,
                                  Value to, Value place, int64_t width) const {
  constexpr int64_t kWidest = 16; // Bytes; only these copies can bypass L1.
  Value elements, index = from.index;
  if (from.exists) {
    elements = arith::SelectOp::create(b, from.exists, at.constant(width),
                                       at.constant(0));
    index = arith::SelectOp::create(b, from.exists, index, at.constant(0));
  }
  int64_t bytes =
      width *
      cast<MemRefType>(to.getType()).getElementType().getIntOrFloatBitWidth() /
      8;
  nvgpu::DeviceAsyncCopyOp::create(
      b, nvgpu::DeviceAsyncTokenType::get(b.getContext()), to, place, source,
      index, b.getIndexAttr(width), elements,
      bytes == kWidest ? b.getUnitAttr() : UnitAttr());
}

void AttentionBlock::copyRows(Which which, Value first, int64_t rows,
                              const SharedTile &tile, Value start) const {
  constexpr int64_t kNarrowest = 4, kWidest = 16; // Bytes of a copy.
  Gather from = gather(which);
  int64_t columns = countColumns(which),
          bytes = format.getIntOrFloatBitWidth() / 8,
          width = operands[which].getWidth(Operand::Terms, kWidest / bytes),
          vectors = columns / width, count = rows * vectors;
  auto copy = [&](Value row, Value column) {
    column = at.scale(column, width);
    Gather::Place source =
        from.find(from.findEntry(at.add(first, row)), from.findTerm(column));
    Value place = tile.place(at, start, row, column);
    if (width * bytes >= kNarrowest)
      return copyElements(source, memory[which], tile.memory, place, width);
    memref::StoreOp::create(b, from.load(source, width), tile.memory, place);
  };
  auto [outer, inner] = at.divide(thread, vectors);
  for (int64_t i = 0; i < count; i += kThreads) {
    OpBuilder::InsertionGuard guard(b);
    Value number = at.add(thread, i);
    if (Value exists = at.isBelow(number, count, i + kThreads)) {
      auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
    }
    if (kThreads % vectors == 0) {
      copy(at.add(outer, i / vectors), inner);
    } else {
      auto [row, column] = at.divide(number, vectors);
      copy(row, column);
    }
  }
}

void AttentionBlock::copyFactors(Value first, Value number) const {
  int64_t count = countFactors(attention) * tileRows;
  for (int64_t i = 0; i < count; i += kThreads) {
    OpBuilder::InsertionGuard guard(b);
    Value own = i == 0 ? thread : at.add(thread, i);
    if (Value exists = at.isBelow(own, count, i + kThreads)) {
      auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
    }
    Gather from = gather(Factors);
    auto [factor, row] = at.divide(own, tileRows);
    Value place = at.add(at.scale(number, count), own);
    copyElements(
        from.find(from.findEntry(at.add(first, row)), from.findTerm(factor)),
        memory[indexOf(Factors)], factors, place, 1);
  }
}

void AttentionBlock::copyTile(ArrayRef<Which> others, Value number) const {
  Value first = at.scale(number, tileRows),
        parity = at.divide(number, 2).second;
  for (Which which : others) {
    const SharedTile &tile = getTile(which);
    copyRows(which, first, tileRows, tile, tile.findStage(at, parity));
  }
  if (!shape.hasQueries)
    copyFactors(first, parity);
}

void AttentionBlock::awaitCopies() const {
  // A group contains all copies that the thread has started.
  Value all = nvgpu::DeviceAsyncCreateGroupOp::create(
      b, nvgpu::DeviceAsyncTokenType::get(b.getContext()), ValueRange());
  nvgpu::DeviceAsyncWaitOp::create(b, all, IntegerAttr());
  gpu::BarrierOp::create(b);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionBlock::loadOwn(Which which) {
  SharedTile tile = getTile(which);
  tile.first = 0;
  Value begin = at.constant(0);
  gpu::BarrierOp::create(b); // All warps have read what was there before.
  copyRows(which, firstRow, countOwnRows(), tile, begin);
  awaitCopies();
  Value start = matrices.findRow(tile, begin,
                                 at.scale(warp, kMatmulRows * shape.sets), 0);
  SmallVector<Value> own;
  for (int64_t set = 0; set < shape.sets; ++set)
    for (int64_t term = 0; term < countColumns(which); term += WarpMma::kTerms)
      own.push_back(matrices.load(tile, start, set * kMatmulRows, term));
  return own;
}

SmallVector<Value> AttentionBlock::multiplyRows(ArrayRef<Value> own,
                                                Which other,
                                                int64_t chunk) const {
  const SharedTile &tile = getTile(other);
  Value start =
      matrices.findRow(tile, tile.findStage(at, stage), at.constant(0), 1);
  size_t terms = own.size() / shape.sets;
  SmallVector<SmallVector<Value>> sums(shape.sets);
  for (SmallVector<Value> &ofSet : sums)
    ofSet = startSums(kChunk, 1);
  for (size_t i = 0; i < terms; ++i) {
    Value both = matrices.load(tile, start, chunk * kChunk,
                               static_cast<int64_t>(i) * WarpMma::kTerms);
    for (auto [set, ofSet] : llvm::enumerate(sums))
      for (int64_t half = 0; half < 2; ++half)
        matrices.multiply(own[set * terms + i], both, half,
                          MutableArrayRef(ofSet).slice(half * WarpMma::kSums,
                                                       WarpMma::kSums));
  }
  auto type = VectorType::get({kScores}, b.getF32Type());
  return llvm::map_to_vector(sums, [&](ArrayRef<Value> ofSet) -> Value {
    return vector::FromElementsOp::create(b, type, ofSet);
  });
}

void AttentionBlock::addRows(ArrayRef<Value> weights, Which other,
                             int64_t chunk, MutableArrayRef<Value> sums) const {
  SharedTile transposed = getTile(other);
  transposed.along = Operand::Entries;
  Value start = matrices.findRow(transposed, transposed.findStage(at, stage),
                                 at.constant(0), 1);
  size_t perSet = sums.size() / shape.sets;
  int64_t columns = countColumns(other);
  for (int64_t column = 0; column < columns; column += 2 * WarpMma::kColumns) {
    Value both = matrices.load(transposed, start, column, chunk * kChunk);
    for (auto [set, own] : llvm::enumerate(weights))
      for (int64_t half = 0; half < 2; ++half)
        matrices.multiply(
            own, both, half,
            sums.slice(set * perSet +
                           (column / WarpMma::kColumns + half) * WarpMma::kSums,
                       WarpMma::kSums));
  }
}

SmallVector<Value> AttentionBlock::startSums(int64_t columns,
                                             int64_t sets) const {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  return SmallVector<Value>(sets * columns / WarpMma::kColumns * WarpMma::kSums,
                            zero);
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
  Value column = at.scale(member, 2);
  int64_t number = 0;
  for (int64_t set = 0; set < shape.sets; ++set) {
    Value row = findOwnRow(set), below = at.add(row, kBelow);
    for (int64_t j = 0; j < plain.n; j += WarpMma::kColumns)
      for (Value one : {row, below}) {
        results.store(one, at.add(column, j), sums.slice(number, 2));
        number += 2;
      }
  }
}

//===----------------------------------------------------------------------===//
// Values per row
//===----------------------------------------------------------------------===//

Value AttentionBlock::loadRows(Which which, int64_t set, int64_t column) const {
  Gather from = gather(which);
  auto load = [&](Value row) {
    return from.load(
        from.find(from.findEntry(row), from.findTerm(at.constant(column))), 1);
  };
  Value row = findOwnRow(set);
  return vector::FromElementsOp::create(
      b, VectorType::get({2}, b.getF32Type()),
      ValueRange{load(row), load(at.add(row, kBelow))});
}

void AttentionBlock::storeRows(Which which, int64_t set, Value two,
                               int64_t column) const {
  Gather to = gather(which);
  Value row = findOwnRow(set), isFirst = at.isBelow(member, 1);
  for (int64_t i = 0; i < 2; ++i) {
    Gather::Place place = to.find(to.findEntry(at.add(row, i * kBelow)),
                                  to.findTerm(at.constant(column)));
    OpBuilder::InsertionGuard guard(b);
    auto branch = scf::IfOp::create(b, at.both(isFirst, place.exists),
                                    /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
    to.store(vector::ExtractOp::create(b, two, i), place);
  }
}

Value AttentionBlock::multiplyOwn(Which one, Which other, int64_t set) const {
  constexpr int64_t kMax = 8;
  int64_t columns = countColumns(one), width = columns / kSharers;
  for (Which which : {one, other})
    width = std::gcd(width, operands[which].getWidth(Operand::Terms, kMax));
  auto type = VectorType::get({width}, b.getF32Type());
  SmallVector<Value> rows;
  for (int64_t i = 0; i < 2; ++i) {
    Value row = at.add(findOwnRow(set), i * kBelow), sum = splat(0, width);
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
