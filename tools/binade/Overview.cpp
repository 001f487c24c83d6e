//===- Overview.cpp - The list of commands --------------------------------===//
// The only list of commands by purpose. Subcommands of the driver describe
// themselves; programs of their own are described here.
//===----------------------------------------------------------------------===//

#include "Overview.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/HelpText.h"
#include <set>
#include <sstream>

namespace {
struct Entry {
  std::string_view name;
  std::string_view summary = {}; ///< Empty for a subcommand of the driver.
};
struct Group {
  std::string_view title;
  std::vector<Entry> entries;
};
} // namespace

static const std::vector<Group> &getGroups() {
  static const std::vector<Group> groups = {
      {"Train",
       {{"train"},
        {"evaluate"},
        {"run", "Train a compiled bundle with the runtime only"},
        {"runs", "List runs, compare them and draw their loss curves"},
        {"ckpt"},
        {"data", "Write a data file from arrays, text or a PyTorch data set"},
        {"initial", "Draw initial weights by the rules in a model"}}},
      {"Choose a precision",
       {{"policy"},
        {"explain"},
        {"diff"},
        {"costs"},
        {"fit"},
        {"plan", "Predict a step on many ranks: exchanges, memory, failures"},
        {"sweep", "Train under several policies and compare them"},
        {"search", "Search for the best policy within a memory or time "
                   "budget"}}},
      {"Find what went wrong",
       {{"why-nan", "Find the first value of a step that is not finite"},
        {"bisect", "Find the decisions of a policy that break a run"},
        {"shadow", "Rank the ops of a step by the error of their formats"},
        {"replay", "Recompute a step of a run, bit by bit"},
        {"trace"},
        {"alarms"},
        {"verify"}}},
      {"ONNX",
       {{"from-torch",
         "Write a PyTorch model with its loss as an ONNX file to train"},
        {"convert"},
        {"export"}}},
      {"Compiler",
       {{"import"},
        {"compile"},
        {"inspect"},
        {"interpret", "Run a function of a module on given tensors"},
        {"opt", "Run passes on a module, as mlir-opt does"},
        {"translate", "Translate an ONNX file or a module, as mlir-translate "
                      "does"},
        {"reduce",
         "Shrink a module that reproduces a failure, as mlir-reduce does"},
        {"lsp-server", "Language server for .mlir files"}}},
      {"Other",
       {{"list"},
        {"completion", "Print completions for bash, zsh or fish"},
        {"help"}}},
  };
  return groups;
}

bool isProgram(std::string_view name) {
  for (const Group &group : getGroups())
    for (const Entry &entry : group.entries)
      if (entry.name == name)
        return !entry.summary.empty();
  return false;
}

/// Prints the help of the driver.
static std::string printOverview(const CLI::App &app) {
  constexpr std::size_t kColumn = 14;
  std::ostringstream out;
  out << app.get_description() << "\n\nUsage: binade COMMAND [OPTIONS]\n";
  std::set<std::string_view> listed;
  auto print = [&](const CLI::App &command) {
    ::binade::printEntry(out, command.get_name(),
                         ::binade::getSummary(command.get_description()),
                         kColumn);
    listed.insert(command.get_name());
  };
  for (const Group &group : getGroups()) {
    out << "\n" << group.title << ":\n";
    for (const Entry &entry : group.entries)
      print(*app.get_subcommand(std::string(entry.name)));
  }
  // The last group also has the commands that no group names.
  for (const CLI::App *command : app.get_subcommands(nullptr))
    if (!listed.contains(command->get_name()))
      print(*command);
  out << "\n" << app.get_footer() << "\n";
  return out.str();
}

void addPrograms(CLI::App &app) {
  for (const Group &group : getGroups())
    for (const Entry &entry : group.entries) {
      CLI::App *command =
          isProgram(entry.name)
              ? ::binade::addCommand(app, std::string(entry.name),
                                     std::string(entry.summary))
                    ->prefix_command()
              : app.get_subcommand(std::string(entry.name));
      command->group(std::string(group.title));
    }
  app.formatter_fn([](const CLI::App *app, std::string, CLI::AppFormatMode) {
    return printOverview(*app);
  });
}
