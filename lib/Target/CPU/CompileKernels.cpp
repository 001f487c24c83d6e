//===- CompileKernels.cpp - kernels to a shared object --------------------===//

#include "EmitObject.h"
#include "ObjectCache.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"
#include "llvm/Config/llvm-config.h"
#include <atomic>
#include <map>
#include <thread>

#include "CompilerVersion.inc"

using namespace mlir;
using namespace mlir::binade;

/// What every kernel is called while it is compiled: its name is not part of
/// what it computes.
static constexpr StringLiteral kName = "kernel";

/// The functions and optimizers that `kernel` names, in the order of `module`.
static SmallVector<Operation *> getNamed(ModuleOp module, func::FuncOp kernel) {
  llvm::SmallPtrSet<Operation *, 4> named;
  kernel.walk([&](Operation *op) {
    auto add = [&](StringAttr name) {
      if (Operation *found = module.lookupSymbol(name))
        named.insert(found);
    };
    if (auto update = dyn_cast<OptimizerUpdateOp>(op))
      add(update.getFormula()), add(update.getOptimizerAttr().getAttr());
    if (auto scalars = dyn_cast<OptimizerScalarsOp>(op))
      add(scalars.getFormula()), add(scalars.getOptimizerAttr().getAttr());
  });
  return llvm::to_vector(llvm::make_filter_range(
      llvm::make_pointer_range(module.getOps()),
      [&](Operation *op) { return named.contains(op); }));
}

/// A module of its own with `kernel` under the name `name`.
static std::string printAlone(ModuleOp module, func::FuncOp kernel,
                              StringRef name) {
  OwningOpRef<ModuleOp> alone = ModuleOp::create(kernel.getLoc());
  for (Operation *op : getNamed(module, kernel))
    alone->push_back(op->clone());
  func::FuncOp copy = kernel.clone();
  copy.setName(name);
  alone->push_back(copy);
  std::string text;
  llvm::raw_string_ostream stream(text);
  alone->print(stream,
               OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  return text;
}

/// What the code depends on beside the text of the kernel.
static std::string getKey(StringRef text, CpuLevel level) {
  ::binade::Sha256 hash;
  for (StringRef part :
       {StringRef(BINADE_VERSION), StringRef(kSourceHash),
        StringRef(LLVM_VERSION_STRING), getName(level), text}) {
    hash.update(std::string_view(part));
    hash.update(std::string_view("\0", 1));
  }
  return hash.hexDigest();
}

namespace {
/// One object to make, for all kernels of one text.
struct Job {
  std::string text, key, symbol, errors;
  Location location;
  std::optional<EmittedCode> code;
};
} // namespace

/// Compiles `jobs` on a few threads, each with contexts of its own.
static void run(MutableArrayRef<Job *> jobs, CpuLevel level,
                unsigned threadCount) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t index = next++; index < jobs.size(); index = next++) {
      Job &job = *jobs[index];
      // Symbols of different objects must differ.
      std::string text = job.text;
      size_t at = text.rfind(("@" + kName + "(").str());
      text.replace(at + 1, kName.size(), job.symbol);
      FailureOr<EmittedCode> code =
          emitCode(text, level, CpuOutput::Object, job.errors);
      if (succeeded(code))
        job.code = std::move(*code);
    }
  };
  std::vector<std::thread> threads;
  size_t wanted = std::min<size_t>(threadCount, jobs.size());
  for (size_t index = 1; index < wanted; ++index)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

FailureOr<CompiledKernels>
mlir::binade::compileKernels(ModuleOp module, const CpuOptions &options) {
  std::map<std::string, Job> jobs;
  SmallVector<std::pair<func::FuncOp, Job *>> kernels;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(kKernelAttr))
      continue;
    std::string text = printAlone(module, kernel, kName);
    std::string key = getKey(text, options.level);
    auto [entry, isNew] = jobs.try_emplace(
        key, Job{text, key, "k" + key.substr(0, 24), "", kernel.getLoc(), {}});
    kernels.push_back({kernel, &entry->second});
  }

  CompiledKernels compiled;
  ObjectCache cache(options.cacheDirectory, module.getLoc());
  SmallVector<Job *> missing;
  for (auto &[key, job] : jobs) {
    job.code = cache.find(key);
    if (job.code)
      ++compiled.reused;
    else
      missing.push_back(&job);
  }
  run(missing, options.level, options.threads);
  for (Job *job : missing) {
    if (!job->code)
      return emitError(job->location, "cannot compile this kernel: ")
             << StringRef(job->errors).trim();
    cache.insert(job->key, *job->code);
  }

  std::vector<std::string> objects;
  for (auto &[key, job] : jobs)
    objects.push_back(job.code->code);
  SmallVector<std::pair<std::string, std::string>> names;
  for (auto &[kernel, job] : kernels) {
    KernelInfo info = job->code->kernels.front();
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
        printAlone(module, kernel, kernel.getName()), level,
        text == CpuText::LLVM ? CpuOutput::LLVM : CpuOutput::Assembly, errors);
    if (failed(emitted))
      return emitError(kernel.getLoc(), "cannot compile this kernel: ")
             << StringRef(errors).trim();
    code += emitted->code;
  }
  return code;
}
