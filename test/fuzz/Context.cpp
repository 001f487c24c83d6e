//===- Context.cpp - An MLIR context that checks its errors ---------------===//

#include "Context.h"
#include "Check.h"
#include "binade/IR/Binade.h"
#include "binade/IR/Diagnostics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace binade::fuzz {

Context::Context() : mlir(mlir::MLIRContext::Threading::DISABLED) {
  mlir.printOpOnDiagnostic(false);
  mlir.loadDialect<mlir::binade::BinadeDialect, mlir::func::FuncDialect>();
  mlir.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    checkError(mlir::binade::toError(diagnostic, "f"));
    errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    return mlir::success();
  });
}

Context &Context::get() {
  constexpr unsigned kFiles = 1000;
  static std::unique_ptr<Context> context;
  static unsigned files = 0;
  if (files++ % kFiles == 0) {
    context.reset();
    context = std::make_unique<Context>();
  }
  context->errors = 0;
  return *context;
}

void Context::checkResult(bool isRejected) const {
  check(!isRejected || errors > 0, "what is rejected has an error");
}

} // namespace binade::fuzz
