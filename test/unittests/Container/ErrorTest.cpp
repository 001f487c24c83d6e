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

TEST(Error, WhatDisturbsATerminalIsEscaped) {
  EXPECT_EQ(printable("h.0.attn"), "h.0.attn");
  EXPECT_EQ(printable("größe/重み"), "größe/重み");
  EXPECT_EQ(printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(printable(std::string_view("a\0b\r\n\t\x7f", 7)),
            "a\\x00b\\x0d\\n\\t\\x7f");
  EXPECT_EQ(printable("a\\n"), "a\\\\n");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\u{202e}gnp.exe");
  EXPECT_EQ(printable("\u0085"), "\\u{85}");
  EXPECT_EQ(quoted("it's"), "'it\\'s'");
}

TEST(Error, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");          // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf"); // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\U0001f600"), "\U0001f600");
}

TEST(Error, LongNamesAreCutAtACharacter) {
  EXPECT_EQ(printable(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(printable(std::string(201, 'a')), std::string(197, 'a') + "...");
  std::string umlauts;
  for (int i = 0; i < 200; ++i)
    umlauts += "ö";
  std::string cut = printable(umlauts);
  EXPECT_EQ(cut.size(), 199u); // 98 characters of two bytes and "...".
  EXPECT_EQ(cut.substr(0, 196), umlauts.substr(0, 196));
  EXPECT_EQ(printable("\x1b\x1b", 7), "\\x1b...");
}

TEST(Error, ErrnoDecidesTheExitCode) {
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
