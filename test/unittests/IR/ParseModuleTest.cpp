//===- ParseModuleTest.cpp - Checks of text before it is parsed -----------===//

#include "binade/IR/ParseModule.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <fstream>

using namespace mlir;
using namespace mlir::binade;

namespace {
using Place = std::pair<unsigned, unsigned>;

std::string repeat(StringRef text, unsigned count) {
  std::string result;
  for (unsigned i = 0; i < count; ++i)
    result += text;
  return result;
}
} // namespace

TEST(FindDeepNesting, CountsEveryKindOfBracket) {
  for (StringRef open : {"(", "[", "{", "<", "tuple<[", "module {"}) {
    unsigned depth = open == "tuple<[" ? kMaxNesting / 2 : kMaxNesting;
    EXPECT_FALSE(findDeepNesting(repeat(open, depth))) << open.str();
    EXPECT_TRUE(findDeepNesting(repeat(open, depth + 1))) << open.str();
  }
}

TEST(FindDeepNesting, CountsLeadingMinuses) {
  EXPECT_FALSE(findDeepNesting(repeat("- ", kMaxNesting)));
  EXPECT_TRUE(findDeepNesting(repeat("- ", kMaxNesting + 1)));
  EXPECT_FALSE(findDeepNesting(repeat("-1, ", 10 * kMaxNesting)));
  EXPECT_FALSE(findDeepNesting(repeat("() -> () ", 10 * kMaxNesting)));
}

TEST(FindDeepNesting, ClosedBracketsDoNotCount) {
  EXPECT_FALSE(findDeepNesting(repeat("tensor<4x[2]f32> ({})", 1000)));
}

TEST(FindDeepNesting, ArrowsAndComparisonsAreNoBrackets) {
  EXPECT_FALSE(findDeepNesting(repeat("(d0 <= 3, d0 < 4, d0 >= 1)", 1000)));
  // They close no open bracket either.
  EXPECT_TRUE(findDeepNesting(repeat("< -> ", kMaxNesting + 1)));
  EXPECT_TRUE(findDeepNesting(repeat("( > ", kMaxNesting + 1)));
}

TEST(FindDeepNesting, IgnoresStringsAndComments) {
  EXPECT_FALSE(findDeepNesting("\"" + repeat("(", 1000) + "\""));
  EXPECT_FALSE(findDeepNesting("\"\\\"" + repeat("(", 1000) + "\""));
  EXPECT_FALSE(findDeepNesting("// " + repeat("(", 1000) + "\n"));
  EXPECT_TRUE(findDeepNesting("// \"\n" + repeat("(", 1000)));
  EXPECT_FALSE(findDeepNesting("\"unfinished"));
}

TEST(FindDeepNesting, NamesLineAndColumn) {
  std::string text = "module {\n  " + repeat("(", 1000);
  EXPECT_EQ(findDeepNesting(text), Place(2, 2 + kMaxNesting));
}

namespace {
class ParseModule : public ::testing::Test {
protected:
  ::binade::Error parseBad(StringRef text) {
    std::string path = ::testing::TempDir() + "parse-module-test.mlir";
    std::ofstream(path, std::ios::binary) << text.str();
    MLIRContext context;
    auto module = parseModuleFile(path, context);
    EXPECT_FALSE(module);
    return module ? ::binade::Error{} : module.takeError();
  }
};
} // namespace

TEST_F(ParseModule, SyntaxErrorsHaveLineAndColumn) {
  ::binade::Error error = parseBad("module {\n  func.func @f( {}\n}");
  EXPECT_EQ(error.exitCode, ::binade::ExitCode::Rejected);
  EXPECT_EQ(error.part.substr(0, 2), "2:");
  EXPECT_NE(error.where.find("parse-module-test.mlir"), std::string::npos);
}

TEST_F(ParseModule, DeepTextNeverReachesTheParser) {
  ::binade::Error error = parseBad(repeat("module{", 20'000));
  EXPECT_EQ(error.message, "nesting deeper than 256 levels");
  EXPECT_EQ(error.part, "1:1799");
}

TEST_F(ParseModule, UnknownDialectsAreErrors) {
  ::binade::Error error = parseBad("\"foreign.op\"() : () -> ()");
  EXPECT_EQ(error.part, "1:13");
  EXPECT_NE(error.message.find("unregistered dialect"), std::string::npos);
}

TEST_F(ParseModule, VerificationErrorsAreErrors) {
  ::binade::Error error = parseBad(R"mlir(
    func.func @f(%x: tensor<4xf32>) -> tensor<5xf32> {
      %y = binade.reshape %x : (tensor<4xf32>) -> tensor<5xf32>
      return %y : tensor<5xf32>
    })mlir");
  EXPECT_EQ(error.part, "3:12");
  EXPECT_TRUE(error.notes.empty());
}

TEST_F(ParseModule, OtherFilesAreRecognised) {
  ::binade::Error error = parseBad("ML\xEFR\x0D");
  EXPECT_EQ(error.message,
            "expected a textual MLIR module, this is MLIR bytecode");
}

TEST_F(ParseModule, AbsentFilesAreErrors) {
  MLIRContext context;
  auto module = parseModuleFile("/absent/module.mlir", context);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().exitCode, ::binade::ExitCode::Rejected);
}
