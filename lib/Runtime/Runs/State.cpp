//===- State.cpp - Training state in safetensors files --------------------===//

#include "../Execution/Describe.h"
#include "../Execution/ProgramImplementation.h"
#include "ParameterStorage.h"
#include "binade/Container/Printable.h"
#include "binade/Runtime/QuantizedState.h"
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

using namespace binade;
using namespace binade::plan;

namespace {
/// A port and the tensor of a file with its name.
struct Match {
  const Port *port;
  Tensor tensor;
  const TensorInfo *info;
  /// The whole tensor's shape, and the offset of the port's bytes in it.
  std::span<const std::int64_t> shape;
  std::uint64_t start;
  bool hasEqualFormat = true; ///< Whether the quantized formats are equal.

  /// Whether a weight is converted from another floating-point type.
  bool isConverted() const {
    return info->dtype != tensor.dtype &&
           (port->role == Role::Parameter || port->role == Role::Buffer) &&
           isWeight(info->dtype) && isWeight(tensor.dtype);
  }
  bool fits() const {
    return hasEqualFormat && (info->dtype == tensor.dtype || isConverted()) &&
           std::ranges::equal(info->shape, shape);
  }

private:
  static bool isWeight(DType dtype) {
    return dtype == DType::F64 || dtype == DType::F32 || isNarrow(dtype);
  }
};
} // namespace

/// Reads a tensor as F32, rounded if it is F64.
static Result<std::vector<float>> readFloats(const Safetensors &file,
                                             const TensorInfo &info) {
  std::vector<std::byte> bytes(info.bytes);
  if (Result<void> done = file.read(info, bytes); !done)
    return done.takeError();
  if (isNarrow(info.dtype))
    return widen(
        Tensor{Role::Parameter, info.name, info.dtype, info.shape, bytes});
  std::vector<float> values(bytes.size() / byteSize(info.dtype));
  if (info.dtype == DType::F32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  auto *wide = reinterpret_cast<const double *>(bytes.data());
  std::transform(wide, wide + values.size(), values.begin(),
                 [](double value) { return static_cast<float>(value); });
  return values;
}

/// Returns an error for the first tensor that does not fit, with a note for
/// each of the others.
static Error mismatch(const Safetensors &file,
                      const std::vector<Match> &mismatches) {
  auto explain = [](const Match &match) {
    if (!match.hasEqualFormat)
      return std::string("has another quantized format than the program's "
                         "state");
    return describe(match.info->dtype, match.info->shape) +
           ", the program has " + describe(match.tensor.dtype, match.shape);
  };
  std::vector<std::string> others;
  for (const Match &match : std::span(mismatches).subspan(1))
    others.push_back("also tensor " + quote(match.info->name) + ": " +
                     explain(match));
  Error error = withFirstNotes(
      file.errorAt(*mismatches.front().info, explain(mismatches.front())),
      others);
  if (std::ranges::all_of(mismatches, [](const Match &match) {
        return match.port->role == Role::State;
      }))
    error = std::move(error).withNote(
        "'binade ckpt convert' writes a checkpoint with states in the formats "
        "of another program");
  return error;
}

/// Returns the state of the file that is added to `parameter` for evaluation.
/// Returns null if there is none, or it is one of the `known` tensors, which
/// the program restores.
static const TensorInfo *findOffset(const Safetensors &file,
                                    const TensorInfo &parameter,
                                    const std::set<std::string_view> &known) {
  std::string name = nameOffset(parameter.name);
  const TensorInfo *offset = known.contains(name) ? nullptr : file.find(name);
  return offset && offset->shape == parameter.shape ? offset : nullptr;
}

Result<Restored> Program::restore(const Safetensors &file,
                                  const TensorNames &names) {
  // Check everything first, so that a file that does not fit changes nothing.
  std::vector<Match> matches, mismatches;
  std::set<std::string_view> known;
  Restored restored;
  Result<QuantizedStateMap> given = getQuantizedStates(file);
  if (!given)
    return given.takeError();
  const QuantizedStateMap wanted = getQuantizedStates(getPlan());
  auto getFormat = [](const QuantizedStateMap &states, std::string_view name) {
    auto found = states.find(name);
    return found == states.end() ? std::string() : found->second.format;
  };
  for (const Port &port : getPlan().ports) {
    if (!isTrainingState(port.role))
      continue;
    bool isWeight = port.role == Role::Parameter || port.role == Role::Buffer;
    auto renamed = isWeight ? names.find(port.name) : names.end();
    const TensorInfo *info =
        file.find(renamed == names.end() ? stateName(port.role, port.name)
                                         : renamed->second);
    if (!info) {
      if (isWeight)
        restored.missing.push_back(port.name);
      continue;
    }
    const Buffer &buffer = getPlan().buffers[port.buffer];
    Match match{&port, implementation->tensorOf(port), info,
                buffer.getWholeShape(), buffer.getShardOffset()};
    match.hasEqualFormat =
        getFormat(*given, info->name) == getFormat(wanted, info->name);
    (match.fits() ? matches : mismatches).push_back(match);
    known.insert(info->name);
  }
  if (!mismatches.empty())
    return mismatch(file, mismatches);
  if (matches.empty()) {
    std::vector<Tensor> parameters = tensors(Role::Parameter);
    return Error{file.getPath(), "none of its tensors has the name of a "
                                 "parameter, buffer or state"}
        .withNote("the program has " +
                  (parameters.empty() ? std::string("no parameters")
                                      : "parameters such as " +
                                            quote(parameters.front().name)));
  }
  for (const TensorInfo &info : file.getTensors())
    if (!known.contains(info.name))
      restored.unknown.push_back(info.name);
  for (const Match &match : matches)
    if (!match.isConverted())
      if (Result<void> done =
              file.read(*match.info, match.start, match.tensor.bytes);
          !done)
        return done.takeError();
  for (const Match &match : matches) {
    const Port *companion = getPlan().findCompanionPort(*match.port);
    // The file has the parameter, but not its master weight.
    bool isAlone =
        companion && !file.find(stateName(companion->role, companion->name));
    // An optimizer without this state continues from the evaluated weights.
    const TensorInfo *offset = findOffset(file, *match.info, known);
    if (!match.isConverted() && !isAlone && !offset)
      continue;
    if (!match.isConverted() && !offset) {
      implementation->keep(*match.port, widen(match.tensor));
      continue;
    }
    Result<std::vector<float>> values = readFloats(file, *match.info);
    if (!values)
      return values.takeError();
    if (offset) {
      Result<std::vector<float>> added = readFloats(file, *offset);
      if (!added)
        return added.takeError();
      std::ranges::transform(*values, *added, values->begin(), std::plus<>());
    }
    if (match.tensor.dtype == DType::F32)
      std::copy(values->begin(), values->end(),
                match.tensor.as<float>().begin());
    else if (match.tensor.dtype == DType::F64)
      std::copy(values->begin(), values->end(),
                match.tensor.as<double>().begin());
    else
      implementation->keep(*match.port, *values);
  }
  for (const Match &match : matches)
    if (Result<void> checked =
            implementation->checkFinite(*match.port, file.getPath());
        !checked)
      return checked.takeError();
  restored.tensors = matches.size();
  return restored;
}

void Program::keep(const Port &port, std::span<const float> values) {
  implementation->keep(port, values);
}

/// Returns what a file of training state says about its tensors.
static SafetensorsMetadata describeState(const Plan &plan) {
  SafetensorsMetadata metadata = {{"format", "binade-state"},
                                  {"format_version", "1"},
                                  {"model", plan.model},
                                  {"policy", plan.policy},
                                  {"policy_hash", plan.policyHash}};
  for (const Port &port : plan.ports)
    if (auto *companion = std::get_if<CompanionInit>(&port.init))
      metadata[masterKey(companion->parameter)] =
          std::string(plan::name(companion->master)) + " " +
          stateName(port.role, port.name);
  addQuantizedStates(metadata, plan);
  return metadata;
}

Result<void> Program::save(const std::string &path,
                           const ReadWhole &readWhole) const {
  const Plan &plan = getPlan();
  std::vector<const Port *> ports;
  std::vector<TensorInfo> infos;
  for (const Port &port : plan.ports) {
    if (!isTrainingState(port.role))
      continue;
    const Buffer &buffer = plan.buffers[port.buffer];
    if (buffer.shard && !readWhole)
      return Error{"binade",
                   "the program has only a shard of state " + quote(port.name) +
                       "; the ranks of its group save it together",
                   ExitCode::Usage};
    ports.push_back(&port);
    infos.push_back({stateName(port.role, port.name), buffer.dtype,
                     buffer.getWholeShape()});
  }
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, std::move(infos), describeState(plan));
  if (!writer)
    return writer.takeError();
  for (std::size_t index = 0; index < ports.size(); ++index) {
    Tensor tensor = implementation->tensorOf(*ports[index],
                                             /*isReadOnly=*/true);
    std::vector<std::byte> whole;
    if (plan.buffers[ports[index]->buffer].shard) {
      Result<std::vector<std::byte>> read = readWhole(tensor);
      if (!read)
        return read.takeError();
      whole = *std::move(read);
      tensor.bytes = whole;
    }
    if (Result<void> done = writer->append(index, tensor.bytes); !done)
      return done;
  }
  return writer->finish();
}
