//===- AttentionBlock.cpp - Common parts of attention kernels -------------===//

#include "AttentionBlock.h"
#include "../Contraction/Epilogue.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;

/// Returns the number of blocks that a multiprocessor should hold: as many as
/// fit into its registers without spilling.
static int32_t countBlocks(const GpuAttention &attention) {
  if (std::max(attention.depth, attention.width) > 64)
    return 2;
  return attention.areGradients() ? 3 : 4;
}

//===----------------------------------------------------------------------===//
// Construction of the kernel
//===----------------------------------------------------------------------===//

AttentionBlock::AttentionBlock(ImplicitLocOpBuilder &b,
                               const GpuAttention &attention, StringRef name,
                               bool hasQueries)
    : attention(attention), b(b), at{b}, hasQueries(hasQueries),
      tiles(llvm::divideCeil(hasQueries ? attention.queries : attention.keys,
                             kRows)),
      otherTiles(llvm::divideCeil(
          hasQueries ? attention.keys : attention.queries, kRows)),
      format(getElementType(b.getContext(), attention.format)), matrices{at} {
  describeOperands();
  createKernel(name);
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  std::tie(batch, tile) = at.divide(block, tiles);
  // The last queries see the most keys, and the first keys are seen by the most
  // queries.
  if (attention.causal && hasQueries)
    tile = arith::SubIOp::create(b, at.constant(tiles - 1), tile);
  firstRow = at.scale(tile, kRows);
  std::tie(warp, matrices.lane) = at.divide(thread, kWarp);
  std::tie(group, member) = at.divide(matrices.lane, kSharers);
  for (const Operand &operand : operands)
    starts.push_back(findStart(at, batch, getBlockBatch(), operand.batch));
}

SmallVector<int64_t> AttentionBlock::getBlockBatch() const {
  SmallVector<int64_t> batch(attention.batch.begin(), attention.batch.end());
  if (attention.grouped && !hasQueries)
    batch.back() = 1;
  return batch;
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
  case Inner:
    return 1;
  }
  llvm_unreachable("all tensors are handled");
}

Extent AttentionBlock::getRows(Which which) const {
  bool areKeys =
      which == Key || which == Values || which == Dkey || which == Dvalue;
  int64_t rows = areKeys ? attention.keys : attention.queries;
  return {rows, static_cast<int64_t>(llvm::alignTo(rows, kRows))};
}

void AttentionBlock::describeOperands() {
  auto add = [&](const GpuAttention::Tensor &tensor) {
    auto which = static_cast<Which>(operands.size());
    Operand &operand = operands.emplace_back();
    operand.dtype = tensor.dtype;
    operand.alignment = tensor.alignment;
    operand.entries = {{getRows(which).size, tensor.rows}};
    operand.terms = {{countColumns(which), 1}};
    llvm::append_range(operand.batch, tensor.batch);
  };
  llvm::for_each(attention.tensors, add);
  if (!attention.areGradients())
    return;
  GpuAttention::Tensor inner; // f32, contiguous.
  inner.batch.resize(attention.batch.size());
  int64_t stride = attention.queries;
  for (size_t axis = inner.batch.size(); axis-- > 0;) {
    inner.batch[axis] = stride;
    stride *= attention.batch[axis];
  }
  add(inner);
}

void AttentionBlock::createKernel(StringRef name) {
  SmallVector<Type> types;
  for (const Operand &operand : operands)
    types.push_back(
        MemRefType::get({operand.countElements(attention.batch)},
                        getElementType(b.getContext(), operand.dtype)));
  int64_t blocks = tiles * llvm::product_of(getBlockBatch());
  kernel = binade::createKernel(b, name, types, blocks, kThreads);
  llvm::append_range(memory, kernel.getArguments());
  kernel->setAttr("nvvm.minctasm", b.getI32IntegerAttr(countBlocks(attention)));
}

Gather AttentionBlock::gather(Which which) const {
  int64_t columns = countColumns(which);
  return Gather(at, operands[which], memory[which], starts[which],
                getRows(which), {columns, columns});
}

Value AttentionBlock::findOwnRow() const {
  return at.add(firstRow, at.add(at.scale(warp, kWarpRows), group));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionBlock::loop(Value first, Value last,
                                        ValueRange start, Step step) const {
  auto loop = scf::ForOp::create(b, first, last, at.constant(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, step(loop.getInductionVar(), loop.getRegionIterArgs(),
                               /*isMasked=*/false));
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value>
AttentionBlock::forEachHead(ValueRange start,
                            function_ref<SmallVector<Value>(ValueRange)> body) {
  if (!attention.grouped || hasQueries)
    return body(start);
  auto loop =
      scf::ForOp::create(b, at.constant(0), at.constant(attention.batch.back()),
                         at.constant(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> firstHeads = starts;
  for (auto [start, operand] : llvm::zip(starts, operands))
    start =
        at.add(start, at.scale(loop.getInductionVar(), operand.batch.back()));
  scf::YieldOp::create(b, body(loop.getRegionIterArgs()));
  starts = firstHeads;
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value> AttentionBlock::forEachTile(ValueRange start,
                                               Step step) const {
  Value none = at.constant(0), all = at.constant(otherTiles);
  if (attention.causal && hasQueries)
    return step(tile, loop(none, tile, start, step), /*isMasked=*/true);
  if (attention.causal)
    return loop(at.add(tile, 1), all, step(tile, start, /*isMasked=*/true),
                step);
  if (!hasQueries || attention.keys % kRows == 0)
    return loop(none, all, start, step);
  Value last = at.constant(otherTiles - 1);
  return step(last, loop(none, last, start, step), /*isMasked=*/true);
}
