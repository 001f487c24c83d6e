//===- State.cpp - Training state in files --------------------------------===//

#include "Describe.h"
#include "ProgramImplementation.h"
#include "binade/Container/Printable.h"
#include <algorithm>

using namespace binade;
using namespace binade::plan;

Result<std::size_t> Program::restore(const Safetensors &file) {
  // First everything is checked: a file that does not fit changes nothing.
  std::vector<std::pair<Tensor, const TensorInfo *>> matches;
  for (const Tensor &tensor : tensors()) {
    if (!isTrainingState(tensor.role))
      continue;
    const TensorInfo *info = file.find(stateName(tensor.role, tensor.name));
    if (!info)
      continue;
    if (info->dtype != tensor.dtype ||
        !std::equal(info->shape.begin(), info->shape.end(),
                    tensor.shape.begin(), tensor.shape.end()))
      return file.errorAt(*info, describe(info->dtype, info->shape) +
                                     ", the program has " +
                                     describe(tensor.dtype, tensor.shape));
    matches.emplace_back(tensor, info);
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
  for (auto &[tensor, info] : matches)
    if (Result<void> done = file.read(*info, tensor.bytes); !done)
      return done.takeError();
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
  return writeSafetensors(path, stored,
                          {{"format", "binade-state"},
                           {"format_version", "1"},
                           {"model", plan.model},
                           {"policy", plan.policy},
                           {"policy_hash", plan.policyHash}});
}
