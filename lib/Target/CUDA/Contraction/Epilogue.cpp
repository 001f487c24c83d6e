//===- Epilogue.cpp - Epilogue of contractions ----------------------------===//

#include "Epilogue.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

gpu::GPUFuncOp mlir::binade::createKernel(ImplicitLocOpBuilder &b,
                                          StringRef name, ArrayRef<Type> types,
                                          int64_t blocks, int64_t threads) {
  auto kernel = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel.setKnownGridSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(blocks), 1, 1}));
  kernel.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  b.setInsertionPointToStart(&kernel.getBody().front());
  for (unsigned index = 0; index < types.size(); ++index)
    kernel.setArgAttr(index, "llvm.noalias", b.getUnitAttr());
  return kernel;
}

gpu::GPUFuncOp mlir::binade::createContractionKernel(
    ImplicitLocOpBuilder &b, StringRef name, const Contraction &contraction,
    const Tiling &tiling, int64_t blocks, int64_t threads,
    ContractionMemory &memory) {
  SmallVector<Type> types;
  SmallVector<Value *> places;
  auto add = [&](Value &place, int64_t elements, Type element) {
    types.push_back(MemRefType::get({elements}, element));
    places.push_back(&place);
  };
  auto addOperand = [&](Value &place, const Operand &operand) {
    add(place, operand.countElements(contraction.batch),
        getElementType(b.getContext(), operand.dtype));
  };
  addOperand(memory.lhs, contraction.lhs);
  addOperand(memory.rhs, contraction.rhs);
  addOperand(memory.out, contraction.out);
  if (contraction.bias)
    addOperand(memory.bias, *contraction.bias);
  if (contraction.lhsScale)
    addOperand(memory.lhsScale, *contraction.lhsScale);
  if (contraction.rhsScale)
    addOperand(memory.rhsScale, *contraction.rhsScale);
  if (tiling.splits > 1)
    add(memory.workspace,
        tiling.splits * contraction.countBatches() * contraction.m *
            contraction.n,
        b.getF32Type());
  gpu::GPUFuncOp kernel = createKernel(b, name, types, blocks, threads);
  for (auto [index, place] : llvm::enumerate(places))
    *place = kernel.getArgument(index);
  return kernel;
}

Value mlir::binade::findStart(Indices at, Value number, ArrayRef<int64_t> sizes,
                              ArrayRef<int64_t> strides) {
  Value start = at.constant(0);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    auto [rest, entry] = at.divide(number, sizes[axis]);
    start = at.add(start, at.scale(entry, strides[axis]));
    number = rest;
  }
  return start;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Results::Results(Indices at, const Contraction &contraction,
                 const ContractionMemory &memory, Value batch, Extent rows,
                 Extent columns)
    : at(at), contraction(contraction),
      out(at, contraction.out, memory.out,
          findStart(at, batch, contraction.batch, contraction.out.batch), rows,
          columns) {
  if (contraction.bias)
    bias.emplace(
        at, *contraction.bias, memory.bias,
        findStart(at, batch, contraction.batch, contraction.bias->batch),
        Extent{1, 1}, columns);
  for (Value factor : {memory.lhsScale, memory.rhsScale}) {
    if (!factor || contraction.scaledTerms > 0)
      continue;
    Value own = memref::LoadOp::create(at.b, factor, at.constant(0));
    scale = scale ? arith::MulFOp::create(at.b, scale, own).getResult() : own;
  }
}

int64_t Results::getWidth(int64_t most) const {
  return contraction.out.getWidth(Operand::Terms, most);
}

Value Results::finish(Value sum, const Gather::Place &place,
                      Value column) const {
  ImplicitLocOpBuilder &b = at.b;
  auto addElement = [&](const Gather &from, const Gather::Place &where) {
    Value more = convert(b, from.load({where.index, {}}, 1), b.getF32Type());
    sum = arith::AddFOp::create(b, sum, more);
  };
  if (scale)
    sum = arith::MulFOp::create(b, sum, scale);
  if (bias)
    addElement(*bias, bias->find(bias->findEntry(at.constant(0)),
                                 bias->findTerm(column)));
  if (contraction.accumulate)
    addElement(out, place);
  return convert(b, sum, getElementType(b.getContext(), contraction.out.dtype));
}

void Results::store(Value row, Value column, ValueRange sums) const {
  ImplicitLocOpBuilder &b = at.b;
  auto width = static_cast<int64_t>(sums.size());
  if (getWidth(width) < width) {
    for (auto [i, sum] : llvm::enumerate(sums))
      store(row, at.add(column, static_cast<int64_t>(i)), sum);
    return;
  }
  Gather::Place place = out.find(out.findEntry(row), out.findTerm(column));
  OpBuilder::InsertionGuard guard(b);
  if (place.exists) {
    auto branch = scf::IfOp::create(b, place.exists, /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
  }
  SmallVector<Value> results;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    auto further = static_cast<int64_t>(i);
    results.push_back(finish(sum, {at.add(place.index, further), {}},
                             at.add(column, further)));
  }
  if (width == 1)
    return out.store(results.front(), place);
  auto type = VectorType::get({width}, results.front().getType());
  out.store(vector::FromElementsOp::create(b, type, results), place);
}

//===----------------------------------------------------------------------===//
// Split-K
//===----------------------------------------------------------------------===//

void mlir::binade::emitFinish(ImplicitLocOpBuilder &b, StringRef name,
                              const Contraction &contraction,
                              const Tiling &tiling) {
  constexpr int64_t kThreads = 256;
  Indices at{b};
  int64_t each = contraction.m * contraction.n,
          count = contraction.countBatches() * each,
          blocks = llvm::divideCeil(count, kThreads);
  OpBuilder::InsertionGuard outside(b);
  ContractionMemory memory;
  createContractionKernel(b, name, contraction, tiling, blocks, kThreads,
                          memory);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x),
        block = gpu::BlockIdOp::create(b, gpu::Dimension::x),
        number = at.add(at.scale(block, kThreads), thread);
  if (Value exists = at.isBelow(number, count, blocks * kThreads)) {
    auto end = gpu::ReturnOp::create(b);
    b.setInsertionPoint(end);
    auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
  } else {
    b.setInsertionPoint(gpu::ReturnOp::create(b));
  }
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  auto loop = scf::ForOp::create(b, at.constant(0), at.constant(tiling.splits),
                                 at.constant(1), zero);
  {
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(loop.getBody());
    Value place = at.add(at.scale(loop.getInductionVar(), count), number);
    Value part = memref::LoadOp::create(b, memory.workspace, place);
    Value sum =
        arith::AddFOp::create(b, loop.getRegionIterArg(0), part).getResult();
    scf::YieldOp::create(b, sum);
  }
  auto [batch, within] = at.divide(number, each);
  auto [row, column] = at.divide(within, contraction.n);
  Results results(at, contraction, memory, batch,
                  {contraction.m, contraction.m},
                  {contraction.n, contraction.n});
  results.store(row, column, loop.getResults());
}
