//===- LowerToNVVM.cpp - Lowering of the gpu dialect to NVVM --------------===//

#include "LowerExp2.h"
#include "LowerMma.h"
#include "binade/Codegen/EmitKernel.h"
#include "binade/Codegen/Passes.h"
#include "binade/Target/CUDA.h"
#include "binade/Target/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_LOWERTONVVMPASS
#include "binade/Target/Passes.h.inc"
} // namespace mlir::binade

using namespace mlir;
using namespace mlir::binade;

/// Alignment of shared memory, in bytes.
static constexpr unsigned kSharedAlignment = 16;

/// Whether a math function is exact or rounds once, by an instruction or a
/// sequence that the assembler emits.
static bool hasInstruction(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::RoundEvenOp,
             math::SqrtOp, math::TruncOp>(op);
}

/// Rejects other functions: for some of them LLVM has intrinsics that are
/// approximations. Only a kernel that asks for an approximation gets one.
static LogicalResult checkFunctions(gpu::GPUModuleOp module) {
  WalkResult result = module.walk([](Operation *op) {
    if (!isa_and_present<math::MathDialect>(op->getDialect()) ||
        hasInstruction(op) || isApproximateExp2(op))
      return WalkResult::advance();
    op->emitOpError("has no instruction on a GPU for ")
        << op->getResult(0).getType() << "; binade-expand-math expands "
        << "functions of f32 and f64 scalars and vectors";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Renames a kernel to a name that PTX accepts.
static void rename(gpu::GPUFuncOp kernel) {
  auto [name, suffix] = kernel.getName().rsplit('.');
  if (suffix == "items")
    kernel.setName(name.str());
  else if (!suffix.empty())
    kernel.setName((name + "_" + suffix).str());
}

static LogicalResult convert(gpu::GPUModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter types(context, options);
  configureGpuToNVVMTypeConverter(types);
  RewritePatternSet patterns(context);
  populateGpuToNVVMConversionPatterns(types, patterns, /*benefit=*/10);
  populateGpuSubgroupReduceOpLoweringPattern(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  // Waiting does not need the tokens of asynchronous copies.
  types.addConversion([](nvgpu::DeviceAsyncTokenType type) -> Type {
    return IntegerType::get(type.getContext(), 32);
  });
  populateMmaPatterns(types, patterns);
  populateExp2Patterns(types, patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  // These have a higher benefit than the patterns of the gpu dialect, which
  // call a library.
  populateMathToLLVMConversionPatterns(types, patterns,
                                       /*approximateLog1p=*/false,
                                       /*benefit=*/20);
  ub::populateUBToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addLegalOp<gpu::GPUModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

namespace {
struct LowerToNVVMPass
    : mlir::binade::impl::LowerToNVVMPassBase<LowerToNVVMPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<const CudaChip *> found =
        getCudaChip(chip, [&] { return emitError(UnknownLoc::get(context)); });
    if (succeeded(found))
      boundsRegisters = (*found)->boundsRegisters;
    return found;
  }
  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    if (failed(checkFunctions(module)))
      return signalPassFailure();
    for (auto kernel : module.getOps<gpu::GPUFuncOp>())
      rename(kernel);
    if (failed(convert(module)))
      return signalPassFailure();
    using NVVM::NVVMDialect;
    for (auto kernel : module.getOps<LLVM::LLVMFuncOp>())
      if (Attribute size =
              kernel->removeAttr(NVVMDialect::getMaxntidAttrName()))
        kernel->setAttr(NVVMDialect::getReqntidAttrName(), size);
    for (auto kernel : module.getOps<LLVM::LLVMFuncOp>())
      if (Attribute blocks = kernel->removeAttr(kResidentBlocksAttr);
          blocks && boundsRegisters)
        kernel->setAttr(NVVMDialect::getMinctasmAttrName(), blocks);
    for (auto global : module.getOps<LLVM::GlobalOp>())
      if (global.getAddrSpace() ==
          static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared))
        global.setAlignment(kSharedAlignment);
  }

  bool boundsRegisters = false;
};

struct CudaPipelineOptions : PassPipelineOptions<CudaPipelineOptions> {
  Option<std::string> chip{*this, "chip",
                           llvm::cl::desc("sm_80, sm_89, sm_90 or sm_100"),
                           llvm::cl::init("sm_90")};
};
} // namespace

void mlir::binade::buildTargetCudaPipeline(OpPassManager &passes,
                                           StringRef chip) {
  passes.addPass(createBitcastNarrowFloatsPass());
  passes.addPass(createSelectConversionsPass({chip.str()}));
  passes.addPass(createExpandFloatCastsPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createCombineClampsPass());
  passes.addPass(createLowerVectorsPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addNestedPass<gpu::GPUModuleOp>(createLowerToNVVMPass({chip.str()}));
}

void mlir::binade::registerTargetCudaPipeline() {
  PassPipelineRegistration<CudaPipelineOptions>(
      "binade-target-cuda-pipeline",
      "Lower kernels of the gpu dialect to the LLVM and nvvm dialects",
      [](OpPassManager &passes, const CudaPipelineOptions &options) {
        buildTargetCudaPipeline(passes, options.chip);
      });
}
