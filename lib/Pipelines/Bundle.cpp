//===- Bundle.cpp - From formed kernels to a bundle -----------------------===//

#include "binade/Plan/Bundle.h"
#include "Alignment.h"
#include "DeviceRecords.h"
#include "binade/Container/Activity.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"
#include "binade/IR/InternalError.h"
#include "binade/Kernels/EmitPlan.h"
#include "binade/Pipelines/AlarmRules.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Runtime/Library.h"
#include "binade/Target/CPU.h"
#include "binade/Target/CUDA.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
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

/// The module without the programs that launch its kernels.
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

static std::string getCacheDirectory(const CompileOptions &options) {
  return options.cacheDirectory.empty() ? getDefaultCacheDirectory()
                                        : options.cacheDirectory;
}

/// Adds kernels to `bundle`, and what the plan has to know of them to `plan`.
static LogicalResult compileForCpu(ModuleOp module,
                                   const CompileOptions &options,
                                   Bundle &bundle, PlanOptions &plan) {
  FailureOr<SmallVector<CpuLevel>> levels = getLevels(module, options);
  if (failed(levels))
    return failure();
  for (CpuLevel level : *levels) {
    CpuOptions cpu;
    cpu.level = level;
    cpu.cacheDirectory = getCacheDirectory(options);
    FailureOr<CompiledKernels> compiled = compileKernels(module, cpu);
    if (failed(compiled))
      return failure();
    bundle.kernels[getName(level).str()] = getBytes(compiled->object);
    for (const KernelInfo &info : compiled->kernels)
      plan.kernels[info.symbol] = getShape(info);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

/// Under the hash of a module's image, the IR that it was made of.
static LogicalResult saveKernels(ModuleOp module, StringRef directory,
                                 const CompiledGpuKernels &compiled) {
  auto write = [&](const std::string &name,
                   const std::string &text) -> LogicalResult {
    std::string path = (directory + "/" + name).str();
    auto written = ::binade::writeTextFile(path, text);
    if (written)
      return success();
    return module.emitError(::binade::render(written.error()));
  };
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return module.emitError("cannot create '")
           << directory << "': " << error.message();
  for (const GpuCode &code : compiled.codes)
    for (const auto &[image, suffix] :
         {std::pair(&code.ptx, ".ptx"), std::pair(&code.cubin, ".cubin")}) {
      if (image->empty())
        continue;
      std::string name = ::binade::sha256(std::as_bytes(std::span(*image)));
      if (failed(write(name + suffix, *image)) ||
          failed(write(name + ".mlir", code.ir)))
        return failure();
    }
  return success();
}

static ::binade::plan::DeviceKernel describe(ModuleOp module,
                                             const CompiledGpuKernel &kernel) {
  ::binade::plan::DeviceKernel described;
  described.name = kernel.info.symbol;
  described.module = static_cast<uint32_t>(kernel.code);
  for (const GpuEntry &entry : kernel.entries)
    described.entries.push_back({entry.symbol,
                                 {entry.grid.begin(), entry.grid.end()},
                                 {entry.block.begin(), entry.block.end()}});
  // Those of products and copies have no function.
  if (auto function = module.lookupSymbol<func::FuncOp>(kernel.info.symbol))
    described.alignments = getAlignments(function);
  return described;
}

static FailureOr<CudaOptions> getCudaOptions(ModuleOp module,
                                             const CompileOptions &options) {
  CudaOptions cuda;
  cuda.chip = findCudaTarget(options.target);
  if (!cuda.chip)
    return module.emitError("no target is called '")
           << options.target << "'; expected one of "
           << llvm::join(getCudaTargets(), ", ");
  cuda.assembler = findPtxas();
  if (!cuda.assembler.empty())
    cuda.assemblerVersion = getPtxasVersion(cuda.assembler);
  cuda.cacheDirectory = getCacheDirectory(options);
  return cuda;
}

/// Adds what was compiled to `bundle`.
static LogicalResult add(ModuleOp module, const CompileOptions &options,
                         const CudaOptions &cuda,
                         const CompiledGpuKernels &compiled, Bundle &bundle) {
  StringRef chip = cuda.chip->name, version = chip;
  version.consume_front("sm_");
  size_t first = bundle.modules.size();
  for (const GpuCode &code : compiled.codes) {
    ::binade::ModuleImages &images = bundle.modules.emplace_back();
    images[("compute_" + version).str()] = getBytes(code.ptx);
    if (!code.cubin.empty())
      images[chip.str()] = getBytes(code.cubin);
  }
  for (const CompiledGpuKernel &kernel : compiled.kernels) {
    bundle.plan.deviceKernels.push_back(describe(module, kernel));
    bundle.plan.deviceKernels.back().module += first;
  }
  if (options.onGpuCode)
    llvm::for_each(compiled.codes, options.onGpuCode);
  if (options.kernelDirectory.empty())
    return success();
  return saveKernels(module, options.kernelDirectory, compiled);
}

/// Adds kernels to `bundle`, and what the plan has to know of them to `plan`.
static LogicalResult compileForCuda(ModuleOp module,
                                    const CompileOptions &options,
                                    const CudaOptions &cuda, Bundle &bundle,
                                    PlanOptions &plan) {
  FailureOr<CompiledGpuKernels> compiled = compileGpuKernels(module, cuda);
  if (failed(compiled))
    return failure();
  for (const CompiledGpuKernel &kernel : compiled->kernels)
    plan.kernels[kernel.info.symbol] = getShape(kernel.info);
  bundle.plan.chip = cuda.chip->name.str();
  // Loops run one iteration after the other, and each fills the device.
  plan.threads = 1;
  plan.queryScratch = [](const ::binade::plan::Record &record,
                         const ::binade::Plan &plan,
                         bool) { return queryDeviceScratch(record, plan); };
  plan.queryLibraryScratch = queryLibraryScratch;
  return add(module, options, cuda, *compiled, bundle);
}

/// Notes that `kernel` is for operands that lie where these do: of all records
/// that share it, where it is worst.
static void lowerAlignments(const ::binade::Plan &plan,
                            ArrayRef<::binade::plan::View> operands,
                            ::binade::plan::DeviceKernel &kernel) {
  for (auto [index, view] : llvm::enumerate(operands)) {
    int64_t alignment = ::binade::plan::findAlignment(plan.buffers, view);
    if (alignment >= kernel.getAlignment(index))
      continue;
    kernel.alignments.resize(operands.size(), ::binade::plan::kDeviceAlignment);
    kernel.alignments[index] = alignment;
  }
}

/// Gives each record of the plan that is a `Body` a device kernel, called
/// `name` and a number, and says so in the record: `describe` says of which,
/// and equal ones share it.
template <typename Body, typename Wanted>
static LogicalResult
compileRecords(ModuleOp module, const CompileOptions &options,
               const CudaOptions &cuda, Bundle &bundle, StringRef name,
               Wanted (*describe)(const ::binade::Plan &, const Body &),
               FailureOr<CompiledGpuKernels> (*compile)(Location,
                                                        ArrayRef<Wanted>,
                                                        const CudaOptions &)) {
  ::binade::Plan &plan = bundle.plan;
  std::vector<Wanted> wanted;
  SmallVector<std::pair<::binade::plan::Record *, size_t>> users;
  std::function<void(std::vector<::binade::plan::Record> &)> collect =
      [&](std::vector<::binade::plan::Record> &records) {
        for (::binade::plan::Record &record : records) {
          if (auto *loop = std::get_if<::binade::plan::Loop>(&record.body))
            collect(loop->body);
          const auto *body = std::get_if<Body>(&record.body);
          if (!body)
            continue;
          Wanted own = describe(plan, *body);
          auto known = llvm::find(wanted, own);
          users.push_back({&record, known - wanted.begin()});
          if (known == wanted.end())
            wanted.push_back(std::move(own));
        }
      };
  for (auto *records : plan.getLists())
    collect(*records);
  if (wanted.empty())
    return success();
  FailureOr<CompiledGpuKernels> compiled =
      compile(module.getLoc(), wanted, cuda);
  if (failed(compiled))
    return failure();
  for (auto [index, made] : llvm::enumerate(compiled->kernels))
    made.info.symbol = (name + "_" + Twine(index)).str();
  size_t first = plan.deviceKernels.size();
  if (failed(add(module, options, cuda, *compiled, bundle)))
    return failure();
  for (auto [record, index] : users) {
    ::binade::plan::DeviceKernel &made = plan.deviceKernels[first + index];
    *findKernelName(*record) = made.name;
    lowerAlignments(plan, listKernelOperands(*record), made);
  }
  return success();
}

/// Kernels for what other targets give to a library or the runtime.
static LogicalResult compileRecords(ModuleOp module,
                                    const CompileOptions &options,
                                    const CudaOptions &cuda, Bundle &bundle) {
  if (failed(compileRecords(module, options, cuda, bundle, "product",
                            getProduct, compileGpuProducts)) ||
      failed(compileRecords(module, options, cuda, bundle, "convolution",
                            getConvolution, compileGpuConvolutions)) ||
      failed(compileRecords(module, options, cuda, bundle, "attention",
                            getAttention, compileGpuAttentions)))
    return failure();
  return compileRecords(module, options, cuda, bundle, "copy", getCopy,
                        compileGpuCopies);
}

//===----------------------------------------------------------------------===//
// Plans and bundles
//===----------------------------------------------------------------------===//

/// The plan of `module`, with the alarms of its runs.
static FailureOr<EmittedPlan> makePlan(ModuleOp module,
                                       const PlanOptions &options) {
  FailureOr<::binade::AlarmSettings> alarms =
      chooseAlarms(getAlarmWords(module), module.getContext());
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
  std::optional<CudaOptions> cuda;
  if (!options.target.empty()) {
    FailureOr<CudaOptions> found = getCudaOptions(module, options);
    if (failed(found))
      return failure();
    cuda = std::move(*found);
  }
  {
    ::binade::Activity activity("phase", getName(CompilerPhase::Target));
    if (failed(cuda
                   ? compileForCuda(module, options, *cuda, bundle, planOptions)
                   : compileForCpu(module, options, bundle, planOptions)))
      return failure();
  }
  report(CompilerPhase::Target);

  FailureOr<EmittedPlan> emitted = makePlan(module, planOptions);
  if (failed(emitted))
    return failure();
  if (cuda && noteAlignments(module, emitted->plan)) {
    // Once more; those that have nothing to note are in the cache.
    bundle.modules.clear();
    bundle.plan.deviceKernels.clear();
    if (failed(compileForCuda(module, options, *cuda, bundle, planOptions)))
      return failure();
  }
  bundle.source = printSource(module); // With what was noted.
  emitted->plan.chip = std::move(bundle.plan.chip);
  emitted->plan.deviceKernels = std::move(bundle.plan.deviceKernels);
  bundle.plan = std::move(emitted->plan);
  if (cuda && failed(compileRecords(module, options, *cuda, bundle)))
    return failure();
  for (auto &[name, elements] : emitted->tensors)
    bundle.init.push_back(store(name, elements));
  if (auto valid = ::binade::validate(bundle.plan, "the plan"); !valid)
    return emitInternalError(module.getLoc())
           << "the plan is wrong: " << ::binade::render(valid.error());
  report(CompilerPhase::Plan);
  return bundle;
}

FailureOr<Bundle>
mlir::binade::recompileForCuda(ModuleOp source, const ::binade::Plan &plan,
                               const CompileOptions &options) {
  Bundle bundle;
  PlanOptions ignored;
  FailureOr<CudaOptions> cuda = getCudaOptions(source, options);
  if (failed(cuda) ||
      failed(compileForCuda(source, options, *cuda, bundle, ignored)))
    return failure();
  std::vector<::binade::plan::DeviceKernel> kernels =
      std::move(bundle.plan.deviceKernels);
  bundle.plan = plan;
  bundle.plan.deviceKernels = std::move(kernels);
  if (failed(compileRecords(source, options, *cuda, bundle)))
    return failure();
  return bundle;
}
