//===- Kernels.cpp - Translate kernels to machine code --------------------===//

#include "Translations.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Target/CPU.h"
#include "binade/Target/CUDA.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace mlir::binade;
namespace cl = llvm::cl;

static FailureOr<CpuLevel> getLevel(ModuleOp module, StringRef name) {
  std::optional<CpuLevel> level =
      name.empty() ? getHostLevel() : parseCpuLevel(name);
  if (level)
    return *level;
  if (name.empty())
    return module.emitError("this machine lacks AVX2 and FMA; name --level");
  return module.emitError("no instruction set is called '")
         << name << "'; expected x86-64-v3 or x86-64-v4";
}

static LogicalResult print(ModuleOp module, raw_ostream &os, StringRef level,
                           CpuText text) {
  FailureOr<CpuLevel> chosen = getLevel(module, level);
  if (failed(chosen))
    return failure();
  FailureOr<std::string> code = printKernels(module, *chosen, text);
  if (failed(code))
    return failure();
  os << *code;
  return success();
}

static LogicalResult compile(ModuleOp module, raw_ostream &os,
                             StringRef level) {
  FailureOr<CpuLevel> chosen = getLevel(module, level);
  if (failed(chosen))
    return failure();
  CpuOptions options;
  options.level = *chosen;
  FailureOr<CompiledKernels> compiled = compileKernels(module, options);
  if (failed(compiled))
    return failure();
  os << compiled->object;
  return success();
}

static FailureOr<const CudaChip *> getChip(ModuleOp module, StringRef name) {
  return getCudaChip(name, [&] { return module.emitError(); });
}

/// Prints the launch parameters of the kernels as comments.
static void describe(const CompiledGpuKernel &kernel, raw_ostream &os) {
  for (const GpuEntry &entry : kernel.entries)
    os << "// " << kernel.info.symbol << ": " << entry.symbol << ", "
       << entry.grid[0] << " blocks of " << entry.block[0] << " threads, "
       << entry.sharedBytes << " bytes of shared memory, "
       << kernel.info.workspaceBytes << " of workspace\n";
}

/// Prints all kernels as one PTX module that ptxas accepts.
static LogicalResult printPtx(ModuleOp module, raw_ostream &os,
                              StringRef name) {
  FailureOr<const CudaChip *> chip = getChip(module, name);
  if (failed(chip))
    return failure();
  CudaOptions options;
  options.chip = *chip;
  FailureOr<CompiledGpuKernels> compiled = compileGpuKernels(module, options);
  if (failed(compiled))
    return failure();
  for (const CompiledGpuKernel &kernel : compiled->kernels)
    describe(kernel, os);
  os << joinPtx(compiled->codes);
  return success();
}

static LogicalResult printGpuModule(ModuleOp module, raw_ostream &os,
                                    StringRef name) {
  FailureOr<const CudaChip *> chip = getChip(module, name);
  if (failed(chip))
    return failure();
  FailureOr<std::string> ptx = emitPtx(module, **chip);
  if (failed(ptx))
    return failure();
  os << *ptx;
  return success();
}

static LogicalResult assemble(ModuleOp module, raw_ostream &os,
                              StringRef name) {
  FailureOr<const CudaChip *> chip = getChip(module, name);
  if (failed(chip))
    return failure();
  CudaOptions options;
  options.chip = *chip;
  options.assembler = findPtxas();
  if (options.assembler.empty())
    return module.emitError("found no ptxas; set BINADE_CUDA_ROOT to a CUDA "
                            "Toolkit, or PATH to its programs");
  FailureOr<CompiledGpuKernels> compiled = compileGpuKernels(module, options);
  if (failed(compiled))
    return failure();
  if (compiled->codes.size() != 1)
    return module.emitError("expected one kernel for one cubin, got ")
           << compiled->codes.size();
  os << compiled->codes.front().cubin;
  return success();
}

void registerKernelTranslations() {
  static cl::OptionCategory category("Options of --kernels-to-*");
  static cl::opt<std::string> level(
      "level", cl::cat(category), cl::value_desc("name"),
      cl::desc("Instruction set: x86-64-v3 or x86-64-v4; by default this "
               "machine's"));
  static cl::opt<std::string> chip(
      "chip", cl::cat(category), cl::value_desc("name"),
      cl::desc("GPU for --*-to-ptx and --kernels-to-cubin: sm_80, sm_89, sm_90 "
               "(default) or sm_100"),
      cl::init("sm_90"));
  using Print = std::function<LogicalResult(ModuleOp, raw_ostream &)>;
  auto add = [](StringRef name, StringRef help, const Print &print) {
    TranslateFromMLIRRegistration(name, help, print, registerAllDialects);
  };
  add("kernels-to-ptx", "print the kernels of a module as PTX",
      [](ModuleOp module, raw_ostream &os) {
        return printPtx(module, os, chip);
      });
  add("kernels-to-cubin",
      "compile the kernel of a module to a cubin with ptxas",
      [](ModuleOp module, raw_ostream &os) {
        return assemble(module, os, chip);
      });
  add("gpu-to-ptx", "print a gpu.module as PTX",
      [](ModuleOp module, raw_ostream &os) {
        return printGpuModule(module, os, chip);
      });
  add("kernels-to-llvm", "print the kernels of a module as optimized LLVM IR",
      [](ModuleOp module, raw_ostream &os) {
        return print(module, os, level, CpuText::LLVM);
      });
  add("kernels-to-assembly", "print the kernels of a module as assembly",
      [](ModuleOp module, raw_ostream &os) {
        return print(module, os, level, CpuText::Assembly);
      });
  add("kernels-to-object", "compile the kernels of a module to an ELF object",
      [](ModuleOp module, raw_ostream &os) {
        return compile(module, os, level);
      });
}
