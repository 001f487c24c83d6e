//===- CompileGpuKernels.cpp - kernels to modules for a driver ------------===//

#include "../KernelJobs.h"
#include "EmitPtx.h"

using namespace mlir;
using namespace mlir::binade;

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuKernels(ModuleOp module, const CudaOptions &options) {
  StringRef assembler = options.assembler;
  std::string version;
  if (!assembler.empty()) {
    version = getPtxasVersion(assembler);
    if (version.empty())
      return emitError(module.getLoc(), "cannot run assembler '")
             << assembler << "'; expected CUDA's ptxas";
  }
  KernelJobs jobs(module, {options.chip->name, options.chip->ptx, version});
  auto emit = [&](KernelJob &job) -> FailureOr<EmittedCode> {
    FailureOr<EmittedCode> code =
        compilePtx(job.text, *options.chip, job.errors);
    if (failed(code))
      return failure();
    std::string &cubin = code->parts.emplace_back();
    if (assembler.empty())
      return code;
    FailureOr<std::string> assembled =
        assemble(code->parts[Ptx], *options.chip, assembler, job.errors);
    if (failed(assembled))
      return failure();
    cubin = std::move(*assembled);
    return code;
  };
  ObjectCache cache(options.cacheDirectory, module.getLoc());
  if (failed(jobs.run(cache, options.threads, emit)))
    return failure();

  CompiledGpuKernels compiled;
  compiled.reused = jobs.reused;
  llvm::StringMap<size_t> places;
  for (auto &[key, job] : jobs.jobs) {
    places[key] = compiled.codes.size();
    const std::vector<std::string> &parts = job.code->parts;
    compiled.codes.push_back({parts[Ir], parts[Ptx], parts[Cubin]});
  }
  for (auto &[function, job] : jobs.kernels) {
    CompiledGpuKernel kernel{job->code->info,
                             readEntries(*job->code, job->symbol),
                             places[job->key]};
    kernel.info.symbol = function.getName().str();
    compiled.kernels.push_back(std::move(kernel));
  }
  return compiled;
}
