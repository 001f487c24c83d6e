//===- QuantizedState.h - What codes in files stand for ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_QUANTIZEDSTATE_H
#define BINADE_RUNTIME_QUANTIZEDSTATE_H

#include "binade/Container/Safetensors.h"
#include "binade/Plan/Plan.h"

namespace binade {

/// A state that is kept as codes.
struct QuantizedState {
  std::string format;              ///< `#binade.quantized<...>`
  std::vector<std::string> parts;  ///< Names of tensors in files, codes first.
  std::vector<std::int64_t> shape; ///< Of what they stand for.
};

/// By the names of their codes.
using QuantizedStateMap = std::map<std::string, QuantizedState, std::less<>>;

QuantizedStateMap getQuantizedStates(const Plan &plan);

/// What a file says of its own.
Result<QuantizedStateMap> getQuantizedStates(const Safetensors &file);

/// Makes a file say it.
void addQuantizedStates(SafetensorsMetadata &metadata, const Plan &plan);

} // namespace binade

#endif // BINADE_RUNTIME_QUANTIZEDSTATE_H
