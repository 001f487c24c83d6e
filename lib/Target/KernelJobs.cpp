//===- KernelJobs.cpp - Compilation of distinct kernels -------------------===//

#include "KernelJobs.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Names.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Config/llvm-config.h"
#include <atomic>
#include <thread>

#include "CompilerVersion.inc"

using namespace mlir;
using namespace mlir::binade;

/// Returns the functions and optimizers that `kernel` refers to, in the order
/// of `module`.
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

std::string mlir::binade::printStandalone(ModuleOp module, func::FuncOp kernel,
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

LogicalResult
mlir::binade::parseStandalone(StringRef text, const DialectRegistry &registry,
                              std::string &errors,
                              function_ref<LogicalResult(ModuleOp)> body) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(errors) << diagnostic.str() << "\n";
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context, false));
  return module ? body(*module) : failure();
}

FailureOr<KernelInfo> mlir::binade::replaceKernel(
    ModuleOp module,
    function_ref<FailureOr<KernelInfo>(func::FuncOp, ModuleOp)> emit) {
  FailureOr<KernelInfo> info = failure();
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions)
    if (function->hasAttr(kKernelAttr)) {
      info = emit(function, module);
      if (failed(info))
        return failure();
    }
  for (func::FuncOp function : functions)
    function.erase();
  for (auto optimizer :
       llvm::make_early_inc_range(module.getOps<OptimizerOp>()))
    optimizer.erase();
  return info;
}

static std::string getKey(StringRef text, ArrayRef<std::string> options) {
  ::binade::Sha256 hash;
  auto add = [&](StringRef part) {
    hash.update(std::string_view(part));
    hash.update(std::string_view("\0", 1));
  };
  for (StringRef part : {StringRef(BINADE_VERSION), StringRef(kSourceHash),
                         StringRef(LLVM_VERSION_STRING)})
    add(part);
  llvm::for_each(options, add);
  add(text);
  return hash.hexDigest();
}

/// Returns the name of `kernel` in profilers: its optimizer rule, or its first
/// and last op. It depends only on the ops, because equal kernels are compiled
/// once.
static std::string nameForProfilers(func::FuncOp kernel) {
  for (auto update : kernel.getOps<OptimizerUpdateOp>())
    return (update.getOptimizerAttr().getValue() + "_update").str();
  std::string name = nameByOps(kernel);
  return name.empty() ? kKernelName.str() : name;
}

/// Returns a symbol that assemblers accept: `name` and a part of the hash,
/// because symbols of different objects must differ.
static std::string makeSymbol(std::string name, StringRef key) {
  constexpr size_t kMaxName = 48, kHashDigits = 12;
  for (char &c : name)
    c = llvm::isAlnum(c) ? c : '_';
  return name.substr(0, kMaxName) + "_" + key.take_front(kHashDigits).str();
}

KernelJob &KernelJobs::add(std::string text, StringRef suffix,
                           const std::string &name, Location location) {
  std::string key = getKey(text, options);
  std::string symbol = makeSymbol(name, key);
  // A kernel of the gpu dialect may be accompanied by others, such as its
  // finish.
  std::string own = ("@" + kKernelName + suffix + "(").str(),
              other = ("@" + kKernelName + ".").str();
  for (size_t at = 0; (at = text.find(own[0], at)) != std::string::npos; ++at)
    if (StringRef name = StringRef(text).substr(at);
        name.starts_with(own) || name.starts_with(other))
      text.replace(at + 1, kKernelName.size(), symbol);
  return jobs
      .try_emplace(key,
                   KernelJob{std::move(text), key, symbol, "", location, {}})
      .first->second;
}

void KernelJobs::addAll(ModuleOp module) {
  for (auto kernel : module.getOps<func::FuncOp>())
    if (kernel->hasAttr(kKernelAttr))
      kernels.push_back(
          {kernel, &add(printStandalone(module, kernel, kKernelName), "",
                        nameForProfilers(kernel), kernel.getLoc())});
}

LogicalResult
KernelJobs::run(const ObjectCache &cache, unsigned threadCount,
                llvm::function_ref<FailureOr<EmittedCode>(KernelJob &)> emit) {
  SmallVector<KernelJob *> missing;
  for (auto &[key, job] : jobs) {
    job.code = cache.find(key);
    if (job.code)
      ++reused;
    else
      missing.push_back(&job);
  }
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t index = next++; index < missing.size(); index = next++) {
      KernelJob &job = *missing[index];
      FailureOr<EmittedCode> code = emit(job);
      if (succeeded(code)) {
        job.code = std::move(*code);
        continue;
      }
      job.hasFailed = true;
      next = missing.size();
    }
  };
  std::vector<std::thread> threads;
  size_t wanted = std::min<size_t>(threadCount, missing.size());
  for (size_t index = 1; index < wanted; ++index)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (KernelJob *job : missing) {
    if (job->hasFailed)
      return emitError(job->location, "cannot compile this kernel: ")
             << StringRef(job->errors).trim();
    if (job->code)
      cache.insert(job->key, *job->code);
  }
  return success();
}
