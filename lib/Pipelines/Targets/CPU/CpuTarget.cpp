//===- CpuTarget.cpp - The CPU as a target --------------------------------===//

#include "../KernelShapes.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Pipelines/Target.h"
#include "binade/Plan/Bundle.h"
#include "binade/Target/CPU.h"
#include "binade/Target/Passes.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Bundle;

/// Returns the ISA levels to compile for; fails on an unknown name.
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

namespace {
class CpuTarget : public Target {
public:
  bool converts(Type, Operation *) const override { return false; }
  /// No CPU library has f16 matmuls.
  bool multiplies(Type format) const override { return !format.isF16(); }
  LogicalResult compileKernels(ModuleOp module, const CompileOptions &options,
                               Bundle &bundle,
                               PlanOptions &plan) const override;
};
} // namespace

LogicalResult CpuTarget::compileKernels(ModuleOp module,
                                        const CompileOptions &options,
                                        Bundle &bundle,
                                        PlanOptions &plan) const {
  FailureOr<SmallVector<CpuLevel>> levels = getLevels(module, options);
  if (failed(levels))
    return failure();
  for (CpuLevel level : *levels) {
    CpuOptions cpu;
    cpu.level = level;
    cpu.cacheDirectory = options.cacheDirectory.empty()
                             ? getDefaultCacheDirectory()
                             : options.cacheDirectory;
    FailureOr<CompiledKernels> compiled =
        mlir::binade::compileKernels(module, cpu);
    if (failed(compiled))
      return failure();
    bundle.kernels[getName(level).str()] = getBytes(compiled->object);
    for (const KernelInfo &info : compiled->kernels)
      plan.kernels[info.symbol] = getShape(info);
  }
  return success();
}

static void print(raw_ostream &os) {
  for (CpuLevel level : {CpuLevel::V3, CpuLevel::V4})
    printTarget(os, "cpu:" + getName(level),
                StringRef(level == CpuLevel::V3 ? "AVX2 and FMA" : "AVX-512") +
                    (getHostLevel() == level ? "; this machine's" : ""));
}

namespace mlir::binade {
TargetKind getCpuKind() {
  TargetKind kind;
  kind.name = "cpu";
  kind.listNames = [] { return std::vector<std::string>(); };
  kind.create = [](StringRef name) -> std::unique_ptr<Target> {
    return name.empty() ? std::make_unique<CpuTarget>() : nullptr;
  };
  kind.print = print;
  kind.registerPipelines = registerTargetCpuPipeline;
  return kind;
}
} // namespace mlir::binade
