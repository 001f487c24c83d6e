//===- Bundle.cpp - Compilation of bundles --------------------------------===//

#include "binade/Plan/Bundle.h"
#include "Targets/KernelShapes.h"
#include "binade/Container/Activity.h"
#include "binade/IR/CpuTarget.h"
#include "binade/IR/InternalError.h"
#include "binade/Kernels/EmitPlan.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Runtime/Library.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>
#include <cstring>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Bundle;

/// Returns an initial value in the layout of memory, which a port reads from
/// the bundle.
static ::binade::StoredTensor store(StringRef name,
                                    DenseElementsAttr elements) {
  ::binade::StoredTensor tensor;
  tensor.name = name.str();
  tensor.shape = std::vector<int64_t>(elements.getType().getShape());
  Type element = elements.getElementType();
  tensor.dtype = getDType(element);
  if (isa<IntegerType>(element) && element.getIntOrFloatBitWidth() < 8) {
    for (const APInt &value : elements.getValues<APInt>())
      tensor.bytes.push_back(std::byte(getInteger(value, element)));
    return tensor;
  }
  ArrayRef<char> raw = elements.getRawData();
  std::vector<std::byte> bytes = getBytes(StringRef(raw.data(), raw.size()));
  int64_t copies = elements.isSplat() ? elements.getNumElements() : 1;
  for (int64_t i = 0; i < copies; ++i)
    llvm::append_range(tensor.bytes, bytes);
  return tensor;
}

/// Prints the module without the programs, so that only the kernels remain.
static std::string printSource(ModuleOp module) {
  OwningOpRef<ModuleOp> source = ModuleOp::create(module.getLoc());
  SmallVector<func::FuncOp> programs = getPrograms(module);
  for (Operation &op : module.getOps())
    if (!llvm::is_contained(programs, &op))
      source->push_back(op.clone());
  std::string text;
  llvm::raw_string_ostream stream(text);
  source->print(stream,
                OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  return text;
}

/// Returns the options of a plan, without its kernels.
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

//===----------------------------------------------------------------------===//
// Plans and bundles
//===----------------------------------------------------------------------===//

/// Plans `module`, and adds the alarm rules of its runs.
static FailureOr<EmittedPlan> makePlan(ModuleOp module,
                                       const PlanOptions &options) {
  FailureOr<::binade::AlarmSettings> alarms =
      chooseAlarms(getAlarmRequests(module), module.getContext());
  if (failed(alarms))
    return failure();
  ::binade::Activity activity("phase", getName(CompilerPhase::Plan));
  FailureOr<EmittedPlan> emitted = emitPlan(module, options);
  if (succeeded(emitted))
    emitted->plan.alarms = std::move(*alarms);
  return emitted;
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
  FailureOr<EmittedPlan> emitted = makePlan(module, planOptions);
  if (failed(emitted))
    return failure();
  return std::move(emitted->plan);
}

static FailureOr<std::unique_ptr<Target>>
requireTarget(ModuleOp module, const CompileOptions &options) {
  if (std::unique_ptr<Target> target = findTarget(options.target))
    return target;
  return module.emitError("no target is called '")
         << options.target << "'"
         << ::binade::suggestOrList(options.target, getTargetNames());
}

/// Fails with an error if the kernels of `module` were formed for another
/// target, which may compute ops by kernels that the options' target lacks.
static LogicalResult checkKernelsTarget(ModuleOp module,
                                        const CompileOptions &options) {
  TargetAttr formed = getAnyTarget(module);
  StringRef wanted = options.target.empty() ? StringRef(kCpuTargetName)
                                            : StringRef(options.target);
  if (!formed || formed.getName() == wanted)
    return success();
  InFlightDiagnostic error = module.emitError("the kernels of this module ")
                             << "were formed for "
                             << formed.getName().getValue() << ", not for "
                             << wanted << "; compile it with";
  if (formed.getName() == kCpuTargetName)
    error << "out --target";
  else
    error << " --target " << formed.getName().getValue();
  return error << ", or start from a module of a phase before 'kernels'";
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

  Bundle bundle;
  PlanOptions planOptions = getPlanOptions(options);
  FailureOr<std::unique_ptr<Target>> target = requireTarget(module, options);
  if (failed(target) || failed(checkKernelsTarget(module, options)))
    return failure();
  {
    ::binade::Activity activity("phase", getName(CompilerPhase::Target));
    if (failed((*target)->compileKernels(module, options, bundle, planOptions)))
      return failure();
  }
  report(CompilerPhase::Target);

  FailureOr<EmittedPlan> emitted = makePlan(module, planOptions);
  if (failed(emitted))
    return failure();
  if ((*target)->notePlan(module, emitted->plan)) {
    // Compile again; kernels without new annotations are in the cache.
    bundle.modules.clear();
    bundle.plan.deviceKernels.clear();
    if (failed((*target)->compileKernels(module, options, bundle, planOptions)))
      return failure();
  }
  bundle.source = printSource(module); // With the annotations.
  emitted->plan.chip = std::move(bundle.plan.chip);
  emitted->plan.deviceKernels = std::move(bundle.plan.deviceKernels);
  bundle.plan = std::move(emitted->plan);
  if (failed((*target)->compileRecords(module, options, bundle)))
    return failure();
  for (auto &[name, elements] : emitted->tensors)
    bundle.init.push_back(store(name, elements));
  if (auto valid = ::binade::validate(bundle.plan, "the plan"); !valid)
    return emitInternalError(module.getLoc())
           << "the plan is wrong: " << ::binade::render(valid.error());
  report(CompilerPhase::Plan);
  return bundle;
}

FailureOr<Bundle> mlir::binade::recompile(ModuleOp source,
                                          const ::binade::Plan &plan,
                                          const CompileOptions &options) {
  Bundle bundle;
  PlanOptions ignored;
  FailureOr<std::unique_ptr<Target>> target = requireTarget(source, options);
  if (failed(target) ||
      failed((*target)->compileKernels(source, options, bundle, ignored)))
    return failure();
  std::vector<::binade::plan::DeviceKernel> kernels =
      std::move(bundle.plan.deviceKernels);
  bundle.plan = plan;
  bundle.plan.deviceKernels = std::move(kernels);
  if (failed((*target)->compileRecords(source, options, bundle)))
    return failure();
  return bundle;
}
