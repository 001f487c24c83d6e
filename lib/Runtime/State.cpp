//===- State.cpp - Training state in files --------------------------------===//

#include "Describe.h"
#include "ParameterStorage.h"
#include "ProgramImplementation.h"
#include "binade/Container/Printable.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

/// What a file says about a port.
namespace {
struct Match {
  const Port *port;
  Tensor tensor;
  const TensorInfo *info;

  /// A parameter of F32 is rounded as its initial value would be.
  bool isRounded() const {
    return port->role == Role::Parameter && isNarrow(tensor.dtype) &&
           info->dtype == DType::F32;
  }
  bool fits() const {
    return (info->dtype == tensor.dtype || isRounded()) &&
           std::equal(info->shape.begin(), info->shape.end(),
                      tensor.shape.begin(), tensor.shape.end());
  }
};
} // namespace

Result<std::size_t> Program::restore(const Safetensors &file) {
  // First everything is checked: a file that does not fit changes nothing.
  std::vector<Match> matches;
  for (const Port &port : getPlan().ports) {
    if (!isTrainingState(port.role))
      continue;
    const TensorInfo *info = file.find(stateName(port.role, port.name));
    if (!info)
      continue;
    Match match{&port, implementation->tensorOf(port), info};
    if (!match.fits())
      return file.errorAt(
          *info, describe(info->dtype, info->shape) + ", the program has " +
                     describe(match.tensor.dtype, match.tensor.shape));
    matches.push_back(match);
  }
  if (matches.empty()) {
    std::vector<Tensor> parameters = tensors(Role::Parameter);
    return Error{file.getPath(), "none of its tensors has the name of a "
                                 "parameter, buffer or state"}
        .withNote("the program has " +
                  (parameters.empty() ? std::string("no parameters")
                                      : "parameters such as " +
                                            quote(parameters.front().name)));
  }
  for (const Match &match : matches)
    if (!match.isRounded())
      if (Result<void> done = file.read(*match.info, match.tensor.bytes); !done)
        return done.takeError();
  for (const Match &match : matches) {
    if (match.isRounded()) {
      std::vector<float> values(match.tensor.as<std::uint16_t>().size());
      if (Result<void> done =
              file.read(*match.info, std::as_writable_bytes(std::span(values)));
          !done)
        return done.takeError();
      implementation->keep(*match.port, values);
    } else if (const Port *beside = getPlan().findBeside(*match.port);
               beside && !file.find(stateName(beside->role, beside->name))) {
      // The parameter is all that is known.
      implementation->keep(*match.port, widen(match.tensor));
    }
  }
  return matches.size();
}

Result<void> Program::save(const std::string &path) const {
  std::vector<TensorBytes> stored;
  for (const Tensor &tensor : tensors())
    if (isTrainingState(tensor.role))
      stored.push_back({stateName(tensor.role, tensor.name),
                        tensor.dtype,
                        {tensor.shape.begin(), tensor.shape.end()},
                        tensor.bytes});
  const Plan &plan = getPlan();
  SafetensorsMetadata metadata = {{"format", "binade-state"},
                                  {"format_version", "1"},
                                  {"model", plan.model},
                                  {"policy", plan.policy},
                                  {"policy_hash", plan.policyHash}};
  for (const Port &port : plan.ports)
    if (auto *beside = std::get_if<BesideInit>(&port.init))
      metadata[masterKey(beside->parameter)] =
          std::string(plan::name(beside->master)) + " " +
          stateName(port.role, port.name);
  return writeSafetensors(path, stored, metadata);
}
