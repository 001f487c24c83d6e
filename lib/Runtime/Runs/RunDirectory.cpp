//===- RunDirectory.cpp - The directory of a training run -----------------===//

#include "RunDirectory.h"
#include "EarlierRun.h"
#include "RunIdentity.h"
#include "binade/Container/AtomicDirectory.h"
#include "binade/Container/AtomicFile.h"
#include "binade/Container/Sha256.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/file.h>
#include <vector>

using namespace binade;
namespace fs = std::filesystem;

static constexpr std::string_view kStateShard = "state.safetensors";

//===----------------------------------------------------------------------===//
// The lock
//===----------------------------------------------------------------------===//

/// Returns the owner that is written in the lock file.
static std::string readOwner(int descriptor) {
  char text[256];
  ssize_t count = ::pread(descriptor, text, sizeof(text), 0);
  return count > 0 ? printable({text, static_cast<std::size_t>(count)})
                   : "another process";
}

static Result<Descriptor> takeLock(const std::string &directory) {
  std::string path = directory + "/lock";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock)
    return systemError(printable(path), "cannot create", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return systemError(printable(path), "cannot lock", errno);
    return Error{printable(directory), "in use by " + readOwner(lock.get()),
                 ExitCode::Lock}
        .withNote("use another directory for another run");
  }
  char host[128] = "";
  (void)::gethostname(host, sizeof(host) - 1);
  std::string owner =
      "process " + std::to_string(::getpid()) + " on " + std::string(host);
  // Only used in messages, so errors such as a full disk are ignored.
  if (::ftruncate(lock.get(), 0) == 0)
    (void)!::pwrite(lock.get(), owner.data(), owner.size(), 0);
  return lock;
}

bool RunDirectory::isInUse(const std::string &path) {
  Descriptor lock(::open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

Result<RunDirectory> RunDirectory::open(const std::string &path) {
  std::error_code failure;
  if (fs::exists(path + "/" + kManifestName.data(), failure))
    return Error{printable(path), "is a checkpoint, expected a run directory"};
  fs::create_directories(path, failure);
  if (failure)
    return systemError(printable(path), "cannot create the directory",
                       failure.value());
  Result<Descriptor> lock = takeLock(path);
  if (!lock)
    return lock.takeError();
  RunDirectory directory(path, *std::move(lock));
  EarlierRun::restore(path);
  directory.removeTemporaries();
  return directory;
}

/// Removes temporary files of killed processes; no other process can be writing
/// them while the lock is held. Ignores errors.
void RunDirectory::removeTemporaries() const {
  for (const std::string &folder : {path, getCheckpointFolder(path)}) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder, ignored)) {
      std::string name = entry.path().filename();
      if (isTemporaryName(name) &&
          std::ranges::any_of(
              std::array{"step-", "checkpoints.", "final.safetensors.",
                         "best.safetensors.", "run.json.", "run.yaml.",
                         "grads-", "replaced-run."},
              [&](const char *start) { return name.starts_with(start); }))
        found.push_back(entry.path());
    }
    for (const fs::path &temporary : found)
      fs::remove_all(temporary, ignored);
  }
}

//===----------------------------------------------------------------------===//
// Restoring
//===----------------------------------------------------------------------===//

using Properties = std::map<std::string, std::string>;

/// Shortens hashes to a length that still distinguishes them.
static std::string abbreviate(const std::string &value) {
  constexpr std::size_t kHash = 64, kEnough = 12;
  return value.size() == kHash ? value.substr(0, kEnough) : printable(value);
}

/// Returns a row for each property that differs: its key, its value in the
/// checkpoint, and its value in this command.
static std::vector<std::array<std::string, 3>>
compare(const Properties &kept, const Properties &current) {
  std::vector<std::array<std::string, 3>> rows;
  Properties keys = kept;
  keys.insert(current.begin(), current.end());
  for (const auto &[key, ignored] : keys) {
    auto was = kept.find(key), is = current.find(key);
    if (was != kept.end() && is != current.end() && was->second == is->second)
      continue;
    rows.push_back({describeProperty(key),
                    was == kept.end() ? "none" : abbreviate(was->second),
                    is == current.end() ? "none" : abbreviate(is->second)});
  }
  return rows;
}

/// Formats rows as lines with aligned columns, after a header.
static std::vector<std::string>
tabulate(std::vector<std::array<std::string, 3>> rows) {
  rows.insert(rows.begin(), {"", "checkpoint", "this command"});
  std::array<std::size_t, 2> width = {};
  for (const auto &row : rows)
    for (std::size_t i = 0; i < 2; ++i)
      width[i] = std::max(width[i], row[i].size() + 2);
  std::vector<std::string> lines;
  for (auto &row : rows) {
    for (std::size_t i = 0; i < 2; ++i)
      row[i].resize(width[i], ' ');
    lines.push_back(row[0] + row[1] + row[2]);
  }
  return lines;
}

/// Whether the runs differ only in the value of `steps` in their schedules.
static bool differOnlyInSteps(const Properties &kept,
                              const Properties &current) {
  auto withoutSteps = [](Properties properties) {
    for (auto &[key, value] : properties)
      if (key.starts_with("schedule "))
        value.erase(std::min(value.rfind(kWithSteps), value.size()));
    return properties;
  };
  return withoutSteps(kept) == withoutSteps(current);
}

/// Returns an error if the checkpoint belongs to another run.
static std::optional<Error> refuse(const std::string &checkpoint, Manifest kept,
                                   const Manifest &current) {
  kept.run.erase(std::string(kEvaluated));
  auto rows =
      kept.formatVersion == current.formatVersion
          ? compare(kept.run, current.run)
          : compare(
                {{"format version", std::to_string(kept.formatVersion)}},
                {{"format version", std::to_string(current.formatVersion)}});
  if (rows.empty())
    return std::nullopt;
  const std::set<std::string> ofProgram = {"computation", "policy",
                                           "policy hash"};
  bool isConvertible = std::ranges::all_of(
      rows, [&](const auto &row) { return ofProgram.contains(row[0]); });
  // Another version of Binade may be the reason for the difference.
  for (auto &row : compare(kept.machine, current.machine))
    if (row[0] == "binade" && kept.formatVersion == current.formatVersion)
      rows.push_back(std::move(row));
  bool isLonger = kept.formatVersion == current.formatVersion &&
                  differOnlyInSteps(kept.run, current.run);
  Error error{printable(checkpoint),
              isLonger ? "the schedule depends on --steps (or --epochs), which "
                         "has changed"
                       : "belongs to another run"};
  error.notes = tabulate(std::move(rows));
  if (isLonger)
    error = std::move(error).withNote(
        "the number of steps of the checkpoint resumes the run; a schedule "
        "that contains neither 'steps' nor percentages allows others");
  if (isConvertible)
    error = std::move(error).withNote(
        "the policy or the format of states differs: 'binade ckpt convert " +
        printable(checkpoint) +
        " --to STEP.bnd -o RUN' converts the checkpoint for another bundle");
  return std::move(error).withNote(
      "--init " + printable(checkpoint) + "/" + kStateShard.data() +
      " with another --out starts a new run from its state");
}

/// Restores all training state of `program`. The hashes of `shards` have been
/// checked, so an error here does not mean that the checkpoint is damaged.
static Result<void> readState(Program &program, const std::string &checkpoint,
                              const std::vector<Safetensors> &shards) {
  std::size_t restored = 0, needed = 0;
  for (const Safetensors &shard : shards) {
    Result<Restored> found = program.restore(shard);
    if (!found)
      return found.takeError();
    restored += found->tensors;
  }
  for (const plan::Port &port : program.getPlan().ports)
    needed += plan::isTrainingState(port.role);
  if (restored != needed)
    return Error{printable(checkpoint),
                 "has " + std::to_string(restored) + " tensors of training " +
                     "state, the program needs " + std::to_string(needed)};
  return {};
}

Result<std::optional<Manifest>>
RunDirectory::restore(Program &program, const Manifest &current,
                      const Notify &warn) const {
  auto found = listCheckpoints(path);
  if (!found)
    return found.takeError();
  for (auto entry = found->rbegin(); entry != found->rend(); ++entry) {
    const std::string &checkpoint = entry->second;
    Result<Manifest> manifest = readManifest(checkpoint);
    if (manifest)
      if (std::optional<Error> error = refuse(checkpoint, *manifest, current))
        return *std::move(error);
    auto shards = manifest
                      ? openShards(checkpoint, *manifest)
                      : Result<std::vector<Safetensors>>(manifest.takeError());
    if (!shards) {
      if (warn)
        warn("the checkpoint " + printable(checkpoint) +
             " is damaged and ignored: " + shards.error().where + ": " +
             shards.error().message);
      continue;
    }
    if (Result<void> done = readState(program, checkpoint, *shards); !done)
      return done.takeError();
    if (warn)
      for (const auto &[key, was, is] :
           compare(manifest->machine, current.machine))
        warn(key + " was " + was + " and is " + is +
             ": the last bits of results may differ from an uninterrupted run");
    return std::optional(*std::move(manifest));
  }
  return std::optional<Manifest>();
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

Result<void> RunDirectory::write(const Program &program,
                                 Manifest manifest) const {
  if (Result<void> made = makeDirectory(getCheckpointFolder(path)); !made)
    return made;
  Result<AtomicDirectory> directory = AtomicDirectory::create(
      getCheckpointFolder(path) + "/" + getCheckpointName(manifest.step));
  if (!directory)
    return directory.takeError();
  auto inside = [&](std::string_view name) {
    return directory->getTemporary() + "/" + std::string(name);
  };
  if (Result<void> saved = program.save(inside(kStateShard)); !saved)
    return saved;
  Result<ExternalFile> file = openFile(inside(kStateShard));
  if (!file)
    return file.takeError();
  Result<std::string> hash = sha256(*file, 0, file->getSize());
  if (!hash)
    return hash.takeError();
  manifest.shards = {{std::string(kStateShard), file->getSize(), *hash}};
  if (Result<void> written =
          writeTextFile(inside(kManifestName), writeManifest(manifest));
      !written)
    return written;
  return directory->commit();
}

Result<void> RunDirectory::save(const Program &program, Manifest manifest,
                                const Kept &kept, const Notify &warn) const {
  std::int64_t step = manifest.step;
  if (Result<void> written = write(program, std::move(manifest)); !written) {
    Error error = written.takeError();
    error.exitCode = std::max<int>(error.exitCode, ExitCode::IO);
    return std::move(error).withNote("the checkpoint of step " +
                                     std::to_string(step) +
                                     " was not saved; earlier ones are "
                                     "unchanged");
  }
  prune(step, kept, warn);
  return {};
}

Result<bool> RunDirectory::copyBest(std::int64_t step) const {
  std::string state = getCheckpointFolder(path) + "/" +
                      getCheckpointName(step) + "/" + kStateShard.data();
  std::error_code unknown;
  if (!fs::exists(state, unknown))
    return false;
  Result<ExternalFile> source = openFile(state);
  if (!source)
    return source.takeError();
  Result<AtomicFile> copy = AtomicFile::create(getPath(kBest));
  if (!copy)
    return copy.takeError();
  constexpr std::uint64_t kChunk = 1 << 22;
  std::vector<std::byte> chunk(std::min(kChunk, source->getSize()));
  for (std::uint64_t at = 0; at < source->getSize(); at += chunk.size()) {
    chunk.resize(std::min(kChunk, source->getSize() - at));
    if (Result<void> read = readRange(*source, at, chunk); !read)
      return read.takeError();
    if (Result<void> written = copy->write(at, chunk); !written)
      return written.takeError();
  }
  if (Result<void> done = copy->commit(); !done)
    return done.takeError();
  return true;
}

/// Keeps checkpoints of later steps: they were found damaged when the run
/// resumed from an earlier one, and are replaced when it reaches their steps.
void RunDirectory::prune(std::int64_t step, const Kept &kept,
                         const Notify &warn) const {
  auto found = listCheckpoints(path);
  if (!found)
    return;
  found->erase(found->upper_bound(step), found->end());
  auto surplus = static_cast<std::int64_t>(found->size()) - kept.newest;
  for (const auto &[number, checkpoint] : *found) {
    if (surplus-- <= 0)
      break;
    if (kept.steps.contains(number))
      continue;
    Result<void> removed = removeDirectory(checkpoint);
    if (!removed && warn)
      warn(removed.error().where + ": " + removed.error().message);
  }
}
