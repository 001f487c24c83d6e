//===- TrainedState.cpp - Trained weights read from files -----------------===//

#include "binade/Runtime/TrainedState.h"
#include "ParameterStorage.h"
#include "RunDirectory.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Plan/Companion.h"
#include "binade/Runtime/Checkpoint.h"
#include <algorithm>
#include <filesystem>
#include <functional>

using namespace binade;
using namespace binade::plan;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static bool exists(const std::string &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

static bool isDirectory(const std::string &path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

static bool isCheckpoint(const std::string &path) {
  return exists(path + "/" + kManifestName.data());
}

static Result<std::vector<Safetensors>> openCheckpoint(std::string path) {
  Result<Manifest> manifest = readManifest(path);
  if (!manifest)
    return manifest.takeError();
  if (manifest->formatVersion != kCheckpointVersion)
    return Error{printable(path), "has format version " +
                                      std::to_string(manifest->formatVersion) +
                                      ", expected " +
                                      std::to_string(kCheckpointVersion)};
  return openShards(path, *manifest);
}

/// Returns the path of a checkpoint; `wanted` is its step or its path.
static Result<std::string> findCheckpoint(const std::string &run,
                                          const std::string &wanted) {
  std::optional<std::uint64_t> step = parseDecimal(wanted);
  if (!step)
    return wanted;
  auto found = listCheckpoints(run);
  if (!found)
    return found.takeError();
  if (auto it = found->find(static_cast<std::int64_t>(*step));
      it != found->end())
    return it->second;
  std::string steps;
  for (const auto &[number, path] : *found)
    steps += (steps.empty() ? "" : ", ") + std::to_string(number);
  return Error{printable(run), "has no checkpoint of step " + wanted}.withNote(
      steps.empty() ? "it has no checkpoints"
                    : "it has checkpoints of steps " + steps);
}

/// Removes slashes at the end of a path, because the last component of a
/// checkpoint's path has to be its name.
static std::string trim(std::string path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  return path;
}

Result<TrainedState> TrainedState::open(const std::string &path,
                                        const std::string &checkpoint) {
  std::string place = trim(path);
  if (!checkpoint.empty()) {
    Result<std::string> found = findCheckpoint(place, trim(checkpoint));
    if (!found)
      return found.takeError();
    place = *found;
  }
  std::vector<Safetensors> files;
  if (isCheckpoint(place)) {
    auto shards = openCheckpoint(place);
    if (!shards)
      return shards.takeError();
    files = *std::move(shards);
  } else {
    if (isDirectory(place)) {
      std::string file = place + "/" + kFinal.data();
      auto saved = listCheckpoints(place);
      if (!exists(file) && saved && !saved->empty())
        return Error{printable(place), "has no " + std::string(kFinal) +
                                           ": the run was not finished"}
            .withNote("--checkpoint " + std::to_string(saved->rbegin()->first) +
                      " reads its newest checkpoint");
      place = file;
    }
    if (fs::path(place).filename() == kBest && !exists(place))
      return Error{printable(place), "does not exist"}.withNote(
          "'binade train' writes it with --keep-best or --patience");
    Result<Safetensors> file = Safetensors::open(place);
    if (!file)
      return file.takeError();
    files.push_back(*std::move(file));
  }
  QuantizedStateMap quantized;
  for (const Safetensors &file : files) {
    Result<QuantizedStateMap> found = binade::getQuantizedStates(file);
    if (!found)
      return found.takeError();
    quantized.merge(*found);
  }
  return TrainedState(std::move(files), std::move(quantized), printable(place));
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TrainedState::Entry TrainedState::locate(std::string_view name) const {
  for (const Safetensors &file : files)
    if (const TensorInfo *info = file.find(name))
      return {&file, info};
  return {};
}

std::vector<std::string> TrainedState::getNames() const {
  std::vector<std::string> names;
  for (const Safetensors &file : files)
    for (const TensorInfo &tensor : file.getTensors())
      if (!isOfTraining(tensor.name))
        names.push_back(tensor.name);
  return names;
}

const TensorInfo *TrainedState::find(std::string_view name) const {
  return isOfTraining(name) ? nullptr : locate(name).info;
}

std::vector<std::string> TrainedState::getAllNames() const {
  std::vector<std::string> names;
  for (const Safetensors &file : files)
    for (const TensorInfo &tensor : file.getTensors())
      names.push_back(tensor.name);
  return names;
}

const TensorInfo *TrainedState::findAny(std::string_view name) const {
  return locate(name).info;
}

std::set<std::string> TrainedState::getCompanionNames() const {
  std::set<std::string> names;
  for (const Safetensors &file : files)
    for (const auto &[key, text] : file.getMetadata())
      if (key.starts_with(masterKey("")))
        names.insert(text.substr(std::min(text.find(' ') + 1, text.size())));
  return names;
}

std::optional<std::int64_t> TrainedState::getStep() const {
  Entry entry = locate(stateName(Role::Step, ""));
  std::int64_t step = 0;
  if (!entry.info || entry.info->dtype != DType::I64 ||
      entry.info->bytes != sizeof(step) ||
      !entry.file->read(*entry.info,
                        std::as_writable_bytes(std::span(&step, 1))))
    return std::nullopt;
  return step;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static Result<std::vector<std::byte>> readBytes(const Safetensors &file,
                                                const TensorInfo &info) {
  std::vector<std::byte> bytes(info.bytes);
  if (Result<void> done = file.read(info, bytes); !done)
    return done.takeError();
  return bytes;
}

Result<std::vector<float>> TrainedState::widen(std::string_view name,
                                               const Entry &parameter) const {
  Result<std::vector<std::byte>> bytes =
      readBytes(*parameter.file, *parameter.info);
  if (!bytes)
    return bytes.takeError();
  Tensor tensor{Role::Parameter, name, parameter.info->dtype,
                parameter.info->shape, *bytes};
  const SafetensorsMetadata &metadata = parameter.file->getMetadata();
  auto kept = metadata.find(masterKey(name));
  if (kept == metadata.end())
    return binade::widen(tensor);
  std::string_view text = kept->second;
  std::size_t space = std::min(text.find(' '), text.size());
  std::optional<Master> master = parseMaster(text.substr(0, space));
  Entry companion = locate(text.substr(std::min(space + 1, text.size())));
  if (!master || !companion.info ||
      companion.info->dtype != getCompanionType(*master, tensor.dtype) ||
      companion.info->shape != parameter.info->shape)
    return parameter.file->errorAt(*parameter.info,
                                   "its master weight, remainder or "
                                   "compensation is not in the file");
  Result<std::vector<std::byte>> other =
      readBytes(*companion.file, *companion.info);
  if (!other)
    return other.takeError();
  return join(tensor, *master,
              {Role::State, companion.info->name, companion.info->dtype,
               companion.info->shape, *other});
}

static bool isFloating(DType type) {
  return type == DType::F32 || isNarrow(type);
}

Result<std::vector<float>> TrainedState::readFloats(std::string_view name,
                                                    const Entry &entry) const {
  if (isNarrow(entry.info->dtype))
    return widen(name, entry);
  std::vector<float> values(entry.info->getNumElements());
  if (Result<void> done = entry.file->read(
          *entry.info, std::as_writable_bytes(std::span(values)));
      !done)
    return done.takeError();
  return values;
}

/// Returns the bytes of `values` in `dtype`, rounded to nearest even.
static std::vector<std::byte> store(std::span<const float> values,
                                    std::string_view name, DType dtype,
                                    const std::vector<std::int64_t> &shape) {
  std::vector<std::byte> bytes(values.size() * byteSize(dtype));
  Tensor result{Role::Parameter, name, dtype, shape, bytes};
  if (isNarrow(dtype))
    storeRounded(values, std::nullopt, result);
  else
    std::ranges::copy(values, result.as<float>().begin());
  return bytes;
}

Result<std::vector<std::byte>> TrainedState::read(std::string_view name,
                                                  DType dtype) const {
  Entry entry = locate(name);
  bool isKept = entry.file->getMetadata().contains(masterKey(name));
  if (entry.info->dtype == dtype && !isKept)
    return readBytes(*entry.file, *entry.info);
  if (!isFloating(dtype) || !isFloating(entry.info->dtype))
    return entry.file->errorAt(
        *entry.info, "is " + std::string(binade::name(entry.info->dtype)) +
                         ", the model has " + std::string(binade::name(dtype)));
  Result<std::vector<float>> values = readFloats(name, entry);
  if (!values)
    return values.takeError();
  return store(*values, name, dtype, entry.info->shape);
}

Result<std::vector<std::byte>>
TrainedState::readForEvaluation(std::string_view name, DType dtype) const {
  Entry entry = locate(name), offset = locate(nameOffset(name));
  if (!offset.info || !isFloating(dtype) || !isFloating(entry.info->dtype))
    return read(name, dtype);
  if (!isFloating(offset.info->dtype) ||
      offset.info->shape != entry.info->shape)
    return offset.file->errorAt(*offset.info,
                                "does not have the shape of its parameter");
  Result<std::vector<float>> values = readFloats(name, entry);
  if (!values)
    return values.takeError();
  Result<std::vector<float>> added = readFloats(offset.info->name, offset);
  if (!added)
    return added.takeError();
  std::ranges::transform(*values, *added, values->begin(), std::plus<>());
  return store(*values, name, dtype, entry.info->shape);
}
