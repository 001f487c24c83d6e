//===- AttentionBlock.cpp - Common parts of attention kernels -------------===//

#include "AttentionBlock.h"
#include "../Contraction/Epilogue.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the rows of a tile of the other side. In the forward pass, 32 leave
/// enough registers for three blocks. Gradients have two copies of two tensors
/// in the 48 KiB of shared memory that every kernel may use.
static int64_t chooseTileRows(const GpuAttention &attention) {
  bool areNarrow = std::max(attention.depth, attention.width) <= 64;
  return attention.areGradients() && areNarrow ? 64 : 32;
}

//===----------------------------------------------------------------------===//
// Construction of the kernel
//===----------------------------------------------------------------------===//

AttentionBlock::AttentionBlock(ImplicitLocOpBuilder &b,
                               const GpuAttention &attention, StringRef name,
                               Shape shape)
    : attention(attention), shape(shape), b(b), at{b},
      tileRows(chooseTileRows(attention)),
      tiles(llvm::divideCeil(shape.hasQueries ? attention.queries
                                              : attention.keys,
                             countOwnRows())),
      otherTiles(llvm::divideCeil(
          shape.hasQueries ? attention.keys : attention.queries, tileRows)),
      format(getElementType(b.getContext(), attention.format)), matrices{at} {
  describeOperands();
  createKernel(name);
  allocate();
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  std::tie(batch, tile) = at.divide(block, countBlocksPerEntry());
  // The last queries see the most keys, and the first keys are seen by the most
  // queries.
  if (shape.biasGradient)
    std::tie(tile, keyTile) = at.divide(tile, hasOwnKeys() ? otherTiles : 1);
  else if (attention.causal && shape.hasQueries)
    tile = arith::SubIOp::create(b, at.constant(tiles - 1), tile);
  firstRow = at.scale(tile, countOwnRows());
  std::tie(warp, matrices.lane) = at.divide(thread, kWarp);
  std::tie(group, member) = at.divide(matrices.lane, kSharers);
  for (const Operand &operand : operands)
    starts.push_back(findStart(at, batch, getBlockBatch(), operand.batch));
  head = batch;
  if (attention.extras.dropout)
    loadRandomState();
}

SmallVector<int64_t> AttentionBlock::getBlockBatch() const {
  SmallVector<int64_t> batch(attention.batch.begin(), attention.batch.end());
  if (attention.grouped && !shape.hasQueries)
    batch.back() = 1;
  if (shape.biasGradient)
    for (auto [size, stride] : llvm::zip(batch, getBiasGradient().batch))
      if (stride == 0)
        size = 1;
  return batch;
}

int64_t AttentionBlock::countBlocksPerEntry() const {
  if (!shape.biasGradient)
    return tiles;
  return (hasOwnQueries() ? tiles : 1) * (hasOwnKeys() ? otherTiles : 1);
}

int64_t AttentionBlock::countColumns(Which which) const {
  switch (which) {
  case Query:
  case Key:
  case Dquery:
  case Dkey:
    return attention.depth;
  case Values:
  case Y:
  case Dy:
  case Dvalue:
    return attention.width;
  case Lse:
    return 1;
  case Factors:
    return countFactors(attention);
  }
  llvm_unreachable("all tensors are handled");
}

Extent AttentionBlock::getRows(Which which) const {
  bool areKeys =
      which == Key || which == Values || which == Dkey || which == Dvalue;
  int64_t rows = areKeys ? attention.keys : attention.queries;
  // With a causal mask, blocks access as many rows of the other side as of
  // their own.
  bool areOwn = areKeys != shape.hasQueries || attention.causal;
  int64_t together = areOwn ? std::max(countOwnRows(), tileRows) : tileRows;
  return {rows, static_cast<int64_t>(llvm::alignTo(rows, together))};
}

void AttentionBlock::describeOperands() {
  for (const GpuAttention::Tensor &tensor : attention.tensors) {
    auto which = static_cast<Which>(operands.size());
    Operand &operand = operands.emplace_back();
    operand.dtype = tensor.dtype;
    operand.alignment = tensor.alignment;
    operand.entries = {{getRows(which).size, tensor.rows}};
    operand.terms = {{countColumns(which), 1}};
    llvm::append_range(operand.batch, tensor.batch);
  }
  describeExtras();
  if (!attention.areGradients())
    return;
  Operand &all = operands.emplace_back(); // f32, each factor contiguous.
  all.entries = {{attention.queries, 1}};
  all.batch.resize(attention.batch.size());
  int64_t stride = attention.queries;
  for (size_t axis = all.batch.size(); axis-- > 0;) {
    all.batch[axis] = stride;
    stride *= attention.batch[axis];
  }
  all.terms = {{countFactors(attention), stride}};
}

void AttentionBlock::describeExtras() {
  auto add = [&](const GpuAttention::Tensor &tensor) {
    Operand &operand = operands.emplace_back();
    operand.dtype = tensor.dtype;
    operand.alignment = tensor.alignment;
    operand.entries = {{attention.queries, tensor.rows}};
    operand.terms = {{attention.keys, tensor.columns}};
    llvm::append_range(operand.batch, tensor.batch);
  };
  for (const GpuAttention::Tensor &bias : attention.extras.biases)
    add(bias);
  if (attention.extras.mask)
    add(*attention.extras.mask);
  if (attention.extras.dropout) {
    Operand &state = operands.emplace_back();
    state.dtype = ::binade::DType::I64;
    state.entries = {{2, 1}};
    state.terms = {{1, 1}};
    state.batch.resize(attention.batch.size());
  }
  for (const GpuAttention::BiasGradient &gradient : attention.biasGradients)
    add(gradient.out);
}

/// Returns the type of an element in memory.
static Type getStoredType(MLIRContext *context, ::binade::DType dtype) {
  if (dtype == ::binade::DType::BOOL)
    return IntegerType::get(context, 8);
  if (dtype == ::binade::DType::I64)
    return IntegerType::get(context, 64);
  return getElementType(context, dtype);
}

void AttentionBlock::createKernel(StringRef name) {
  SmallVector<Type> types;
  for (const Operand &operand : operands)
    types.push_back(
        MemRefType::get({operand.countElements(attention.batch)},
                        getStoredType(b.getContext(), operand.dtype)));
  int64_t blocks = countBlocksPerEntry() * llvm::product_of(getBlockBatch());
  kernel = binade::createKernel(b, name, types, blocks, kThreads);
  llvm::append_range(memory, kernel.getArguments());
  kernel->setAttr("nvvm.minctasm", b.getI32IntegerAttr(shape.blocks));
}

Gather AttentionBlock::gather(Which which) const {
  int64_t columns = countColumns(which);
  size_t index = indexOf(which);
  return Gather(at, operands[index], memory[index], starts[index],
                getRows(which), {columns, columns});
}

Value AttentionBlock::findOwnRow(int64_t set) const {
  Value ofWarp = at.scale(warp, kMatmulRows * shape.sets);
  return at.add(firstRow, at.add(at.add(ofWarp, set * kMatmulRows), group));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionBlock::forEachHead(ValueRange start,
                                               ChainedBody body) {
  SmallVector<int64_t> own = getBlockBatch();
  int64_t count = llvm::product_of(attention.batch) / llvm::product_of(own);
  if (count == 1)
    return body(start);
  auto loop = scf::ForOp::create(b, at.constant(0), at.constant(count),
                                 at.constant(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  // The place of the head along the axes over which the block sums.
  SmallVector<Value> places(own.size());
  Value rest = loop.getInductionVar();
  for (size_t axis = own.size(); axis-- > 0;) {
    int64_t size = attention.batch[axis] / own[axis];
    if (size == count)
      places[axis] = rest;
    else if (size > 1)
      std::tie(rest, places[axis]) = at.divide(rest, size);
    count /= size;
    if (count == 1)
      break;
  }
  auto move = [&](Value from, ArrayRef<int64_t> strides) {
    for (auto [place, stride] : llvm::zip(places, strides))
      if (place)
        from = at.add(from, at.scale(place, stride));
    return from;
  };
  SmallVector<int64_t> heads(own.size());
  int64_t step = 1;
  for (size_t axis = own.size(); axis-- > 0; step *= attention.batch[axis])
    heads[axis] = step;
  SmallVector<Value> firstHeads = starts;
  Value firstHead = head;
  head = move(findStart(at, batch, own, heads), heads);
  for (auto [start, operand] : llvm::zip(starts, operands))
    start = move(start, operand.batch);
  scf::YieldOp::create(b, body(loop.getRegionIterArgs()));
  starts = firstHeads;
  head = firstHead;
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value> AttentionBlock::visit(ArrayRef<Which> others, Value tile,
                                         Value end, ValueRange before,
                                         bool isMasked, Step step) {
  awaitCopies();
  Value next = at.add(tile, 1);
  auto branch = scf::IfOp::create(
      b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, next, end),
      /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    copyTile(others, next);
  }
  current = tile;
  stage = at.divide(tile, 2).second;
  return step(before, isMasked);
}

SmallVector<Value> AttentionBlock::loop(ArrayRef<Which> others, Value first,
                                        Value last, Value end, ValueRange start,
                                        bool isMasked, Step step) {
  auto loop = scf::ForOp::create(b, first, last, at.constant(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, visit(others, loop.getInductionVar(), end,
                                loop.getRegionIterArgs(), isMasked, step));
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value> AttentionBlock::forEachTile(ArrayRef<Which> others,
                                               ValueRange start, Step step) {
  int64_t perBlock = countOwnRows() / tileRows;
  bool isLastMasked =
      !attention.causal && shape.hasQueries && attention.keys % tileRows != 0;
  int64_t masked = attention.causal ? perBlock : isLastMasked;
  Value begin = at.constant(0),
        end = at.constant(attention.causal ? tiles * perBlock : otherTiles);
  if (attention.causal && shape.hasQueries)
    end = at.scale(at.add(tile, 1), perBlock);
  else if (attention.causal)
    begin = at.scale(tile, perBlock);
  gpu::BarrierOp::create(b); // All warps have read what copies will overwrite.
  copyTile(others, begin);
  bool areFirst = attention.causal && !shape.hasQueries;
  Value split = areFirst ? at.add(begin, masked) : at.add(end, -masked);
  SmallVector<Value> values(start);
  for (auto [first, last, isFirst] :
       {std::tuple(begin, split, true), std::tuple(split, end, false)}) {
    bool isMasked = isFirst == areFirst;
    if (!isMasked || masked > 0)
      values = loop(others, first, last, end, values, isMasked, step);
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value AttentionBlock::compareWithTile() const {
  Value own = at.add(firstRow, at.scale(warp, kMatmulRows * shape.sets));
  return arith::SubIOp::create(b, at.scale(current, tileRows), own);
}

SmallVector<Value> AttentionBlock::unlessHidden(int64_t chunk, bool isMasked,
                                                ValueRange before, Body body) {
  if (!isMasked)
    return body();
  if (!attention.causal) { // This is the last tile.
    bool exists = (otherTiles - 1) * tileRows + chunk * kChunk < attention.keys;
    return exists ? body() : SmallVector<Value>(before);
  }
  // A query sees the keys up to its own position.
  int64_t last = kMatmulRows * shape.sets - chunk * kChunk - 1,
          first = -(chunk + 1) * kChunk + 1;
  auto isVisible = arith::CmpIOp::create(
      b,
      shape.hasQueries ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sge,
      compareWithTile(), at.constant(shape.hasQueries ? last : first));
  auto branch = scf::IfOp::create(b, before.getTypes(), isVisible,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, before);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, body());
  return llvm::to_vector_of<Value>(branch.getResults());
}

Value AttentionBlock::mask(Value scores, int64_t set, int64_t chunk) const {
  // The offsets between the scores of a thread are constants. They are compared
  // with the part of the position that differs between threads.
  bool isCausal = attention.causal;
  SmallVector<int32_t> places;
  for (int64_t i = 0; i < kScores; ++i) {
    int64_t row = set * kMatmulRows + i / 2 % 2 * kBelow,
            column = chunk * kChunk + i / 4 * kBelow + i % 2;
    places.push_back(static_cast<int32_t>(
        isCausal ? row - column : attention.keys - 1 - column));
  }
  Value own = at.scale(member, 2);
  if (isCausal)
    own = at.add(arith::SubIOp::create(b, own, group), compareWithTile());
  else
    own = at.add(own, at.scale(current, tileRows));
  auto type = VectorType::get({kScores}, b.getI32Type());
  Value all = vector::BroadcastOp::create(
      b, type, arith::IndexCastOp::create(b, b.getI32Type(), own));
  Value limits = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, ArrayRef<int32_t>(places)));
  Value visible = arith::CmpIOp::create(
      b,
      shape.hasQueries ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sge,
      all, limits);
  return arith::SelectOp::create(b, visible, scores, splat(-INFINITY, kScores));
}
