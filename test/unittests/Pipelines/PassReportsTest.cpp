//===- PassReportsTest.cpp - Errors of passes -----------------------------===//

#include "../../../lib/Pipelines/PassReports.h"
#include "binade/Container/Activity.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Pipelines/Pipelines.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::binade;
using ::binade::ExitCode;

namespace {
/// A pass that applies `body` to `@f`; it fails if `body` returns false.
struct TestPass : PassWrapper<TestPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPass)
  explicit TestPass(std::function<bool(Operation *)> body)
      : body(std::move(body)) {}
  StringRef getArgument() const override { return "test-pass"; }
  void runOnOperation() override {
    if (!body(&*getOperation().getBody()->begin()))
      signalPassFailure();
  }
  std::function<bool(Operation *)> body;
};

class PassReportsTest : public ::testing::Test {
protected:
  /// Returns the exit code of a TestPass with `body`; 0 if it succeeds.
  int getExitCode(std::function<bool(Operation *)> body) {
    DialectRegistry registry;
    registerAllDialects(registry);
    MLIRContext context(registry);
    auto module = parseSourceString<ModuleOp>(
        "func.func private @f() attributes {binade.batches = 2 : i64}",
        &context);
    DiagnosticCollector collector(&context);
    PassManager pm(&context);
    pm.addPass(std::make_unique<TestPass>(std::move(body)));
    pm.addInstrumentation(std::make_unique<PassReports>(&context));
    if (succeeded(pm.run(*module)))
      return 0;
    return collector.takeError("file", "").exitCode;
  }
};
} // namespace

/// Makes the module invalid: `binade.batches` shall be an integer.
static bool makeInvalid(Operation *op) {
  op->setAttr("binade.batches", StringAttr::get(op->getContext(), "two"));
  return true;
}

TEST_F(PassReportsTest, APassThatLeavesAnInvalidModuleIsABug) {
  EXPECT_EQ(getExitCode(makeInvalid), ExitCode::Internal);
}

TEST_F(PassReportsTest, APassThatRejectsItsInputIsNoBug) {
  EXPECT_EQ(getExitCode([](Operation *op) {
              op->emitError("is not what was expected");
              return false;
            }),
            ExitCode::Rejected);
  EXPECT_EQ(getExitCode([](Operation *op) {
              op->emitOpError("is not what was expected");
              return false;
            }),
            ExitCode::Rejected);
}

TEST_F(PassReportsTest, ARejectionAfterPartOfTheWorkIsNoBug) {
  EXPECT_EQ(getExitCode([](Operation *op) {
              makeInvalid(op);
              op->emitError("is not what was expected");
              return false;
            }),
            ExitCode::Rejected);
}

TEST_F(PassReportsTest, ThePassIsNamedWhileItRuns) {
  std::string name;
  EXPECT_EQ(getExitCode([&](Operation *) {
              const auto *activity = ::binade::Activity::getInnermost();
              name = activity ? activity->getName() : "none";
              return true;
            }),
            0);
  EXPECT_EQ(name, "test-pass");
  EXPECT_EQ(::binade::Activity::getInnermost(), nullptr);
}
