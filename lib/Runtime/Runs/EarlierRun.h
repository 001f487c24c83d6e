//===- EarlierRun.h - A run that is already in a directory ------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_EARLIERRUN_H
#define BINADE_LIB_RUNTIME_RUNS_EARLIERRUN_H

#include "binade/Container/Error.h"
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace binade {

/// The files that an earlier run wrote to a directory. They can be moved aside
/// until another run has started there, and are moved back if it fails.
class EarlierRun {
public:
  /// Finds the files in `directory`, which may not exist.
  static Result<EarlierRun> find(const std::string &directory);

  /// Whether there is something that training again would destroy: steps in
  /// metrics.jsonl, a final state, a checkpoint or gradients.
  bool hasResults() const { return !results.empty(); }
  /// Whether there is a final state, but no checkpoint to resume from.
  bool isFinalOnly() const;
  bool hasFinalState() const;
  /// Returns the results, such as `20 lines of metrics.jsonl, 1 checkpoint`.
  std::string describe() const;
  /// Returns an error that names the results and how to keep or replace them.
  /// `isResumable` is false if no checkpoint was complete.
  Error refuse(bool isResumable) const;
  /// Returns an error if one of `inputs` is a file of this run.
  Result<void>
  checkInputs(const std::map<std::string, std::string> &inputs) const;

  /// Moves all files of the run to a directory inside of its own.
  Result<void> moveAside();
  /// Removes the files that were moved aside. After an error, `canRestore` says
  /// whether they are all there.
  Result<void> remove();
  bool canRestore() const { return isAside; }
  /// Moves files back that were moved aside in `directory`, by this process or
  /// by one that was killed. Ignores errors.
  static void restore(const std::string &directory);

  EarlierRun(EarlierRun &&other) noexcept
      : directory(std::move(other.directory)), names(std::move(other.names)),
        results(std::move(other.results)), hasCheckpoints(other.hasCheckpoints),
        isAside(std::exchange(other.isAside, false)) {}
  EarlierRun &operator=(EarlierRun &&) = delete;
  ~EarlierRun() {
    if (isAside)
      restore(directory);
  }

private:
  explicit EarlierRun(std::string directory)
      : directory(std::move(directory)) {}

  std::string directory;
  std::vector<std::string> names;   ///< Of files and directories of the run.
  std::vector<std::string> results; ///< What they contain, for messages.
  bool hasCheckpoints = false;
  bool isAside = false;
};

/// The directory that `EarlierRun::moveAside` creates.
inline constexpr std::string_view kAsideName = "replaced-run";

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_EARLIERRUN_H
