//===- EmitCopy.cpp - Strided copies as kernels ---------------------------===//
//
// Each thread copies one element. Threads are in the order of the elements, so
// that adjacent threads access adjacent elements along the last axis.
//
//===----------------------------------------------------------------------===//

#include "EmitText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kThreads = 256;

/// Returns the type of the memory from the first element to the last.
static MemRefType getMemory(MLIRContext *context, const GpuCopy &copy,
                            ArrayRef<int64_t> strides) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(copy.sizes, strides))
    last += (size - 1) * stride;
  return MemRefType::get({last + 1}, IntegerType::get(context, 8 * copy.bytes));
}

static void emitCopy(ImplicitLocOpBuilder &b, const GpuCopy &copy,
                     StringRef name) {
  int64_t elements = llvm::product_of(copy.sizes);
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto function = gpu::GPUFuncOp::create(
      b, name,
      b.getFunctionType({getMemory(b.getContext(), copy, copy.from),
                         getMemory(b.getContext(), copy, copy.to)},
                        {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  auto blocks = static_cast<int32_t>(llvm::divideCeil(elements, kThreads));
  function.setKnownGridSizeAttr(b.getDenseI32ArrayAttr({blocks, 1, 1}));
  function.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({int32_t(kThreads), 1, 1}));
  b.setInsertionPointToStart(&function.getBody().front());
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value first = arith::MulIOp::create(b, block, index(kThreads));
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value number = arith::AddIOp::create(b, first, thread);
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number,
                                       index(elements));
  auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    Value from = index(0), to = index(0);
    for (size_t axis = copy.sizes.size(); axis-- > 0;) {
      Value size = index(copy.sizes[axis]);
      Value entry = arith::RemUIOp::create(b, number, size);
      number = arith::DivUIOp::create(b, number, size);
      auto move = [&](Value &place, int64_t stride) {
        Value distance = arith::MulIOp::create(b, entry, index(stride));
        place = arith::AddIOp::create(b, place, distance);
      };
      move(from, copy.from[axis]);
      move(to, copy.to[axis]);
    }
    Value x = memref::LoadOp::create(b, function.getArgument(0), from);
    memref::StoreOp::create(b, x, function.getArgument(1), to);
  }
  gpu::ReturnOp::create(b);
}

std::string mlir::binade::printCopy(const GpuCopy &copy, StringRef name) {
  return printKernelModule(
      [&](ImplicitLocOpBuilder &b) { emitCopy(b, copy, name); });
}
