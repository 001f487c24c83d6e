//===- UsageTest.cpp - Errors of command lines ----------------------------===//

#include "binade/CommandLine/CommandLine.h"
#include "gtest/gtest.h"

using namespace binade;

namespace {

/// Parses command lines of a program with nested commands.
class Usage : public testing::Test {
protected:
  Usage() {
    app.require_subcommand(1);
    CLI::App *train = addCommand(app, "train", "");
    train->add_option("model", model)->required();
    train->add_option("--steps", steps)->check(integer<int>(1));
    train->add_option("--rate", rate);
    auto *out = train->add_option("--out", this->out)->type_name("RUN");
    train->add_flag("--resume", resumes)->excludes(out);
    addDiagnosticFormat(*train, format);
    CLI::App *policy = addCommand(app, "policy", "");
    policy->require_subcommand(1);
    addCommand(*policy, "check", "");
  }

  /// Returns the exit code, 0 if `words` are valid; sets `error` to stderr.
  int parse(std::vector<std::string> words) {
    words.insert(words.begin(), "binade");
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    auto count = static_cast<int>(arguments.size());
    testing::internal::CaptureStderr();
    int code = 0;
    try {
      app.parse(count, arguments.data());
    } catch (const CLI::ParseError &error) {
      code = reportUsage(app, error, count, arguments.data());
    }
    this->error = testing::internal::GetCapturedStderr();
    return code;
  }

  CLI::App app{"", "binade"};
  std::string model, out, error;
  int steps = 0;
  double rate = 0;
  bool resumes = false;
  DiagnosticFormat format = DiagnosticFormat::Text;
};

TEST_F(Usage, NothingIsReportedOfAValidCommandLine) {
  EXPECT_EQ(parse({"train", "m.onnx", "--steps", "3"}), 0);
  EXPECT_EQ(error, "");
  EXPECT_EQ(model, "m.onnx");
  EXPECT_EQ(steps, 3);
}

TEST_F(Usage, AnUnknownCommandIsNamedWithASuggestion) {
  EXPECT_EQ(parse({"trian"}), ExitCode::Usage);
  EXPECT_EQ(error, "binade: error: no command of 'binade' is called 'trian'; "
                   "did you mean 'train'?\n"
                   "binade: note: see 'binade --help'\n");
}

TEST_F(Usage, AnUnknownSubcommandIsNamedWithItsCommand) {
  EXPECT_EQ(parse({"policy", "chekc"}), ExitCode::Usage);
  EXPECT_NE(error.find("'chekc'; did you mean 'check'?"), std::string::npos);
  EXPECT_NE(error.find("see 'binade policy --help'"), std::string::npos);
}

TEST_F(Usage, AMisspelledOptionPrecedesAMissingArgument) {
  EXPECT_EQ(parse({"train", "--stpes=3"}), ExitCode::Usage);
  EXPECT_EQ(error,
            "binade: error: no option is called '--stpes=3'; did you "
            "mean '--steps'?\nbinade: note: see 'binade train --help'\n");
}

TEST_F(Usage, AMissingArgumentIsNamedAsInTheHelp) {
  EXPECT_EQ(parse({"train"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: MODEL is required\n"), std::string::npos);
}

TEST_F(Usage, AMissingCommandIsNamed) {
  EXPECT_EQ(parse({}), ExitCode::Usage);
  EXPECT_EQ(error, "binade: error: expected a command\n"
                   "binade: note: see 'binade --help'\n");
}

TEST_F(Usage, ARepeatedOptionIsCounted) {
  EXPECT_EQ(parse({"train", "m", "--out", "a", "--out", "b"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: --out is given 2 times, expected once\n"),
            std::string::npos);
}

TEST_F(Usage, AMissingValueIsDescribed) {
  EXPECT_EQ(parse({"train", "m", "--out"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: --out needs a value: RUN\n"), std::string::npos);
}

TEST_F(Usage, AFlagTakesNoValue) {
  EXPECT_EQ(parse({"train", "m", "--resume=run"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: --resume takes no value\n"), std::string::npos);
}

TEST_F(Usage, OptionsThatExcludeEachOtherAreNamed) {
  EXPECT_EQ(parse({"train", "m", "--out", "a", "--resume"}), ExitCode::Usage);
  EXPECT_NE(error.find("cannot be used with --"), std::string::npos);
}

TEST_F(Usage, AnArgumentTooManyIsNamed) {
  EXPECT_EQ(parse({"train", "m.onnx", "n.onnx"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: unexpected argument 'n.onnx'\n"),
            std::string::npos);
}

TEST_F(Usage, AWrongValueIsReportedWithItsOption) {
  EXPECT_EQ(parse({"train", "m.onnx", "--steps", "0"}), ExitCode::Usage);
  EXPECT_NE(error.find("--steps: expected an integer, 1 or more, got '0'"),
            std::string::npos);
}

TEST_F(Usage, AWordInsteadOfANumberIsReportedWithItsOption) {
  EXPECT_EQ(parse({"train", "m", "--rate", "high"}), ExitCode::Usage);
  EXPECT_NE(error.find("error: --rate: expected a number, got 'high'\n"),
            std::string::npos)
      << error;
}

TEST_F(Usage, ControlCharactersAreNotPrinted) {
  EXPECT_EQ(parse({"\x1b[31mtrain"}), ExitCode::Usage);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST_F(Usage, ErrorsAreJsonIfTheCommandLineAsksForIt) {
  for (std::vector<std::string> words :
       {std::vector<std::string>{"train", "--diag=json", "--stpes"},
        std::vector<std::string>{"train", "--diag", "json", "--stpes"}}) {
    EXPECT_EQ(parse(words), ExitCode::Usage);
    EXPECT_EQ(error,
              R"({"severity":"error","file":"binade","part":"","message":"no )"
              R"(option is called '--stpes'; did you mean '--steps'?","notes":)"
              R"(["see 'binade train --help'"],"exit_code":2})"
              "\n");
  }
}

} // namespace
