//===- Checkpoint.h - A run at one of its steps, on disk --------*- C++ -*-===//
// RUN/checkpoints/step-000120/ holds safetensors files with the state of
// training and `manifest.json`, which says what they are and is the last to be
// written. The directory appears under its name when all of that is on disk.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CHECKPOINT_H
#define BINADE_RUNTIME_CHECKPOINT_H

#include "binade/Container/Safetensors.h"

namespace binade {

inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr std::string_view kManifestName = "manifest.json";

/// One file of a checkpoint.
struct Shard {
  std::string file;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// What `manifest.json` says. It ends with the hash of all else that it says.
struct Manifest {
  std::int64_t formatVersion = kCheckpointVersion;
  std::int64_t step = 0;    ///< Steps done; where in the data the next begins.
  std::int64_t skipped = 0; ///< Of these.
  std::int64_t skippedInRow = 0; ///< At their end.
  /// What a run has to share with the checkpoint to continue it.
  std::map<std::string, std::string> run;
  /// What the last bits of numbers may depend on besides.
  std::map<std::string, std::string> machine;
  std::vector<Shard> shards;
};

/// Where checkpoints of the run in `directory` are.
std::string getCheckpointFolder(const std::string &directory);
/// `step-000120`
std::string getCheckpointName(std::int64_t step);

/// The paths of a run's checkpoints by their steps, whole or not.
Result<std::map<std::int64_t, std::string>>
listCheckpoints(const std::string &directory);

std::string writeManifest(const Manifest &manifest);

/// Reads the manifest of a checkpoint. Of another format version only the
/// version is read; what is damaged is an error.
Result<Manifest> readManifest(const std::string &checkpoint);

/// Opens the files of a checkpoint and compares their hashes with the
/// manifest's.
Result<std::vector<Safetensors>> openShards(const std::string &checkpoint,
                                            const Manifest &manifest);

} // namespace binade

#endif // BINADE_RUNTIME_CHECKPOINT_H
