//===- ErrorTest.cpp - Diagnostics and results ----------------------------===//

#include "binade/Container/Error.h"
#include "nlohmann/json.hpp"
#include "gtest/gtest.h"
#include <cerrno>
#include <memory>

using namespace binade;

TEST(Error, TextNamesFilePartAndNotes) {
  Error error{"m.onnx", "found 3, expected 4"};
  EXPECT_EQ(render(error), "m.onnx: error: found 3, expected 4");
  error = std::move(error)
              .withPart("tensor 'w'")
              .withPart("byte 7")
              .withNote("limit 4");
  EXPECT_EQ(render(error), "m.onnx:tensor 'w': error: found 3, expected 4\n"
                           "m.onnx:tensor 'w': note: limit 4");
  EXPECT_EQ(render({"", "no file"}, DiagnosticFormat::Text, Severity::Warning),
            "warning: no file");
}

TEST(Error, JsonIsOneRecordInOneLine) {
  Error error{"m.onnx", "bad \"x\"\n\xff", ExitCode::IO, "node 'n'", {"try y"}};
  std::string line = render(error, DiagnosticFormat::Json);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto record = nlohmann::json::parse(line);
  EXPECT_EQ(record["severity"], "error");
  EXPECT_EQ(record["file"], "m.onnx");
  EXPECT_EQ(record["part"], "node 'n'");
  EXPECT_EQ(record["message"], "bad \"x\"\n\ufffd");
  EXPECT_EQ(record["notes"], nlohmann::json::array({"try y"}));
  EXPECT_EQ(record["exit_code"], 5);
  auto warning = nlohmann::json::parse(
      render(error, DiagnosticFormat::Json, Severity::Warning));
  EXPECT_EQ(warning["severity"], "warning");
  EXPECT_FALSE(warning.contains("exit_code"));
}

TEST(Error, ErrorsNameTheReferringFileFirst) {
  Error error{"w.bin", "too short", ExitCode::IO, "byte 7", {"note"}};
  error = std::move(error).seenFrom("m.onnx", "tensor 'w'");
  EXPECT_EQ(render(error), "m.onnx:tensor 'w': error: w.bin:byte 7: too short\n"
                           "m.onnx:tensor 'w': note: note");
  EXPECT_EQ(error.exitCode, ExitCode::IO);
}

TEST(Error, ErrnoDeterminesTheExitCode) {
  Error error = systemError("a/b", "cannot open", ENOENT);
  EXPECT_EQ(render(error),
            "a/b: error: cannot open: No such file or directory");
  EXPECT_EQ(error.exitCode, ExitCode::Rejected);
  EXPECT_EQ(systemError("", "", EACCES).exitCode, ExitCode::IO);
  EXPECT_EQ(systemError("", "", ENOSPC).exitCode, ExitCode::IO);
  EXPECT_EQ(systemError("", "", EMFILE).exitCode, ExitCode::Resources);
  EXPECT_EQ(systemError("", "", ENOMEM).exitCode, ExitCode::Resources);
}

TEST(Result, HoldsAValueOrAnError) {
  auto half = [](int x) -> Result<std::unique_ptr<int>> {
    if (x % 2)
      return Error{"x", "odd"};
    return std::make_unique<int>(x / 2);
  };
  Result<std::unique_ptr<int>> good = half(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(**good, 2);
  Result<std::unique_ptr<int>> bad = half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "odd");
  EXPECT_EQ(bad.takeError().exitCode, ExitCode::Rejected);
  EXPECT_THROW((void)*bad, std::bad_variant_access);
  Result<void> nothing;
  EXPECT_TRUE(nothing);
  nothing = Error{"x", "late"};
  EXPECT_FALSE(nothing);
  EXPECT_EQ(nothing.error().message, "late");
}
