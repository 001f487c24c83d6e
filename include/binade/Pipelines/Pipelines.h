//===- Pipelines.h - the flow, top to bottom --------------------*- C++ -*-===//

#ifndef BINADE_PIPELINES_PIPELINES_H
#define BINADE_PIPELINES_PIPELINES_H

#include "binade/Pipelines/Phase.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBufferRef.h"
#include <functional>

namespace binade {
struct Bundle;
struct Plan;
} // namespace binade

namespace mlir::binade {

struct GpuCode;
struct ExportOptions;
struct ExportReport;
struct ImportOptions;
struct ImportReport;
struct TrainedValues;

/// The statistics that ranges of values are made of.
inline constexpr llvm::StringLiteral kRangeStatistics =
    "amax|smallest|zeros|exponents";

/// What a user decides about a compilation, beside the model.
struct CompileOptions {
  /// Whether looked-up rows of parameters are normalized.
  bool stableEmbedding = false;
  /// Empty for the rules that came with the model, or the default.
  std::string optimizer;
  /// key=value, and GLOB:key=value;key=value.
  std::vector<std::string> settings, groups;
  /// Largest global gradient norm; 0 for no limit.
  double clip = 0.0;
  /// Whose gradients one update takes the mean of.
  int64_t batches = 1;
  /// Whether the optimizer's states take them in one by one: no sum is kept.
  bool accumulateInMomentum = false;
  /// skip, continue or shrink.
  std::string onNonfinite = "skip";
  bool keepGradients = false, keepOutputs = false;
  std::string policy = "fp32";
  /// File of ranges that a run recorded; empty for none.
  std::string ranges;
  /// What may wait for the backward part, "24MiB" or "60%"; empty for no limit.
  std::string budget;
  /// Formats of states whatever the policy says: FORMAT, or GLOB:FORMAT.
  std::vector<std::string> states;
  /// What to count of the step's values, "amax|zeros"; empty for nothing.
  std::string statistics;
  /// Statistics for people; see `parseStatisticsRequest`.
  std::vector<std::string> watch;
  /// Alarms of runs, words as `chooseAlarms` takes them, and what they lead to;
  /// empty for what the policy says.
  std::vector<std::string> alarms;
  std::string onAlarm;
  /// Statistics that these watch, of values that need not be there; `runPhases`
  /// finds out which.
  std::vector<std::string> watchForAlarms;

  /// Threads of library calls; 0 for as many as the machine that runs has.
  unsigned threads = 0;
  /// ISA levels to compile for; empty for this machine's.
  std::vector<std::string> levels;
  /// Where compiled kernels are kept; empty for the user's cache.
  std::string cacheDirectory;
  /// What to compile for: "cuda:sm_90", or empty for CPUs.
  std::string target;
  /// Whether formats that the target lacks are an error.
  bool isStrict = false;
  /// Where to leave IR, PTX and cubins of kernels; empty for nowhere.
  std::string kernelDirectory;
  /// Told of every module for a GPU, in the order of the bundle's.
  std::function<void(const GpuCode &)> onGpuCode;
};

/// Adds the passes of one phase; of import those that run on what was read.
/// Plan and target have none.
void buildPipeline(OpPassManager &pm, CompilerPhase phase,
                   const CompileOptions &options);

/// Registers `binade-<phase>-pipeline` for each phase that has passes, with the
/// phase's options.
void registerPipelines();

/// Registers the dialects and the passes of all stations.
void registerAllDialects(DialectRegistry &registry);
void registerAllPasses();

/// Told when a phase has ended: what it was and how long it took.
using PhaseListener = std::function<void(CompilerPhase, double seconds)>;

/// Runs phase `import` on the ONNX file at `path`, or on one in memory whose
/// buffer's identifier is the path (see `importOnnx`).
FailureOr<OwningOpRef<ModuleOp>> importModel(StringRef path,
                                             const ImportOptions &options,
                                             MLIRContext *context,
                                             ImportReport *report = nullptr);
FailureOr<OwningOpRef<ModuleOp>> importModel(llvm::MemoryBufferRef file,
                                             const ImportOptions &options,
                                             MLIRContext *context,
                                             ImportReport *report = nullptr);

/// Writes the ONNX file at `path` with trained values (see `exportTrained`).
/// Files that phase `import` refuses are refused with the same errors.
LogicalResult exportModel(StringRef path, const TrainedValues &values,
                          const ExportOptions &options, StringRef output,
                          MLIRContext *context, ExportReport &report);

/// Runs the phases after `from` up to `to`, which must not lie behind
/// `kernels`, on `module`.
LogicalResult runPhases(ModuleOp module, CompilerPhase from, CompilerPhase to,
                        const CompileOptions &options,
                        const PhaseListener &listener = {});

/// Plans a module that has its kernels formed, without compiling them: the plan
/// that `compileBundle` makes.
FailureOr<::binade::Plan> planModule(ModuleOp module,
                                     const CompileOptions &options);

/// Plans and compiles a module that has its kernels formed.
FailureOr<::binade::Bundle> compileBundle(ModuleOp module,
                                          const CompileOptions &options,
                                          const PhaseListener &listener = {});

/// Runs the phases after `from` on `module`, to a bundle that says how often
/// each format was chosen; warns of formats that the target lacks.
FailureOr<::binade::Bundle> compileStep(ModuleOp module, CompilerPhase from,
                                        const CompileOptions &options,
                                        const PhaseListener &listener = {});

/// Compiles the kernels of a bundle for a device once more, from its source and
/// its plan: the same compiler gives the modules and the device kernels that
/// the bundle has. There is no more in what is returned.
FailureOr<::binade::Bundle> recompile(ModuleOp source,
                                      const ::binade::Plan &plan,
                                      const CompileOptions &options);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_PIPELINES_H
