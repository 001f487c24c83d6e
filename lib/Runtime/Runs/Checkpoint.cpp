//===- Checkpoint.cpp - Checkpoints of a training run ---------------------===//

#include "binade/Runtime/Checkpoint.h"
#include "binade/Container/Json.h"
#include "binade/Container/Sha256.h"
#include <filesystem>

using namespace binade;
using nlohmann::json;

static constexpr std::string_view kFormat = "binade-checkpoint";
static constexpr std::uint64_t kMaxManifest = 8 << 20;

std::string binade::getCheckpointFolder(const std::string &directory) {
  return directory + "/checkpoints";
}

std::string binade::getCheckpointName(std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%06lld",
                static_cast<long long>(step));
  return name;
}

Result<std::map<std::int64_t, std::string>>
binade::listCheckpoints(const std::string &directory) {
  std::string folder = getCheckpointFolder(directory);
  std::map<std::int64_t, std::string> found;
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure), end;
  for (; !failure && entry != end; entry.increment(failure)) {
    std::string name = entry->path().filename();
    if (!name.starts_with("step-"))
      continue;
    std::optional<std::uint64_t> step =
        parseDecimal(std::string_view(name).substr(5));
    if (step && name == getCheckpointName(static_cast<std::int64_t>(*step)))
      found[static_cast<std::int64_t>(*step)] = folder + "/" + name;
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    return systemError(printable(folder), "cannot list", failure.value());
  return found;
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

/// Returns a hash that is the same for equal contents, because keys are sorted.
static std::string hashContents(const json &object) {
  return sha256(object.dump());
}

static json write(const std::optional<EvaluationHistory::Loss> &loss) {
  return loss ? json{{"loss", loss->value}, {"step", loss->step}} : json();
}

static std::optional<EvaluationHistory::Loss> parseLoss(const json &object) {
  if (object.is_null())
    return std::nullopt;
  return EvaluationHistory::Loss{object.at("loss"), object.at("step")};
}

std::string binade::writeManifest(const Manifest &manifest) {
  json object = {{"format", kFormat},
                 {"format_version", manifest.formatVersion},
                 {"step", manifest.step},
                 {"skipped", manifest.skipped},
                 {"skipped_in_row", manifest.skippedInRow},
                 {"run", manifest.run},
                 {"machine", manifest.machine},
                 {"shards", json::array()}};
  if (const EvaluationHistory &seen = manifest.evaluations;
      seen != EvaluationHistory())
    object["evaluations"] = {{"lowest", write(seen.lowest)},
                             {"improved", write(seen.improved)},
                             {"stalled", seen.stalled},
                             {"pending", seen.isPending}};
  for (const Shard &shard : manifest.shards)
    object["shards"].push_back({{"file", shard.file},
                                {"bytes", shard.bytes},
                                {"sha256", shard.sha256}});
  object["sha256"] = hashContents(object);
  return object.dump(2) + "\n";
}

/// Parses a manifest whose hash is correct. Throws if it was not written by
/// `writeManifest`.
static Manifest parseContents(const json &object) {
  Manifest manifest;
  manifest.formatVersion = object.at("format_version");
  if (manifest.formatVersion != kCheckpointVersion)
    return manifest;
  manifest.step = object.at("step");
  manifest.skipped = object.at("skipped");
  manifest.skippedInRow = object.at("skipped_in_row");
  if (auto seen = object.find("evaluations"); seen != object.end())
    manifest.evaluations = {parseLoss(seen->at("lowest")),
                            parseLoss(seen->at("improved")),
                            seen->at("stalled"), seen->at("pending")};
  manifest.run = object.at("run");
  manifest.machine = object.at("machine");
  for (const json &shard : object.at("shards"))
    manifest.shards.push_back(
        {shard.at("file"), shard.at("bytes"), shard.at("sha256")});
  return manifest;
}

Result<Manifest> binade::readManifest(const std::string &checkpoint) {
  Result<ExternalFile> file = openFile(checkpoint + "/" + kManifestName.data());
  if (!file)
    return file.takeError();
  Result<std::string> text = readText(*file, kMaxManifest);
  if (!text)
    return text.takeError();
  Result<json> parsed = parseJson(*text, file->getPath());
  if (!parsed)
    return parsed.takeError();
  auto damaged = [&](std::string message) {
    return Error{file->getPath(), std::move(message)};
  };
  json &object = *parsed;
  if (!object.is_object() || !object.contains("sha256") ||
      object.value("format", json()) != kFormat)
    return damaged("is not the manifest of a checkpoint");
  json hash = object["sha256"];
  object.erase("sha256");
  if (hash != hashContents(object))
    return damaged("was changed: its hash does not match its contents");
  try {
    Manifest manifest = parseContents(object);
    if (manifest.formatVersion == kCheckpointVersion &&
        getCheckpointName(manifest.step) !=
            std::filesystem::path(checkpoint).filename())
      return damaged("is the manifest of " + getCheckpointName(manifest.step));
    return manifest;
  } catch (const json::exception &exception) {
    return damaged("is not a valid manifest: " + printable(exception.what()));
  }
}

Result<std::vector<Safetensors>>
binade::openShards(const std::string &checkpoint, const Manifest &manifest) {
  std::vector<Safetensors> opened;
  for (const Shard &shard : manifest.shards) {
    Result<ExternalFile> file = openBeneath(checkpoint, shard.file);
    if (!file)
      return file.takeError();
    if (file->getSize() != shard.bytes)
      return Error{file->getPath(), "has " + std::to_string(file->getSize()) +
                                        " bytes, the manifest says " +
                                        std::to_string(shard.bytes)};
    Result<std::string> hash = sha256(*file, 0, shard.bytes);
    if (!hash)
      return hash.takeError();
    if (*hash != shard.sha256)
      return Error{file->getPath(), "its hash is " + *hash +
                                        ", the manifest says " +
                                        printable(shard.sha256)};
    Result<Safetensors> tensors = Safetensors::open(*std::move(file));
    if (!tensors)
      return tensors.takeError();
    opened.push_back(*std::move(tensors));
  }
  return opened;
}
