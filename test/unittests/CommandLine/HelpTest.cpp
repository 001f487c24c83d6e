//===- HelpTest.cpp - Help of commands ------------------------------------===//

#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Definition.h"
#include "binade/CommandLine/HelpText.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>
#include <sstream>

using namespace binade;

namespace {

/// A program with one command that has an option of each kind.
class Help : public testing::Test {
protected:
  Help() {
    setHelpFormat(app);
    addDefinition(app);
    command = addCommand(app, "train", "Train a model. Or something else");
    command->add_option("model", text, "The model")
        ->required()
        ->type_name("MODEL");
    command->add_option("-o,--output", text, "File to write")
        ->required()
        ->type_name("FILE");
    command->add_option("--order", text, "Order of samples")
        ->check(oneOf({"shuffle", "sequential"}))
        ->default_str("shuffle");
    command->add_option("--set", texts, std::string(200, 'a') + " " + "b c")
        ->allow_extra_args(false);
    command->add_flag("--quiet", isQuiet, "Print less");
  }

  CLI::App app{"A program", "binade"};
  CLI::App *command;
  std::string text;
  std::vector<std::string> texts;
  bool isQuiet = false;
};

TEST_F(Help, OptionsAreDescribedWithTheirValues) {
  std::string help = command->help("binade");
  EXPECT_EQ(help.substr(0, help.find("Options:")),
            "Train a model. Or something else\n\n"
            "Usage: binade train [OPTIONS] MODEL\n\n"
            "Arguments:\n"
            "  MODEL                   The model\n\n");
  for (const char *line :
       {"\n  -o, --output FILE       File to write (required)\n",
        "\n  --order shuffle|sequential\n"
        "                          Order of samples (default: shuffle)\n",
        "b c (repeatable)\n", "\n  --quiet                 Print less\n",
        "\n  -h, --help "})
    EXPECT_NE(help.find(line), std::string::npos) << line << help;
}

TEST_F(Help, CommandsAreListedByTheirFirstSentence) {
  EXPECT_NE(app.help().find("\nCommands:\n  train       Train a model\n"),
            std::string::npos)
      << app.help();
}

TEST_F(Help, ManyOptionsAreGrouped) {
  groupOptions(app);
  EXPECT_EQ(command->help("binade").find("\nData:"), std::string::npos);
  for (int i = 0; i < 30; ++i)
    command->add_option("--x" + std::to_string(i), texts, "An option");
  command->add_option("--data", text, "The data");
  groupOptions(app);
  std::string help = command->help("binade");
  std::size_t data = help.find("\nData:\n"),
              others = help.find("\nOther options:\n");
  EXPECT_LT(data, others) << help;
  EXPECT_LT(others, help.find("  --x0 ")) << help;
}

TEST_F(Help, LinesHaveAtMost80Characters) {
  std::ostringstream out;
  printEntry(out, "--a-long-name WITH-A-VALUE", "one two", 10);
  printEntry(out, "x", "twelve words " + std::string(60, 'y') + " after it",
             10);
  printExitCodes(out);
  EXPECT_EQ(out.str().find("  --a-long-name WITH-A-VALUE\n          one two\n"),
            0u)
      << out.str();
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(out.str().find("\n  2        the command line is invalid"),
            std::string::npos)
      << out.str();
}

TEST_F(Help, TheDefinitionIsJson) {
  testing::internal::CaptureStdout();
  EXPECT_THROW(app.parse("--print-definition"), CLI::Success);
  auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["name"], "binade");
  EXPECT_TRUE(json["options"].empty());
  const auto &train = json["commands"].at(0);
  EXPECT_EQ(train["name"], "train");
  EXPECT_EQ(train["arguments"].at(0)["value"], "MODEL");
  const auto &options = train["options"];
  EXPECT_EQ(options.size(), 4u);
  EXPECT_EQ(options.at(0)["names"],
            (std::vector<std::string>{"-o", "--output"}));
  EXPECT_EQ(options.at(1)["choices"],
            (std::vector<std::string>{"shuffle", "sequential"}));
  EXPECT_EQ(options.at(1)["default"], "shuffle");
  EXPECT_TRUE(options.at(2)["repeats"]);
  EXPECT_EQ(options.at(3)["value"], "");
}

} // namespace
