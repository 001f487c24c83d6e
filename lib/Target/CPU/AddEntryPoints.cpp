//===- AddEntryPoints.cpp - Entry points of kernels -----------------------===//

#include "binade/Target/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::binade {
#define GEN_PASS_DEF_ADDENTRYPOINTSPASS
#include "binade/Target/Passes.h.inc"

namespace {
/// Adds `@name(buffers, numbers...)`, which calls `body` with the addresses in
/// `buffers`.
void addEntryPoint(LLVM::LLVMFuncOp body, StringRef name, unsigned numbers) {
  ImplicitLocOpBuilder b(body.getLoc(), body.getContext());
  b.setInsertionPointAfter(body);
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Type> types = {pointer};
  types.append(numbers, b.getI64Type());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), types);
  auto entry = LLVM::LLVMFuncOp::create(b, name, type);
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  SmallVector<Value> arguments;
  unsigned buffers = body.getNumArguments() - numbers;
  for (unsigned index = 0; index < buffers; ++index) {
    Value slot = LLVM::GEPOp::create(b, pointer, pointer, block->getArgument(0),
                                     LLVM::GEPArg(index));
    arguments.push_back(LLVM::LoadOp::create(b, pointer, slot));
  }
  llvm::append_range(arguments, block->getArguments().drop_front());
  LLVM::CallOp::create(b, body, arguments);
  LLVM::ReturnOp::create(b, ValueRange());
}

struct AddEntryPointsPass : impl::AddEntryPointsPassBase<AddEntryPointsPass> {
  void runOnOperation() override {
    SmallVector<LLVM::LLVMFuncOp> bodies(
        getOperation().getOps<LLVM::LLVMFuncOp>());
    for (LLVM::LLVMFuncOp body : bodies) {
      StringRef name = body.getName();
      if (name.consume_back(".items"))
        addEntryPoint(body, name, 2);
      else if (name.consume_back(".finish"))
        addEntryPoint(body, (name + "_finish").str(), 1);
      else
        continue;
      body.setLinkage(LLVM::Linkage::Internal);
    }
  }
};
} // namespace
} // namespace mlir::binade
