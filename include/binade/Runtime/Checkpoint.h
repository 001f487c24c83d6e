//===- Checkpoint.h - Checkpoints of a training run -------------*- C++ -*-===//
// RUN/checkpoints/step-000120/ contains safetensors files with the training
// state, and `manifest.json`, which lists them with their hashes and is written
// last. The directory is renamed to this name once all files are on disk.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CHECKPOINT_H
#define BINADE_RUNTIME_CHECKPOINT_H

#include "binade/Container/Safetensors.h"
#include "binade/Runtime/EvaluationHistory.h"

namespace binade {

inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr std::string_view kManifestName = "manifest.json";

/// One file of a checkpoint.
struct Shard {
  std::string file;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// The contents of `manifest.json`. The file ends with a hash of all other
/// fields.
struct Manifest {
  std::int64_t formatVersion = kCheckpointVersion;
  /// Completed steps; also determines the position in the data.
  std::int64_t step = 0;
  std::int64_t skipped = 0;      ///< How many of these steps were skipped.
  std::int64_t skippedInRow = 0; ///< Consecutive skipped steps at the end.
  EvaluationHistory evaluations;
  /// Properties that a run needs to have in common with the checkpoint to
  /// resume from it: computation, data, settings.
  std::map<std::string, std::string> run;
  /// Properties of the machine, on which the last bits of results may depend.
  std::map<std::string, std::string> machine;
  std::vector<Shard> shards;
};

/// Returns the key of a property of a run as text: `setting lr of group 1` for
/// `setting lr@1`.
std::string describeProperty(std::string_view key);

/// Returns the folder with the checkpoints of the run in `directory`.
std::string getCheckpointFolder(const std::string &directory);
/// Returns the name of a checkpoint, such as `step-000120`.
std::string getCheckpointName(std::int64_t step);

/// Returns the paths of a run's checkpoints by step, including damaged ones.
Result<std::map<std::int64_t, std::string>>
listCheckpoints(const std::string &directory);

std::string writeManifest(const Manifest &manifest);

/// Reads the manifest of a checkpoint. If it has another format version, only
/// the version is set. A damaged manifest is an error.
Result<Manifest> readManifest(const std::string &checkpoint);

/// Opens the files of a checkpoint, after comparing their sizes and hashes with
/// the manifest.
Result<std::vector<Safetensors>> openShards(const std::string &checkpoint,
                                            const Manifest &manifest);

} // namespace binade

#endif // BINADE_RUNTIME_CHECKPOINT_H
