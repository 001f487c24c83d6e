//===- Pipelines.h - The phases as functions and pipelines ------*- C++ -*-===//

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

/// The statistics from which ranges of values are computed.
inline constexpr llvm::StringLiteral kRangeStatistics =
    "amax|smallest|zeros|exponents";

/// The user's settings of a compilation, in addition to the model.
struct CompileOptions {
  /// Whether a layer norm is added after embeddings.
  bool stableEmbedding = false;
  /// The optimizer; if empty, the rules of the model or the default.
  std::string optimizer;
  /// Settings as key=value, and of groups as GLOB:key=value;key=value.
  std::vector<std::string> settings, groups;
  /// Which parameters have weight decay: all or matrices.
  std::string decay = "all";
  /// The maximum global gradient norm; 0 for no limit.
  double clip = 0.0;
  /// The number of batches whose gradients one update averages.
  int64_t batches = 1;
  /// Whether gradients are accumulated in the optimizer's states instead of
  /// separate accumulators.
  bool accumulateInMomentum = false;
  /// The format in which ranks of a group exchange gradients: f32, bf16, e4m3,
  /// exact, or policy for the policy's; empty for a step of one process.
  std::string exchange;
  /// Whether parameters are updated in the backward pass, so that their
  /// gradients need not be in memory together.
  bool releaseGradients = false;
  /// What a step with gradients that are not finite does: skip, continue or
  /// shrink. If empty, skip, or continue with `releaseGradients`.
  std::string onNonfinite;
  bool keepGradients = false, keepOutputs = false;
  std::string policy = "fp32";
  /// The file of ranges that a run recorded, or empty.
  std::string ranges;
  /// The limit of the memory of saved values, such as "24MiB" or "60%"; empty
  /// for no limit.
  std::string budget;
  /// Whether values that need a matmul or a convolution are recomputed to meet
  /// `budget`.
  bool recomputesMatmuls = false;
  /// Formats of optimizer states, which override the policy: FORMAT or
  /// GLOB:FORMAT.
  std::vector<std::string> states;
  /// The metrics of held-out samples: "accuracy", "topK", "perplexity", or
  /// "labels" for only the number of labels, if the loss has labels.
  std::vector<std::string> metrics;
  /// Statistics to record of the step's values, such as "amax|zeros"; empty for
  /// none.
  std::string statistics;
  /// Requests of statistics for the user (see `parseStatisticsRequest`).
  std::vector<std::string> watch;
  /// The alarms of runs, as `chooseAlarms` accepts them, and the action on an
  /// alarm. If empty, those of the policy.
  std::vector<std::string> alarms;
  std::string onAlarm;
  /// Requests of statistics for the alarms, whose values need not exist in the
  /// step; set by `runPhases`.
  std::vector<std::string> watchForAlarms;

  /// The number of threads of library calls; 0 means this machine's default.
  unsigned threads = 0;
  /// The ISA levels to compile for; if empty, this machine's.
  std::vector<std::string> levels;
  /// The directory that caches compiled kernels; if empty, the user's cache.
  std::string cacheDirectory;
  /// The target, such as "cuda:sm_90"; empty for CPUs.
  std::string target;
  /// Whether formats that the target lacks are an error.
  bool isStrict = false;
  /// The directory for IR, PTX and cubins of kernels; if empty, none are
  /// written.
  std::string kernelDirectory;
  /// Called for every GPU module, in the order of the bundle.
  std::function<void(const GpuCode &)> onGpuCode;
};

/// Adds the passes of one phase; for import, those that run after the importer.
/// Plan and target have no passes.
void buildPipeline(OpPassManager &pm, CompilerPhase phase,
                   const CompileOptions &options);

/// Registers `binade-<phase>-pipeline` for each phase that has passes, with the
/// phase's options.
void registerPipelines();

/// Register the dialects and the passes of all phases.
void registerAllDialects(DialectRegistry &registry);
void registerAllPasses();

/// Returns a registry with the dialects of all phases.
DialectRegistry makeRegistry();

/// Called after each phase, with the time that it took in seconds.
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
/// Fails, with the same errors, for files that are not valid ONNX or whose
/// metadata are not valid.
LogicalResult exportModel(StringRef path, const TrainedValues &values,
                          const ExportOptions &options, StringRef output,
                          MLIRContext *context, ExportReport &report);

/// Runs the phases after `from` up to `to`, which must not be after `kernels`,
/// on `module`.
LogicalResult runPhases(ModuleOp module, CompilerPhase from, CompilerPhase to,
                        const CompileOptions &options,
                        const PhaseListener &listener = {});

/// Plans a module that phase `kernels` has processed, without compiling
/// kernels. The plan is the same as that of `compileBundle`.
FailureOr<::binade::Plan> planModule(ModuleOp module,
                                     const CompileOptions &options);

/// Plans and compiles a module that phase `kernels` has processed.
FailureOr<::binade::Bundle> compileBundle(ModuleOp module,
                                          const CompileOptions &options,
                                          const PhaseListener &listener = {});

/// Runs the phases after `from` on `module` and compiles a bundle. Its plan
/// counts how often each format was chosen. Warns of formats that the target
/// lacks.
FailureOr<::binade::Bundle> compileStep(ModuleOp module, CompilerPhase from,
                                        const CompileOptions &options,
                                        const PhaseListener &listener = {});

/// Compiles the kernels of a bundle for a device again, from its source and its
/// plan. The same compiler produces the same modules and device kernels; the
/// returned bundle contains nothing else.
FailureOr<::binade::Bundle> recompile(ModuleOp source,
                                      const ::binade::Plan &plan,
                                      const CompileOptions &options);

} // namespace mlir::binade

#endif // BINADE_PIPELINES_PIPELINES_H
