//===- Bundle.cpp - From formed kernels to a bundle -----------------------===//

#include "binade/Plan/Bundle.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/EmitPlan.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Runtime/Library.h"
#include "binade/Target/CPU.h"
#include <chrono>
#include <cstring>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Bundle;

/// The ISA levels to compile for.
static FailureOr<SmallVector<CpuLevel>>
getLevels(ModuleOp module, const CompileOptions &options) {
  SmallVector<CpuLevel> levels;
  for (const std::string &name : options.levels) {
    std::optional<CpuLevel> level = parseCpuLevel(name);
    if (!level)
      return module.emitError("no instruction set is called '") << name << "'";
    levels.push_back(*level);
  }
  if (levels.empty()) {
    std::optional<CpuLevel> host = getHostLevel();
    if (!host)
      return module.emitError(
          "this machine lacks AVX2 and FMA; name the levels to "
          "compile for");
    levels.push_back(*host);
  }
  return levels;
}

static KernelShape getShape(const KernelInfo &info) {
  KernelShape shape{info.extent,
                    info.grain,
                    static_cast<uint64_t>(info.workspaceBytes),
                    info.hasFinish,
                    info.hasStatus,
                    {}};
  for (ArrayRef<unsigned> operands : info.inPlace)
    shape.inPlace.emplace_back(operands.begin(), operands.end());
  return shape;
}

static std::vector<std::byte> getBytes(StringRef data) {
  std::vector<std::byte> bytes(data.size());
  std::memcpy(bytes.data(), data.data(), data.size());
  return bytes;
}

/// The tensors that ports take from the bundle, in the layout of memory.
static ::binade::StoredTensor store(StringRef name,
                                    DenseElementsAttr elements) {
  ::binade::StoredTensor tensor;
  tensor.name = name.str();
  tensor.shape = std::vector<int64_t>(elements.getType().getShape());
  tensor.dtype = getDType(elements.getElementType());
  if (elements.getElementType().isInteger(1)) {
    for (bool value : elements.getValues<bool>())
      tensor.bytes.push_back(std::byte(value));
    return tensor;
  }
  ArrayRef<char> raw = elements.getRawData();
  tensor.bytes = getBytes(StringRef(raw.data(), raw.size()));
  return tensor;
}

/// What a plan depends on beside the module, but for its kernels.
static PlanOptions getPlanOptions(const CompileOptions &options) {
  PlanOptions plan;
  unsigned threads =
      options.threads ? options.threads : ::binade::defaultThreadCount();
  plan.threads = threads;
  plan.queryScratch = [threads](const ::binade::plan::Record &record,
                                const ::binade::Plan &plan, bool alone) {
    return ::binade::queryLibrary(plan.buffers, record, alone ? 1 : threads)
        .scratchBytes;
  };
  return plan;
}

FailureOr<::binade::Plan>
mlir::binade::planModule(ModuleOp module, const CompileOptions &options) {
  PlanOptions planOptions = getPlanOptions(options);
  OwningOpRef<ModuleOp> loops = ModuleOp::create(module.getLoc());
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(kKernelAttr))
      continue;
    FailureOr<KernelInfo> info = emitKernel(kernel, *loops);
    if (failed(info))
      return failure();
    planOptions.kernels[kernel.getName()] = getShape(*info);
    loops->getBody()->clear();
  }
  FailureOr<EmittedPlan> emitted = emitPlan(module, planOptions);
  if (failed(emitted))
    return failure();
  return std::move(emitted->plan);
}

FailureOr<Bundle> mlir::binade::compileBundle(ModuleOp module,
                                              const CompileOptions &options,
                                              const PhaseListener &listener) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto report = [&](CompilerPhase phase) {
    std::chrono::duration<double> elapsed = Clock::now() - start;
    if (listener)
      listener(phase, elapsed.count());
    start = Clock::now();
  };

  FailureOr<SmallVector<CpuLevel>> levels = getLevels(module, options);
  if (failed(levels))
    return failure();
  Bundle bundle;
  PlanOptions planOptions = getPlanOptions(options);
  for (CpuLevel level : *levels) {
    CpuOptions cpu;
    cpu.level = level;
    cpu.cacheDirectory = options.cacheDirectory.empty()
                             ? getDefaultCacheDirectory()
                             : options.cacheDirectory;
    FailureOr<CompiledKernels> compiled = compileKernels(module, cpu);
    if (failed(compiled))
      return failure();
    bundle.kernels[getName(level).str()] = getBytes(compiled->object);
    for (const KernelInfo &info : compiled->kernels)
      planOptions.kernels[info.symbol] = getShape(info);
  }
  report(CompilerPhase::Target);

  FailureOr<EmittedPlan> emitted = emitPlan(module, planOptions);
  if (failed(emitted))
    return failure();
  bundle.plan = std::move(emitted->plan);
  for (auto &[name, elements] : emitted->tensors)
    bundle.init.push_back(store(name, elements));
  if (auto valid = ::binade::validate(bundle.plan, "the plan"); !valid)
    return module.emitError("the plan is wrong, which is a bug in Binade: ")
           << ::binade::render(valid.error());
  report(CompilerPhase::Plan);
  return bundle;
}
