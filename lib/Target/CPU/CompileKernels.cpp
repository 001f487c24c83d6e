//===- CompileKernels.cpp - Kernels as a shared object --------------------===//

#include "../KernelJobs.h"
#include "EmitObject.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

FailureOr<CompiledKernels>
mlir::binade::compileKernels(ModuleOp module, const CpuOptions &options) {
  KernelJobs jobs({getName(options.level)});
  jobs.addAll(module);
  auto emit = [&](KernelJob &job) {
    return emitCode(job.text, options.level, CpuOutput::Object, job.errors);
  };
  ObjectCache cache(options.cacheDirectory, module.getLoc());
  if (failed(jobs.run(cache, options.threads, emit)))
    return failure();

  CompiledKernels compiled;
  compiled.reused = jobs.reused;
  std::vector<std::string> objects;
  for (auto &[key, job] : jobs.jobs)
    objects.push_back(job.code->parts.front());
  SmallVector<std::pair<std::string, std::string>> names;
  for (auto &[kernel, job] : jobs.kernels) {
    KernelInfo info = job->code->info;
    info.symbol = kernel.getName().str();
    names.push_back({info.symbol, job->symbol});
    if (info.hasFinish)
      names.push_back({info.symbol + "_finish", job->symbol + "_finish"});
    compiled.kernels.push_back(std::move(info));
  }
  std::string error;
  FailureOr<std::string> object = linkObjects(objects, names, error);
  if (failed(object))
    return emitError(module.getLoc(), error);
  compiled.object = std::move(*object);
  return compiled;
}

FailureOr<std::string>
mlir::binade::printKernels(ModuleOp module, CpuLevel level, CpuText text) {
  std::string code;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(kKernelAttr))
      continue;
    std::string errors;
    FailureOr<EmittedCode> emitted = emitCode(
        printStandalone(module, kernel, kernel.getName()), level,
        text == CpuText::LLVM ? CpuOutput::LLVM : CpuOutput::Assembly, errors);
    if (failed(emitted))
      return emitError(kernel.getLoc(), "cannot compile this kernel: ")
             << StringRef(errors).trim();
    code += emitted->parts.front();
  }
  return code;
}
