//===- CudaTarget.cpp - NVIDIA GPUs as targets ----------------------------===//

#include "../KernelShapes.h"
#include "Alignment.h"
#include "Records.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/Sha256.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Target/CPU.h"
#include "binade/Target/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Bundle;

static constexpr StringLiteral kSaturateAttr = "saturate";

namespace {
/// Integer operations per second of a device with the chip, for predictions:
/// multiprocessors times 64 lanes times clock rate.
struct ChipThroughput {
  StringRef chip;
  Target::Throughput throughput;
};
} // namespace

static constexpr ChipThroughput kThroughputs[] = {
    {"sm_80", {"an A100", 108 * 64 * 1.41e9}},
    {"sm_89", {"an L40S", 142 * 64 * 2.52e9}},
    {"sm_90", {"an H200", 132 * 64 * 1.98e9}},
    {"sm_100", {"a B200", 148 * 64 * 1.85e9}},
};

namespace {
class CudaTarget : public Target {
public:
  explicit CudaTarget(const CudaChip *chip) : chip(chip) {}

  bool converts(Type format, Operation *op) const override;
  bool multiplies(Type) const override { return true; }
  std::optional<Throughput> getThroughput() const override;
  LogicalResult compileKernels(ModuleOp module, const CompileOptions &options,
                               Bundle &bundle,
                               PlanOptions &plan) const override;
  bool notePlan(ModuleOp module, const ::binade::Plan &plan) const override {
    return noteAlignments(module, plan);
  }
  LogicalResult compileRecords(ModuleOp module, const CompileOptions &options,
                               Bundle &bundle) const override;

private:
  CudaOptions getOptions(const CompileOptions &options) const;

  const CudaChip *chip;
  /// The path and the version of NVIDIA's assembler, found at the first use: a
  /// process has to be started to ask for the version.
  struct Assembler {
    std::string path, version;
  };
  mutable std::optional<Assembler> assembler;
};
} // namespace

bool CudaTarget::converts(Type format, Operation *op) const {
  if (isa<FloatTF32Type>(format))
    return true;
  if (!chip->hasFloat8 || !isa<Float8E4M3FNType, Float8E5M2Type>(format))
    return false;
  // Conversion instructions saturate.
  bool makes = llvm::any_of(op->getResultTypes(), [&](Type type) {
    return getElementTypeOrSelf(type) == format;
  });
  bool maySaturate =
      llvm::is_contained(op->getName().getAttributeNames(), kSaturateAttr);
  return !makes || !maySaturate || op->hasAttr(kSaturateAttr);
}

std::optional<Target::Throughput> CudaTarget::getThroughput() const {
  for (const ChipThroughput &known : kThroughputs)
    if (known.chip == chip->name)
      return known.throughput;
  return std::nullopt;
}

CudaOptions CudaTarget::getOptions(const CompileOptions &options) const {
  CudaOptions cuda;
  cuda.chip = chip;
  if (!assembler) {
    std::string path = findPtxas();
    assembler = {path, path.empty() ? "" : getPtxasVersion(path)};
  }
  cuda.assembler = assembler->path;
  cuda.assemblerVersion = assembler->version;
  cuda.cacheDirectory = options.cacheDirectory.empty()
                            ? getDefaultCacheDirectory()
                            : options.cacheDirectory;
  return cuda;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Writes the image of each module and its IR to `directory`, named by the hash
/// of the image.
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
  // Kernels of matmuls and copies have no function in the module.
  if (auto function = module.lookupSymbol<func::FuncOp>(kernel.info.symbol))
    described.alignments = getAlignments(function);
  return described;
}

/// Adds the compiled kernels to `bundle`.
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

LogicalResult CudaTarget::compileKernels(ModuleOp module,
                                         const CompileOptions &options,
                                         Bundle &bundle,
                                         PlanOptions &plan) const {
  CudaOptions cuda = getOptions(options);
  FailureOr<CompiledGpuKernels> compiled = compileGpuKernels(module, cuda);
  if (failed(compiled))
    return failure();
  for (const CompiledGpuKernel &kernel : compiled->kernels)
    plan.kernels[kernel.info.symbol] = getShape(kernel.info);
  bundle.plan.chip = cuda.chip->name.str();
  // Iterations of loops run one after the other; each uses the whole device.
  plan.threads = 1;
  plan.queryScratch = [](const ::binade::plan::Record &record,
                         const ::binade::Plan &plan,
                         bool) { return queryDeviceScratch(record, plan); };
  const GpuCosts *costs = GpuCosts::find(cuda.chip->name, module.getContext());
  plan.queryLibraryScratch = [costs](const ::binade::plan::Record &record,
                                     const ::binade::Plan &plan) {
    return queryLibraryScratch(record, plan, costs);
  };
  return add(module, options, cuda, *compiled, bundle);
}

LogicalResult CudaTarget::compileRecords(ModuleOp module,
                                         const CompileOptions &options,
                                         Bundle &bundle) const {
  CudaOptions cuda = getOptions(options);
  return compileDeviceRecords(
      module.getLoc(), cuda, bundle, [&](const CompiledGpuKernels &compiled) {
        return add(module, options, cuda, compiled, bundle);
      });
}

//===----------------------------------------------------------------------===//
// The kind
//===----------------------------------------------------------------------===//

/// Prints the chips, and the assembler that was found.
static void print(raw_ostream &os) {
  std::string ptxas = findPtxas();
  StringRef version = "of an unknown version";
  std::string says = ptxas.empty() ? "" : getPtxasVersion(ptxas);
  if (size_t at = says.find("release "); at != std::string::npos)
    version = StringRef(says).substr(at).split(',').first;
  for (const CudaChip &chip : getCudaChips()) {
    // "+ptx81" is 8.1.
    StringRef digits = chip.ptx.substr(StringRef("+ptx").size());
    printTarget(os, "cuda:" + chip.name,
                "PTX " + digits.drop_back() + "." + digits.take_back() +
                    (chip.hasFloat8 ? ", FP8 by instructions" : ""));
  }
  if (ptxas.empty())
    os << "ptxas was not found: set BINADE_CUDA_ROOT to a CUDA "
          "Toolkit, or PATH to its programs\n";
  else
    os << "ptxas is " << ptxas << ", " << version << "\n";
}

namespace mlir::binade {
TargetKind getCudaKind() {
  TargetKind kind;
  kind.name = "cuda";
  kind.listNames = getCudaTargets;
  kind.create = [](StringRef name) -> std::unique_ptr<Target> {
    const CudaChip *chip = findCudaTarget(name);
    return chip ? std::make_unique<CudaTarget>(chip) : nullptr;
  };
  kind.print = print;
  kind.addPasses = [](OpPassManager &passes, StringRef name) {
    // The pass reports an unknown target.
    const CudaChip *chip = findCudaTarget(name);
    passes.addPass(createSetCudaTargetPass({(chip ? chip->name : name).str()}));
  };
  kind.findName = [](const ::binade::Plan &plan) {
    return plan.chip.empty() ? std::string() : "cuda:" + plan.chip;
  };
  kind.registerPipelines = registerTargetCudaPipeline;
  return kind;
}
} // namespace mlir::binade
