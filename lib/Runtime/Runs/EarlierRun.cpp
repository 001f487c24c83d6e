//===- EarlierRun.cpp - A run that is already in a directory --------------===//

#include "EarlierRun.h"
#include "RunDirectory.h"
#include "binade/Container/AtomicDirectory.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/Checkpoint.h"
#include "binade/Runtime/Training.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace binade;
namespace fs = std::filesystem;

static constexpr std::string_view kMetrics = "metrics.jsonl",
                                  kCheckpoints = "checkpoints";

/// Whether a training run writes a file or directory with this name.
static bool isOfRun(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "run.json",     "run.yaml", kMetrics, "stats.jsonl",
      "alarms.jsonl", kFinal,     kBest,    kCheckpoints};
  bool isEvents =
      name.starts_with("events.out.tfevents.") && name.ends_with(".binade");
  bool isGradients =
      name.starts_with("grads-") && name.ends_with(".safetensors");
  return isEvents || isGradients || std::ranges::count(kNames, name) > 0;
}

/// Returns the number of complete lines of a file.
static std::int64_t countLines(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

static std::string count(std::size_t number, const std::string &what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

Result<EarlierRun> EarlierRun::find(const std::string &directory) {
  EarlierRun found(directory);
  std::error_code absent;
  std::size_t gradients = 0;
  for (const auto &entry : fs::directory_iterator(directory, absent)) {
    std::string name = entry.path().filename();
    if (!isOfRun(name))
      continue;
    found.names.push_back(name);
    gradients += name.starts_with("grads-");
  }
  std::ranges::sort(found.names);
  auto contains = [&](std::string_view name) {
    return std::ranges::count(found.names, name) > 0;
  };
  std::error_code ignored;
  std::string metrics = directory + "/" + std::string(kMetrics);
  if (contains(kMetrics) && fs::is_regular_file(metrics, ignored))
    if (std::int64_t lines = countLines(metrics))
      found.results.push_back(count(static_cast<std::size_t>(lines), "line") +
                              " of metrics.jsonl");
  auto checkpoints = listCheckpoints(directory);
  if (!checkpoints)
    return checkpoints.takeError();
  found.hasCheckpoints = !checkpoints->empty();
  if (found.hasCheckpoints)
    found.results.push_back(count(checkpoints->size(), "checkpoint"));
  if (fs::is_regular_file(directory + "/" + std::string(kFinal), ignored))
    found.results.emplace_back(kFinal);
  if (gradients > 0)
    found.results.push_back("gradients of " + count(gradients, "step"));
  return found;
}

bool EarlierRun::hasFinalState() const {
  return std::ranges::count(results, kFinal) > 0;
}

std::string EarlierRun::describe() const {
  std::string text;
  for (const std::string &result : results)
    text += (text.empty() ? "" : ", ") + result;
  return text;
}

Error EarlierRun::refuse(bool isResumable) const {
  std::string name = printable(directory);
  std::string resume = "--resume " + name + " instead of --out ";
  if (isResumable && hasCheckpoints)
    resume += "continues that run";
  else if (!hasFinalState())
    resume += "starts that run again, because it saved no checkpoint";
  else
    resume = "--resume cannot continue that run, because it has no complete "
             "checkpoint; --init " +
             name + "/" + std::string(kFinal) +
             " with another --out starts from its state";
  return Error{name, "contains a run: " + describe()}
      .withNote(std::move(resume))
      .withNote("--out " + name +
                " --overwrite removes that run and starts a new one; another "
                "--out keeps it");
}

Result<void> EarlierRun::checkInputs(
    const std::map<std::string, std::string> &inputs) const {
  std::error_code unknown;
  fs::path own = fs::weakly_canonical(directory, unknown);
  for (const auto &[purpose, path] : inputs) {
    fs::path inside =
        fs::weakly_canonical(path, unknown).lexically_relative(own);
    if (!inside.empty() &&
        std::ranges::count(names, inside.begin()->string()) > 0)
      return Error{printable(path),
                   "the new run reads this file of the run that --overwrite "
                   "removes",
                   ExitCode::Usage}
          .withNote("copy it to another directory, or choose another --out");
  }
  return {};
}

Result<void> EarlierRun::moveAside() {
  if (names.empty())
    return {};
  std::string aside = directory + "/" + std::string(kAsideName);
  if (Result<void> made = makeDirectory(aside); !made)
    return made;
  isAside = true;
  for (const std::string &name : names)
    if (std::rename((directory + "/" + name).c_str(),
                    (aside + "/" + name).c_str()) != 0)
      return systemError(printable(directory + "/" + name), "cannot move",
                         errno);
  return {};
}

Result<void> EarlierRun::remove() {
  if (!isAside)
    return {};
  std::string aside = directory + "/" + std::string(kAsideName);
  Result<void> removed = removeDirectory(aside);
  // If only some of the files were removed, they have a temporary name.
  std::error_code unknown;
  isAside = fs::exists(aside, unknown);
  return removed;
}

void EarlierRun::restore(const std::string &directory) {
  fs::path aside = fs::path(directory) / kAsideName;
  std::error_code ignored;
  std::vector<fs::path> moved;
  for (const auto &entry : fs::directory_iterator(aside, ignored))
    moved.push_back(entry.path());
  for (const fs::path &path : moved)
    fs::rename(path, fs::path(directory) / path.filename(), ignored);
  fs::remove(aside, ignored); // Only if it is empty.
}

bool EarlierRun::isFinalOnly() const {
  return hasFinalState() && !hasCheckpoints;
}

Result<void> binade::checkForEarlierRun(const TrainOptions &options) {
  // `train` restores the files of a killed process before it checks.
  std::error_code unknown;
  if (options.overwrite || RunDirectory::isInUse(options.out) ||
      fs::exists(fs::path(options.out) / kAsideName, unknown))
    return {};
  Result<EarlierRun> found = EarlierRun::find(options.out);
  if (!found)
    return found.takeError();
  bool isLost = options.resume ? found->isFinalOnly() : found->hasResults();
  return isLost ? Result<void>(found->refuse(!options.resume)) : Result<void>();
}
