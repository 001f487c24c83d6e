//===- OptionGroups.cpp - Groups of options in help -----------------------===//
// The only list of options by purpose. An option that is missing here is listed
// last, among "Other options".
//===----------------------------------------------------------------------===//

#include "OptionText.h"
#include "binade/CommandLine/HelpText.h"
#include <CLI/CLI.hpp>
#include <algorithm>

using namespace binade;

namespace {
struct Group {
  std::string_view title;
  std::vector<const char *> options;
};
} // namespace

/// Commands with fewer options list them without groups.
static constexpr std::size_t kMinOptions = 20;

static const std::vector<Group> &getGroups() {
  static const std::vector<Group> groups = {
      {"Model",
       {"--dim", "--loss", "--loss-output", "--train", "--also-train",
        "--freeze", "--fold", "--init", "--init-partial", "--init-seed",
        "--optimizer-model", "--allow-links", "--fail-on-nonfinite",
        "--stable-embedding"}},
      {"Data",
       {"--data", "--window", "--stride", "--const", "--batch", "--order",
        "--inject"}},
      {"Precision",
       {"--policy", "--ranges", "--record", "--states", "--activation-memory",
        "--recompute-matmuls", "--strict"}},
      {"Optimization",
       {"--optimizer", "--lr", "--set", "--group", "--decay", "--schedule",
        "--warmup", "--clip", "--accumulate", "--accumulate-in-momentum",
        "--release-gradients", "--exchange"}},
      {"Run",
       {"--steps", "--epochs", "--seed", "--out", "--overwrite", "--resume",
        "--save-every", "--keep", "--max-seconds", "--stop-after"}},
      {"Evaluation",
       {"--eval-data", "--eval-fraction", "--eval-every", "--metric",
        "--patience", "--min-delta", "--keep-best"}},
      {"Monitoring",
       {"--stats", "--alarms", "--on-alarm", "--on-nonfinite", "--max-skipped",
        "--save-grads", "--save-inputs", "--profile"}},
      {"Device", {"--target", "--device", "--list-devices", "--threads"}},
  };
  return groups;
}

std::size_t binade::rankGroup(std::string_view title) {
  const std::vector<Group> &groups = getGroups();
  return std::ranges::find(groups, title, &Group::title) - groups.begin();
}

void binade::groupOptions(CLI::App &app) {
  for (CLI::App *command : app.get_subcommands(nullptr))
    groupOptions(*command);
  if (app.get_options(nullptr).size() < kMinOptions)
    return;
  for (const Group &group : getGroups())
    for (const char *name : group.options)
      if (CLI::Option *option = app.get_option_no_throw(name))
        option->group(std::string(group.title));
}
