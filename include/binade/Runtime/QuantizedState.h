//===- QuantizedState.h - Quantized states in files -------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_QUANTIZEDSTATE_H
#define BINADE_RUNTIME_QUANTIZEDSTATE_H

#include "binade/Container/Safetensors.h"
#include "binade/Plan/Plan.h"

namespace binade {

/// An optimizer state in a quantized format.
struct QuantizedState {
  std::string format; ///< `#binade.quantized<...>`
  /// Names of its tensors in files: the codes, then the scales.
  std::vector<std::string> parts;
  std::vector<std::int64_t> shape; ///< Shape of the dequantized state.
};

/// Quantized states by the names of their codes.
using QuantizedStateMap = std::map<std::string, QuantizedState, std::less<>>;

QuantizedStateMap getQuantizedStates(const Plan &plan);

/// Returns the quantized states that the metadata of a file lists.
Result<QuantizedStateMap> getQuantizedStates(const Safetensors &file);

/// Adds the quantized states of `plan` to the metadata of a file.
void addQuantizedStates(SafetensorsMetadata &metadata, const Plan &plan);

} // namespace binade

#endif // BINADE_RUNTIME_QUANTIZEDSTATE_H
