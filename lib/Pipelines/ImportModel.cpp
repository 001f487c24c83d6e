//===- ImportModel.cpp - The import phase ---------------------------------===//

#include "binade/Container/Printable.h"
#include "binade/Export/ExportTrained.h"
#include "binade/IR/Exported.h"
#include "binade/IR/Interface.h"
#include "binade/IR/PortAttributes.h"
#include "binade/Import/ONNX/Import.h"
#include "binade/Import/ONNX/OptimizerModel.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Raising/Passes.h"

using namespace mlir;
using namespace mlir::binade;

/// Sets the rule of an optimizer model for all parameters of `module`.
static LogicalResult addOptimizer(ModuleOp module, StringRef path) {
  auto function = module.lookupSymbol<func::FuncOp>(kGradientName);
  if (!function)
    function = module.lookupSymbol<func::FuncOp>(kForwardName);
  FailureOr<ImportedOptimizer> given =
      readOptimizerModel(path, module.getContext());
  if (failed(given))
    return failure();
  for (const Port &port : getArguments(function, Role::Parameter))
    if (function.getArgAttr(port.index, kOptimizerAttr))
      return function.emitError()
             << "updates its parameters itself: --optimizer-model is for a "
                "graph of gradients; --optimizer replaces its own updates";
  FailureOr<OptimizerOp> rule = addRule(module, given->rule, given->settings);
  if (failed(rule))
    return failure();
  if (!*rule)
    return function.emitError()
           << "optimizer model " << ::binade::quote(path.str())
           << " has a value that rule '" << given->rule << "' does not allow";
  PortAttributes attributes(function);
  for (const Port &port : getArguments(function, Role::Parameter))
    attributes.setOfArgument(port.index, kOptimizerAttr,
                             FlatSymbolRefAttr::get(rule->getSymNameAttr()));
  attributes.apply();
  return success();
}

/// Runs the passes of the phase on the importer's result.
static FailureOr<OwningOpRef<ModuleOp>>
finish(FailureOr<OwningOpRef<ModuleOp>> module, const ImportOptions &options) {
  if (failed(module))
    return failure();
  if (options.recognize)
    recognizeComposites((*module)->lookupSymbol<func::FuncOp>(kForwardName));
  PassManager pm((*module)->getContext());
  buildPipeline(pm, CompilerPhase::Import, {});
  if (failed(pm.run(**module)) ||
      (!options.optimizerModel.empty() &&
       failed(addOptimizer(**module, options.optimizerModel))))
    return failure();
  return module;
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importModel(StringRef path, const ImportOptions &options,
                          MLIRContext *context, ImportReport *report) {
  return finish(importOnnx(path, options, context, report), options);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::binade::importModel(llvm::MemoryBufferRef file,
                          const ImportOptions &options, MLIRContext *context,
                          ImportReport *report) {
  return finish(importOnnx(file, options, context, report), options);
}

LogicalResult mlir::binade::exportModel(StringRef path,
                                        const TrainedValues &values,
                                        const ExportOptions &options,
                                        StringRef output, MLIRContext *context,
                                        ExportReport &report) {
  ImportOptions import;
  import.lossOutput = options.lossOutput;
  import.allowHardLinks = options.allowHardLinks;
  PartialImport partial;
  if (failed(importOnnxPart(path, import, context, partial))) {
    report.exitCode = partial.exitCode;
    return failure();
  }
  return exportTrained(path, values, options, output, context, report);
}
