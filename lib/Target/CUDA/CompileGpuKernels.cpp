//===- CompileGpuKernels.cpp - Kernels as modules for the driver ----------===//

#include "../KernelJobs.h"
#include "EmitPtx.h"
#include "EmitText.h"

using namespace mlir;
using namespace mlir::binade;

/// Creates the jobs for a chip, with the options on which code depends.
static FailureOr<KernelJobs> createJobs(Location location,
                                        const CudaOptions &options) {
  std::string version = options.assemblerVersion;
  if (!options.assembler.empty() && version.empty()) {
    version = getPtxasVersion(options.assembler);
    if (version.empty())
      return emitError(location, "cannot run assembler '")
             << options.assembler << "'; expected CUDA's ptxas";
  }
  return KernelJobs({options.chip->name, options.chip->ptx, version});
}

static FailureOr<CompiledGpuKernels> run(KernelJobs &jobs, Location location,
                                         const CudaOptions &options) {
  auto emit = [&](KernelJob &job) -> FailureOr<EmittedCode> {
    FailureOr<EmittedCode> code =
        compilePtx(job.text, *options.chip, job.errors);
    if (failed(code))
      return failure();
    std::string &cubin = code->parts.emplace_back();
    if (options.assembler.empty())
      return code;
    FailureOr<std::string> assembled = assemble(code->parts[Ptx], *options.chip,
                                                options.assembler, job.errors);
    if (failed(assembled))
      return failure();
    cubin = std::move(*assembled);
    return code;
  };
  ObjectCache cache(options.cacheDirectory, location);
  if (failed(jobs.run(cache, options.threads, emit)))
    return failure();
  CompiledGpuKernels compiled;
  compiled.reused = jobs.reused;
  for (auto &[key, job] : jobs.jobs) {
    const std::vector<std::string> &parts = job.code->parts;
    compiled.codes.push_back({parts[Ir], parts[Ptx], parts[Cubin]});
  }
  return compiled;
}

/// Returns the kernel of `job` under the name `name`.
static CompiledGpuKernel describe(const KernelJobs &jobs, const KernelJob &job,
                                  StringRef name) {
  auto code = static_cast<size_t>(
      std::distance(jobs.jobs.begin(), jobs.jobs.find(job.key)));
  CompiledGpuKernel kernel{job.code->info, readEntries(*job.code, job.symbol),
                           code};
  kernel.info.symbol = name.str();
  return kernel;
}

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuKernels(ModuleOp module, const CudaOptions &options) {
  FailureOr<KernelJobs> jobs = createJobs(module.getLoc(), options);
  if (failed(jobs))
    return failure();
  jobs->addAll(module);
  FailureOr<CompiledGpuKernels> compiled = run(*jobs, module.getLoc(), options);
  if (failed(compiled))
    return failure();
  for (auto &[function, job] : jobs->kernels)
    compiled->kernels.push_back(describe(*jobs, *job, function.getName()));
  return compiled;
}

/// Compiles a kernel for each of `wanted`, whose text `print` returns. Symbols
/// begin with `kind`.
template <typename Wanted>
static FailureOr<CompiledGpuKernels>
compileTexts(Location location, const std::string &kind,
             ArrayRef<Wanted> wanted,
             std::string (*print)(const Wanted &, StringRef),
             const CudaOptions &options) {
  FailureOr<KernelJobs> jobs = createJobs(location, options);
  if (failed(jobs))
    return failure();
  constexpr StringLiteral kSuffix = ".items";
  std::string name = (kKernelName + kSuffix).str();
  SmallVector<KernelJob *> made;
  for (const Wanted &one : wanted)
    made.push_back(&jobs->add(print(one, name), kSuffix, kind, location));
  FailureOr<CompiledGpuKernels> compiled = run(*jobs, location, options);
  if (failed(compiled))
    return failure();
  for (KernelJob *job : made)
    compiled->kernels.push_back(describe(*jobs, *job, job->symbol));
  return compiled;
}

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuMatmuls(Location location, ArrayRef<GpuMatmul> products,
                                const CudaOptions &options) {
  return compileTexts(location, "matmul", products, printMatmul, options);
}

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuConvolutions(Location location,
                                     ArrayRef<GpuConvolution> convolutions,
                                     const CudaOptions &options) {
  return compileTexts(location, "conv", convolutions, printConvolution,
                      options);
}

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuAttentions(Location location,
                                   ArrayRef<GpuAttention> attentions,
                                   const CudaOptions &options) {
  return compileTexts(location, "attention", attentions, printAttention,
                      options);
}

FailureOr<CompiledGpuKernels>
mlir::binade::compileGpuCopies(Location location, ArrayRef<GpuCopy> copies,
                               const CudaOptions &options) {
  return compileTexts(location, "copy", copies, printCopy, options);
}
