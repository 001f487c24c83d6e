//===- DiagnosticsTest.cpp - Exit codes of MLIR diagnostics ---------------===//

#include "binade/IR/Diagnostics.h"
#include "binade/IR/InternalError.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::ExitCode;

TEST(DiagnosticsTest, ErrorsOfInputAreRejections) {
  MLIRContext context;
  DiagnosticCollector collector(&context);
  emitError(UnknownLoc::get(&context)) << "wrong";
  Error error = collector.takeError("file", "nothing");
  EXPECT_EQ(error.exitCode, ExitCode::Rejected);
  EXPECT_TRUE(error.notes.empty());
}

TEST(DiagnosticsTest, InternalErrorsSayThatTheyAreBugs) {
  MLIRContext context;
  DiagnosticCollector collector(&context);
  emitInternalError(UnknownLoc::get(&context)) << "wrong";
  Error error = collector.takeError("file", "nothing");
  EXPECT_EQ(error.exitCode, ExitCode::Internal);
  EXPECT_EQ(error.message, "wrong");
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_NE(error.notes.front().find("bug in Binade"), std::string::npos);
}

/// A verifier reports its error first; that it is a bug is reported later.
TEST(DiagnosticsTest, ALaterInternalErrorSetsTheExitCodeOfTheFirstError) {
  MLIRContext context;
  DiagnosticCollector collector(&context);
  emitError(UnknownLoc::get(&context)) << "'binade.add' op has no operands";
  emitInternalError(UnknownLoc::get(&context)) << "a pass left it so";
  emitError(UnknownLoc::get(&context)) << "gives up";
  Error error = collector.takeError("file", "nothing");
  EXPECT_EQ(error.exitCode, ExitCode::Internal);
  EXPECT_EQ(error.message, "'binade.add' op has no operands");
}
