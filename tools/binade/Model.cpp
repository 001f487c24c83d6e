//===- Model.cpp - A model on its way through the phases ------------------===//

#include "Model.h"
#include "binade/IR/ParseModule.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerAllDialects(registry);
  return registry;
}

Model::Model(std::string path, const OutputArguments &output)
    : path(std::move(path)), timing(output.timing), context(makeRegistry()),
      diagnostics(context, ::binade::printable(this->path),
                  output.getFormat()) {}

bool Model::isModule() const { return StringRef(path).ends_with(".mlir"); }

std::string Model::getDirectory() const {
  StringRef directory = llvm::sys::path::parent_path(path);
  return directory.empty() ? "." : directory.str();
}

PhaseListener Model::getListener() const {
  if (!timing)
    return {};
  return [](CompilerPhase phase, double seconds) {
    llvm::errs() << llvm::formatv("{0,-12} {1:f3} s\n", getName(phase),
                                  seconds);
  };
}

LogicalResult Model::read(const ImportArguments &arguments,
                          CompilerPhase from) {
  context.loadAllAvailableDialects();
  auto start = std::chrono::steady_clock::now();
  if (isModule()) {
    module = parseModuleFile(path, &context);
    phase = from;
  } else {
    auto imported = importOnnx(path, arguments.options, &context, &report);
    if (succeeded(imported))
      module = std::move(*imported);
  }
  if (!module)
    return failure();
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  if (PhaseListener listener = getListener())
    listener(phase, elapsed.count());
  return success();
}

LogicalResult Model::advance(CompilerPhase to, const CompileOptions &options) {
  if (failed(runPhases(*module, phase, to, options, getListener())))
    return failure();
  phase = to;
  return success();
}
