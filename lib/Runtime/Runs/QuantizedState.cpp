//===- QuantizedState.cpp - Quantized states in files ---------------------===//

#include "binade/Runtime/QuantizedState.h"
#include "binade/Plan/PlanJson.h"

using namespace binade;
using namespace binade::plan;

/// The key of the metadata that lists quantized states.
static constexpr const char *kKey = "quantized_states";

/// Returns the quantized states of the plan, with the names that their parts
/// have in files (`state/<name>`) instead of those of the ports.
static std::vector<QuantizedStates> listStatesOfFile(const Plan &plan) {
  std::vector<QuantizedStates> renamed = plan.quantizedStates;
  for (QuantizedStates &quantized : renamed)
    for (QuantizedStates::State &state : quantized.states)
      for (std::string &part : state.parts)
        part = stateName(Role::State, part);
  return renamed;
}

/// Maps the name of each state's codes, its first part, to the state.
static QuantizedStateMap mapByCodes(const std::vector<QuantizedStates> &list) {
  QuantizedStateMap states;
  for (const QuantizedStates &quantized : list)
    for (const QuantizedStates::State &state : quantized.states)
      states[state.parts.front()] = {quantized.format, state.parts,
                                     state.shape};
  return states;
}

QuantizedStateMap binade::getQuantizedStates(const Plan &plan) {
  return mapByCodes(listStatesOfFile(plan));
}

Result<QuantizedStateMap> binade::getQuantizedStates(const Safetensors &file) {
  auto found = file.getMetadata().find(kKey);
  if (found == file.getMetadata().end())
    return QuantizedStateMap();
  auto list = readQuantizedStates(found->second, file.getPath());
  if (!list)
    return list.takeError();
  return mapByCodes(*list);
}

void binade::addQuantizedStates(SafetensorsMetadata &metadata,
                                const Plan &plan) {
  if (!plan.quantizedStates.empty())
    metadata[kKey] = writeQuantizedStates(listStatesOfFile(plan));
}
