//===- RunDirectory.h - The directory of a training run ---------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H
#define BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H

#include "binade/Container/Descriptor.h"
#include "binade/Runtime/Checkpoint.h"
#include "binade/Runtime/Program.h"
#include <set>

namespace binade {

/// The file with the state after the last step of a run.
inline constexpr std::string_view kFinal = "final.safetensors";
/// The file with the state whose held-out loss is the lowest of a run.
inline constexpr std::string_view kBest = "best.safetensors";

/// The directory of a run, locked against other processes while this object
/// exists. The system releases the lock when the process ends or is killed.
class RunDirectory {
public:
  /// Creates the directory if it does not exist, removes temporary files of
  /// killed processes, and restores a run that one of them was about to
  /// replace. Fails with exit code 8 if another process uses it.
  static Result<RunDirectory> open(const std::string &path);

  /// Whether another process uses the directory.
  static bool isInUse(const std::string &path);

  std::string getPath(std::string_view name) const {
    return path + "/" + std::string(name);
  }

  /// Restores the state of the newest complete checkpoint into `program`, and
  /// returns its manifest; nothing if there is none. Warns about damaged
  /// checkpoints. A checkpoint of another run is an error with a table of the
  /// entries of `Manifest::run` in which it differs from `current`.
  Result<std::optional<Manifest>>
  restore(Program &program, const Manifest &current, const Notify &warn) const;

  /// The checkpoints to keep: the `newest` newest ones and those of `steps`.
  struct Kept {
    std::int64_t newest = 1;
    std::set<std::int64_t> steps;
  };
  /// Writes a checkpoint with the state of `program`, then removes those up to
  /// its step that are not `kept`. Only warns if a removal fails.
  Result<void> save(const Program &program, Manifest manifest, const Kept &kept,
                    const Notify &warn) const;
  /// Copies the state of the checkpoint of `step` to `kBest`. Returns false if
  /// there is no such checkpoint.
  Result<bool> copyBest(std::int64_t step) const;

private:
  RunDirectory(std::string path, Descriptor lock)
      : path(std::move(path)), lock(std::move(lock)) {}
  void removeTemporaries() const;
  Result<void> write(const Program &program, Manifest manifest) const;
  void prune(std::int64_t step, const Kept &kept, const Notify &warn) const;

  std::string path;
  Descriptor lock;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H
