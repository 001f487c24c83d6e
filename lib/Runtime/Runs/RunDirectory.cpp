//===- RunDirectory.cpp - Where a run leaves its files --------------------===//

#include "RunDirectory.h"
#include "binade/Container/AtomicDirectory.h"
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

/// Who holds it, as it wrote there.
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
        .withNote("two runs need two directories");
  }
  char host[128] = "";
  (void)::gethostname(host, sizeof(host) - 1);
  std::string owner =
      "process " + std::to_string(::getpid()) + " on " + std::string(host);
  // For people only: a full disk is noticed where it matters.
  if (::ftruncate(lock.get(), 0) == 0)
    (void)!::pwrite(lock.get(), owner.data(), owner.size(), 0);
  return lock;
}

Result<RunDirectory> RunDirectory::open(const std::string &path) {
  std::error_code failure;
  if (fs::exists(path + "/" + kManifestName.data(), failure))
    return Error{printable(path),
                 "is a checkpoint, not the directory of a run"};
  fs::create_directories(path, failure);
  if (failure)
    return systemError(printable(path), "cannot make the directory",
                       failure.value());
  Result<Descriptor> lock = takeLock(path);
  if (!lock)
    return lock.takeError();
  RunDirectory directory(path, *std::move(lock));
  directory.removeTemporaries();
  return directory;
}

/// Where the lock is held they have no owner. What cannot be removed is no
/// reason not to train.
void RunDirectory::removeTemporaries() const {
  for (const std::string &folder : {path, getCheckpointFolder(path)}) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder, ignored)) {
      std::string name = entry.path().filename();
      if (isTemporaryName(name) &&
          std::ranges::any_of(
              std::array{"step-", "checkpoints.", "final.safetensors.",
                         "run.json.", "grads-"},
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

Result<bool> RunDirectory::hasCheckpoints() const {
  auto found = listCheckpoints(path);
  if (!found)
    return found.takeError();
  return !found->empty();
}

using Properties = std::map<std::string, std::string>;

/// What a reader tells apart; hashes are long.
static std::string abbreviate(const std::string &value) {
  constexpr std::size_t kHash = 64, kEnough = 12;
  return value.size() == kHash ? value.substr(0, kEnough) : printable(value);
}

/// Key, what the checkpoint says and what this command says, where that
/// differs.
static std::vector<std::array<std::string, 3>>
compare(const Properties &kept, const Properties &current) {
  std::vector<std::array<std::string, 3>> rows;
  Properties keys = kept;
  keys.insert(current.begin(), current.end());
  for (const auto &[key, ignored] : keys) {
    auto was = kept.find(key), is = current.find(key);
    if (was != kept.end() && is != current.end() && was->second == is->second)
      continue;
    rows.push_back({printable(key),
                    was == kept.end() ? "none" : abbreviate(was->second),
                    is == current.end() ? "none" : abbreviate(is->second)});
  }
  return rows;
}

/// One line per row, in columns.
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

/// An error for a checkpoint of another run.
static std::optional<Error> refuse(const std::string &checkpoint,
                                   const Manifest &kept,
                                   const Manifest &current) {
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
  // Another program may compute the same otherwise.
  for (auto &row : compare(kept.machine, current.machine))
    if (row[0] == "binade" && kept.formatVersion == current.formatVersion)
      rows.push_back(std::move(row));
  Error error{printable(checkpoint), "belongs to another run"};
  error.notes = tabulate(std::move(rows));
  if (isConvertible)
    error = std::move(error).withNote(
        "another policy, or another format of states: 'binade ckpt convert " +
        printable(checkpoint) +
        " --to STEP.bnd -o RUN' takes the run to the bundle of another step");
  return std::move(error).withNote(
      "--init " + printable(checkpoint) + "/" + kStateShard.data() +
      " with another --out starts a new run from its state");
}

/// Gives `program` all of its state. The hashes are right: what goes wrong here
/// is no damage.
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
                 "has " + std::to_string(restored) + " of the " +
                     std::to_string(needed) + " tensors of the state"};
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
             " is damaged and left out: " + shards.error().where + ": " +
             shards.error().message);
      continue;
    }
    if (Result<void> done = readState(program, checkpoint, *shards); !done)
      return done.takeError();
    if (warn)
      for (const auto &[key, was, is] :
           compare(manifest->machine, current.machine))
        warn(key + " was " + was + " and is " + is +
             ": the last bits of numbers may differ from an unbroken run's");
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
                                Kept kept, const Notify &warn) const {
  std::int64_t step = manifest.step;
  if (Result<void> written = write(program, std::move(manifest)); !written) {
    Error error = written.takeError();
    error.exitCode = std::max<int>(error.exitCode, ExitCode::IO);
    return std::move(error).withNote("the checkpoint of step " +
                                     std::to_string(step) +
                                     " was not saved; those before it are as "
                                     "they were");
  }
  prune(step, kept, warn);
  return {};
}

/// Checkpoints of later steps are those that were damaged when the run was
/// taken up before them: each is replaced when its step comes.
void RunDirectory::prune(std::int64_t step, Kept kept,
                         const Notify &warn) const {
  auto found = listCheckpoints(path);
  if (!found)
    return;
  found->erase(found->upper_bound(step), found->end());
  auto surplus = static_cast<std::int64_t>(found->size()) - kept.newest;
  for (const auto &[number, checkpoint] : *found) {
    if (surplus-- <= 0)
      break;
    if (number == kept.step)
      continue;
    Result<void> removed = removeDirectory(checkpoint);
    if (!removed && warn)
      warn(removed.error().where + ": " + removed.error().message);
  }
}
