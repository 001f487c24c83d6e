//===- Kernels.cpp - from modules with formed kernels to code -------------===//

#include "Translations.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Target/CPU.h"
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

void registerKernelTranslations() {
  static cl::OptionCategory category("Options of --kernels-to-*");
  static cl::opt<std::string> level(
      "level", cl::cat(category), cl::value_desc("name"),
      cl::desc("Instruction set, x86-64-v3 or x86-64-v4; this machine's when "
               "absent"));
  TranslateFromMLIRRegistration(
      "kernels-to-llvm", "print the kernels of a module as optimized LLVM IR",
      [](ModuleOp module, raw_ostream &os) {
        return print(module, os, level, CpuText::LLVM);
      },
      registerAllDialects);
  TranslateFromMLIRRegistration(
      "kernels-to-assembly", "print the kernels of a module as assembly",
      [](ModuleOp module, raw_ostream &os) {
        return print(module, os, level, CpuText::Assembly);
      },
      registerAllDialects);
  TranslateFromMLIRRegistration(
      "kernels-to-object", "compile the kernels of a module to an ELF object",
      [](ModuleOp module, raw_ostream &os) {
        return compile(module, os, level);
      },
      registerAllDialects);
}
