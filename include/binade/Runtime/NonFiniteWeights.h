//===- NonFiniteWeights.h - Weights that are not finite ---------*- C++ -*-===//

#ifndef BINADE_RUNTIME_NONFINITEWEIGHTS_H
#define BINADE_RUNTIME_NONFINITEWEIGHTS_H

#include "binade/Container/NonFinite.h"
#include "binade/Runtime/Program.h"

namespace binade {

/// The parameters of `program` with elements that are not finite, in the order
/// of the plan. Reads all of them.
std::vector<NonFiniteTensor> findNonFiniteWeights(const Program &program);

/// The tensors of a checkpoint (parameters, buffers, states) with elements that
/// are not finite. Minus infinities do not count, since masks consist of them,
/// nor do histories of magnitudes, which may hold an infinity.
Result<std::vector<NonFiniteTensor>>
findNonFiniteState(const Safetensors &file);

} // namespace binade

#endif // BINADE_RUNTIME_NONFINITEWEIGHTS_H
