//===- NonFiniteWeights.h - Search for non-finite weights -------*- C++ -*-===//

#ifndef BINADE_RUNTIME_NONFINITEWEIGHTS_H
#define BINADE_RUNTIME_NONFINITEWEIGHTS_H

#include "binade/Container/NonFinite.h"
#include "binade/Runtime/Program.h"

namespace binade {

/// Returns the parameters of `program` that have non-finite elements, in the
/// order of the plan.
std::vector<NonFiniteTensor> findNonFiniteWeights(const Program &program);

/// Returns the tensors of a checkpoint (parameters, buffers, states) that have
/// non-finite elements. Minus infinities are ignored because masks consist of
/// them, and amax histories are because they may contain an infinity.
Result<std::vector<NonFiniteTensor>>
findNonFiniteState(const Safetensors &file);

} // namespace binade

#endif // BINADE_RUNTIME_NONFINITEWEIGHTS_H
