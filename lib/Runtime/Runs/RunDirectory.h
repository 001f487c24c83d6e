//===- RunDirectory.h - Where a run leaves its files ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H
#define BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H

#include "binade/Container/Descriptor.h"
#include "binade/Runtime/Checkpoint.h"
#include "binade/Runtime/Program.h"

namespace binade {

/// The directory of a run. While the object lives no other process can open
/// it: the system forgets the lock with the process, however that ends.
class RunDirectory {
public:
  /// Makes the directory when it is not there, and removes what a process that
  /// was killed left half-written. In use by another: exit code 8.
  static Result<RunDirectory> open(const std::string &path);

  std::string getPath(std::string_view name) const {
    return path + "/" + std::string(name);
  }

  /// Whether there are checkpoints, whole or not.
  Result<bool> hasCheckpoints() const;

  /// Gives `program` the state of the newest whole checkpoint and says which
  /// that is; nothing if there is none. Those that are damaged are named by
  /// `warn`. Refused is one of another run: with a table of what its manifest
  /// and `current` say of `Manifest::run`.
  Result<std::optional<Manifest>>
  restore(Program &program, const Manifest &current, const Notify &warn) const;

  /// Which checkpoints stay: so many of the newest, and that of one step.
  struct Kept {
    std::int64_t newest = 1, step = 0;
  };
  /// Writes a checkpoint with the state of `program`, then removes those up to
  /// its step that are not `kept`. What goes wrong after it is on disk is for
  /// `warn` alone.
  Result<void> save(const Program &program, Manifest manifest, Kept kept,
                    const Notify &warn) const;

private:
  RunDirectory(std::string path, Descriptor lock)
      : path(std::move(path)), lock(std::move(lock)) {}
  void removeTemporaries() const;
  Result<void> write(const Program &program, Manifest manifest) const;
  void prune(std::int64_t step, Kept kept, const Notify &warn) const;

  std::string path;
  Descriptor lock;
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_RUNDIRECTORY_H
