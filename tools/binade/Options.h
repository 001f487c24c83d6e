//===- Options.h - Options shared by several commands -----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_OPTIONS_H
#define BINADE_TOOLS_BINADE_OPTIONS_H

#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/TrainArguments.h"
#include "binade/Container/Error.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Runtime/Settings.h"
#include <CLI/CLI.hpp>

/// Returns an error unless `name` is a known policy or ends in .yaml.
::binade::Result<void> checkPolicyName(const std::string &name);
/// Checks the formats of optimizer states, "GLOB:FORMAT" or "FORMAT".
::binade::Result<void> checkStateFormats(llvm::StringRef text);

/// Returns how a compiled step handles gradients that are not finite, given the
/// reaction of training. A step that stops training skips the update first,
/// unless it releases gradients.
std::string getCompiledAnswer(::binade::OnNonFinite answer,
                              bool releasesGradients);

/// Returns an error if `model` is a module, for a command that writes a changed
/// copy of an ONNX file.
::binade::Result<void> refuseModule(const std::string &model,
                                    llvm::StringRef command);

/// Adds --metric.
void addMetric(CLI::App &command, std::vector<std::string> &metrics);

/// Parses dimensions of the form NAME=N.
::binade::Result<void> parseDims(const std::vector<std::string> &dims,
                                 mlir::binade::ImportOptions &options);

/// Adds --fail-on-nonfinite, for commands that read weights.
void addFailOnNonfinite(CLI::App &command,
                        mlir::binade::ImportOptions &options);

/// Options for reading a model.
struct ImportArguments {
  std::string model;
  std::vector<std::string> dims;
  mlir::binade::ImportOptions options;

  /// Adds the options. `kinds` describes the accepted files in help; `option`
  /// is the name of the model's option, positional by default.
  void add(CLI::App &command, llvm::StringRef kinds,
           const std::string &option = "model");
  /// Parses `dims`.
  ::binade::Result<void> complete();
  /// Rejects import options for `what`, such as a bundle, whose model is
  /// imported already.
  ::binade::Result<void> refuseAll(llvm::StringRef what) const;

private:
  CLI::App *command = nullptr;
};

/// Options from which a training step is compiled.
struct StepArguments {
  mlir::binade::CompileOptions options;
  ::binade::SettingArguments settings;

  void add(CLI::App &command);
  /// Validates options that need no model, such as preset names and numbers.
  ::binade::Result<void> complete();
  /// Rejects options of phases up to `from`, which ran on the module already.
  ::binade::Result<void> refuseDone(mlir::binade::CompilerPhase from) const;
  /// Rejects options that cannot change a bundle: all except values of
  /// hyper-parameters.
  ::binade::Result<void> refuseCompiled() const;
  /// Whether the command line names a policy.
  bool namesPolicy() const;

private:
  CLI::App *command = nullptr;
};

/// Form of diagnostics, and whether phases report their time.
struct OutputArguments {
  ::binade::DiagnosticFormat format = ::binade::DiagnosticFormat::Text;
  bool timing = false;

  void add(CLI::App &command);
};

/// How explanations are printed.
enum class ReportFormat { Text, Json };
void addReportFormat(CLI::App &command, ReportFormat &format);

using ::binade::usageError;

#endif // BINADE_TOOLS_BINADE_OPTIONS_H
