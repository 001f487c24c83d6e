//===- EmitText.cpp - Modules with kernels of plan records ----------------===//

#include "EmitText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

std::string mlir::binade::printKernelModule(
    llvm::function_ref<void(ImplicitLocOpBuilder &)> emit) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, gpu::GPUDialect, math::MathDialect,
                      memref::MemRefDialect, nvgpu::NVGPUDialect,
                      scf::SCFDialect, vector::VectorDialect>();
  ImplicitLocOpBuilder b(UnknownLoc::get(&context), &context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  auto kernels = gpu::GPUModuleOp::create(b, "kernels");
  b.setInsertionPointToEnd(kernels.getBody());
  emit(b);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}
