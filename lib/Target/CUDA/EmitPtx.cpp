//===- EmitPtx.cpp - PTX of one kernel ------------------------------------===//

#include "EmitPtx.h"
#include "../CodeGeneration.h"
#include "../KernelJobs.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Interface.h"
#include "binade/Target/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm-c/Target.h"
#include <mutex>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// MLIR
//===----------------------------------------------------------------------===//

static DialectRegistry getRegistry() {
  DialectRegistry registry;
  registry
      .insert<BinadeDialect, arith::ArithDialect, func::FuncDialect,
              gpu::GPUDialect, math::MathDialect, memref::MemRefDialect,
              nvgpu::NVGPUDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  // These also add their dialects.
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  return registry;
}

/// Returns how to launch the kernels of the gpu dialect in `module`: for each,
/// the part of its name that follows the symbol, and seven numbers.
static std::string writeEntries(ModuleOp module, StringRef symbol) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.walk([&](gpu::GPUFuncOp kernel) {
    StringRef suffix = kernel.getName().drop_front(symbol.size());
    if (suffix == ".items")
      stream << '-';
    else
      stream << '_' << suffix.drop_front();
    // A multi-tensor kernel has no fixed grid: the tensors determine the number
    // of blocks.
    SmallVector<int32_t> sizes = {0, 1, 1};
    if (auto grid = kernel.getKnownGridSize())
      sizes.assign(grid->begin(), grid->end());
    llvm::append_range(sizes, *kernel.getKnownBlockSize());
    for (int32_t size : sizes)
      stream << ' ' << size;
    int64_t bytes = 0;
    for (BlockArgument memory : kernel.getWorkgroupAttributions()) {
      auto type = cast<MemRefType>(memory.getType());
      bytes += llvm::divideCeil(
          type.getNumElements() * type.getElementTypeBitWidth(), 8);
    }
    stream << ' ' << bytes << '\n';
  });
  return text;
}

/// Prints the kernels under the names that the driver uses.
static std::string printEntries(ModuleOp module, StringRef symbol) {
  OwningOpRef<ModuleOp> copy(module.clone());
  copy->walk([&](gpu::GPUFuncOp kernel) {
    StringRef suffix = kernel.getName().rsplit('.').second;
    kernel.setName((symbol + (suffix == "items" ? "" : "_" + suffix)).str());
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  return text;
}

SmallVector<GpuEntry> mlir::binade::readEntries(const EmittedCode &code,
                                                StringRef symbol) {
  SmallVector<GpuEntry> entries;
  SmallVector<StringRef> lines;
  StringRef(code.parts[Entries]).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    auto [suffix, numbers] = line.split(' ');
    GpuEntry &entry = entries.emplace_back();
    entry.symbol = (symbol + (suffix == "-" ? "" : suffix)).str();
    auto next = [&, &numbers = numbers](int64_t &number) {
      [[maybe_unused]] bool wrong = numbers.consumeInteger(10, number);
      assert(!wrong && "the cache must return what was written");
      numbers = numbers.ltrim(' ');
    };
    llvm::for_each(entry.grid, next);
    llvm::for_each(entry.block, next);
    next(entry.sharedBytes);
  }
  return entries;
}

//===----------------------------------------------------------------------===//
// LLVM
//===----------------------------------------------------------------------===//

static std::string generate(llvm::Module &module, const CudaChip &chip) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  TargetMachine machine =
      createTarget("nvptx64-nvidia-cuda", chip.name, chip.ptx,
                   LLVMCodeGenLevelAggressive, LLVMRelocDefault);
  setTarget(module, machine.get());
  optimize(module, machine.get());
  return emit(module, machine.get(), LLVMAssemblyFile);
}

/// Prefixes the names of constants with that of the kernel, so that `joinPtx`
/// can join modules.
static void renameConstants(llvm::Module &module) {
  auto kernel = llvm::find_if(module, [](const llvm::Function &function) {
    return !function.isDeclaration();
  });
  if (kernel == module.end())
    return;
  for (llvm::GlobalVariable &constant : module.globals())
    if (constant.hasLocalLinkage())
      constant.setName(kernel->getName() + "_" + constant.getName());
}

FailureOr<std::string> mlir::binade::emitPtx(ModuleOp module,
                                             const CudaChip &chip) {
  module.getContext()->appendDialectRegistry(getRegistry());
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  buildTargetCudaPipeline(passes, chip.name);
  if (failed(passes.run(module)))
    return failure();
  auto all = module.getOps<gpu::GPUModuleOp>();
  if (!llvm::hasSingleElement(all))
    return module.emitError("expected one gpu.module, got ")
           << llvm::range_size(all);
  gpu::GPUModuleOp kernels = *all.begin();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(kernels, context, kernels.getName());
  if (!code)
    return failure();
  for (const llvm::Function &function : *code)
    if (function.isDeclaration() && !function.isIntrinsic())
      return kernels.emitError("calls '")
             << function.getName() << "', which is not a GPU instruction";
  renameConstants(*code);
  return generate(*code, chip);
}

std::string mlir::binade::joinPtx(ArrayRef<GpuCode> codes) {
  std::string text;
  for (const GpuCode &code : codes) {
    StringRef ptx = code.ptx;
    // All modules have the same header.
    size_t header = ptx.find(".address_size");
    size_t end = ptx.find('\n', header) + 1;
    text += text.empty() ? ptx : ptx.drop_front(end);
  }
  return text;
}

/// Emits the kernel of binade ops in `module`, unless it already contains
/// kernels of the gpu dialect.
static FailureOr<KernelInfo> emitIfNeeded(ModuleOp module) {
  KernelInfo info;
  module.walk([&](gpu::GPUFuncOp kernel) {
    info.symbol = kernel.getName().split('.').first.str();
  });
  if (!info.symbol.empty())
    return info;
  return replaceKernel(module, emitGpuKernel);
}

FailureOr<EmittedCode> mlir::binade::compilePtx(StringRef text,
                                                const CudaChip &chip,
                                                std::string &errors) {
  static const DialectRegistry registry = getRegistry();
  FailureOr<EmittedCode> code = failure();
  (void)parseStandalone(text, registry, errors, [&](ModuleOp module) {
    FailureOr<KernelInfo> info = emitIfNeeded(module);
    if (failed(info))
      return failure();
    PassManager passes(module.getContext());
    passes.enableVerifier(false);
    buildGpuConversionPipeline(passes);
    if (failed(passes.run(module)))
      return failure();
    std::string entries = writeEntries(module, info->symbol);
    std::string ir = printEntries(module, info->symbol);
    FailureOr<std::string> ptx = emitPtx(module, chip);
    if (failed(ptx))
      return failure();
    code = EmittedCode{std::move(*info), {entries, ir, std::move(*ptx)}};
    return success();
  });
  return code;
}
