//===- Model.h - a model on its way through the phases ----------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_MODEL_H
#define BINADE_TOOLS_BINADE_MODEL_H

#include "Diagnostics.h"
#include "Options.h"
#include "mlir/IR/OwningOpRef.h"

/// A module, the context that it lives in, and how its errors are printed.
class Model {
public:
  Model(std::string path, const OutputArguments &output);

  /// Reads an ONNX file or a module, by the name's ending. A module is taken as
  /// what the phase `from` left behind.
  mlir::LogicalResult read(const ImportArguments &arguments,
                           mlir::binade::CompilerPhase from);
  /// Runs the phases up to `to`.
  mlir::LogicalResult advance(mlir::binade::CompilerPhase to,
                              const mlir::binade::CompileOptions &options);

  mlir::ModuleOp getModule() { return *module; }
  const Diagnostics &getDiagnostics() const { return diagnostics; }
  const mlir::binade::ImportReport &getReport() const { return report; }
  mlir::binade::PhaseListener getListener() const;
  bool isModule() const;
  /// Where external data are sought: the model's directory.
  std::string getDirectory() const;

private:
  std::string path;
  bool timing;
  mlir::MLIRContext context;
  Diagnostics diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::binade::ImportReport report;
  mlir::binade::CompilerPhase phase = mlir::binade::CompilerPhase::Import;
};

#endif // BINADE_TOOLS_BINADE_MODEL_H
