//===- Model.h - a model on its way through the phases ----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_MODEL_H
#define BINADE_TOOLS_BINADE_MODEL_H

#include "Diagnostics.h"
#include "Options.h"
#include "binade/Precision/Policy.h"
#include "binade/Runtime/Program.h"
#include "mlir/IR/OwningOpRef.h"

/// A module, the context that it lives in, and how its errors are printed.
class Model {
public:
  Model(std::string path, const OutputArguments &output);

  /// Reads an ONNX file or a module, as the file name's extension says. A
  /// module is treated as the result of the phase `from`, or else of the phase
  /// that it shows. Prints errors and returns the exit code.
  int read(const ImportArguments &arguments,
           std::optional<mlir::binade::CompilerPhase> from = std::nullopt);
  /// Runs the phases up to `to`.
  mlir::LogicalResult advance(mlir::binade::CompilerPhase to,
                              const mlir::binade::CompileOptions &options);

  /// Reads a model and runs the phases up to a training step without formats; a
  /// module with a step is treated as such a step. Prints errors and returns
  /// the exit code.
  int readStep(ImportArguments &arguments, StepArguments &step);
  int readStep(ImportArguments &arguments,
               const mlir::binade::CompileOptions &options);
  /// Returns the training step. Requires `readStep`.
  mlir::func::FuncOp getStep();
  /// Loads the policy of the command line, or else that of the module.
  mlir::FailureOr<mlir::binade::Policy> loadPolicy(const StepArguments &step);

  /// Runs the remaining phases and returns the bundle.
  mlir::FailureOr<::binade::Bundle>
  compile(const mlir::binade::CompileOptions &options);

  /// Loads a bundle, or compiles the model. On failure prints the error and
  /// returns the exit code.
  std::variant<::binade::Program, int> load(ImportArguments &arguments,
                                            StepArguments &step,
                                            ::binade::LoadOptions options);

  mlir::ModuleOp getModule() { return *module; }
  /// Returns the last phase that ran.
  mlir::binade::CompilerPhase getPhase() const { return phase; }
  mlir::MLIRContext &getContext() { return context; }
  const Diagnostics &getDiagnostics() const { return diagnostics; }
  const mlir::binade::ImportReport &getReport() const { return report; }
  /// Returns the names of the model's parameters, trained or not. Requires
  /// `load`; empty for a bundle.
  const std::vector<std::string> &getParameterNames() const {
    return parameterNames;
  }
  mlir::binade::PhaseListener getListener() const;
  bool isModule() const;
  /// Fails if the module cannot be parsed, such as one of another tool.
  ::binade::Result<void> checkModule();
  /// Checks the first bytes of the file; returns false if it cannot be opened.
  bool isBundle() const;
  const std::string &getPath() const { return path; }
  /// Returns the model's directory, where external data are looked up.
  std::string getDirectory() const;

private:
  int parseModule(const ImportArguments &arguments);
  int readUpToOptimizer(ImportArguments &arguments, const StepArguments *step,
                        const mlir::binade::CompileOptions &options);
  std::variant<::binade::Program, int>
  loadBundle(const ImportArguments &arguments, const StepArguments &step,
             ::binade::LoadOptions options);

  std::string path;
  bool timing;
  mlir::MLIRContext context;
  Diagnostics diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::binade::ImportReport report;
  std::vector<std::string> parameterNames;
  mlir::binade::CompilerPhase phase = mlir::binade::CompilerPhase::Import;
};

#endif // BINADE_TOOLS_BINADE_MODEL_H
