//===- Options.h - what several commands take -------------------*- C++ -*-===//

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
binade::Result<void> checkPolicyName(const std::string &name);
/// Checks the formats of optimizer states, "GLOB:FORMAT" or "FORMAT".
binade::Result<void> checkStateFormats(llvm::StringRef text);

/// What a step is compiled to do about gradients that are not finite, where
/// training is to answer so: to stop, it has to skip them.
std::string getCompiledAnswer(binade::OnNonFinite answer);

/// Parses dimensions of the form NAME=N.
binade::Result<void> parseDims(const std::vector<std::string> &dims,
                               mlir::binade::ImportOptions &options);

/// For all that read weights.
void addFailOnNonfinite(CLI::App &command,
                        mlir::binade::ImportOptions &options);

/// How a model is read.
struct ImportArguments {
  std::string model;
  std::vector<std::string> dims;
  mlir::binade::ImportOptions options;

  /// `kinds` says what the model may be, for help; `option` is how it is named,
  /// by position unless said otherwise.
  void add(CLI::App &command, llvm::StringRef kinds,
           const std::string &option = "model");
  /// Takes `dims` apart.
  binade::Result<void> complete();
  /// Refuses what says how to import: a bundle is imported.
  binade::Result<void> refuseAll() const;

private:
  CLI::App *command = nullptr;
};

/// Options from which a training step is compiled.
struct StepArguments {
  mlir::binade::CompileOptions options;
  binade::SettingArguments settings;

  void add(CLI::App &command);
  /// Checks what the command line can say wrong by itself: preset names,
  /// numbers.
  binade::Result<void> complete();
  /// Refuses options of phases that are done when a module enters after `from`.
  binade::Result<void> refuseDone(mlir::binade::CompilerPhase from) const;
  /// Refuses what a bundle can no longer change, which is all but the values of
  /// hyper-parameters.
  binade::Result<void> refuseCompiled() const;
  /// Whether the command line names a policy.
  bool namesPolicy() const;

private:
  CLI::App *command = nullptr;
};

/// Form of diagnostics, and whether phases report their time.
struct OutputArguments {
  binade::DiagnosticFormat format = binade::DiagnosticFormat::Text;
  bool timing = false;

  void add(CLI::App &command);
};

/// How explanations are printed.
enum class ReportFormat { Text, Json };
void addReportFormat(CLI::App &command, ReportFormat &format);

using binade::usageError;

#endif // BINADE_TOOLS_BINADE_OPTIONS_H
