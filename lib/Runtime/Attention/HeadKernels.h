//===- HeadKernels.h - The kernels of an engine -----------------*- C++ -*-===//
// Included after Vectors.h and an engine, where functions are compiled for the
// engine's instruction set.
//===----------------------------------------------------------------------===//

// clang-format off: later headers use earlier ones.
#include "Blocks.h"
#include "MathFunctions.h"
#include "Random.h"
#include "Scores.h"
#include "ScoreGradients.h"
#include "Forward.h"
#include "Backward.h"
#include "BiasGradient.h"
// clang-format on

namespace {

template <typename Engine> constexpr Kernels makeKernels(const char *name) {
  using F = Forward<Engine>;
  using B = Backward<Engine>;
  using Bias = BiasGradient<Engine>;
  Kernels kernels{};
  kernels.name = name;
  kernels.countForwardBytes = F::countBytes;
  kernels.prepareKeys = F::prepareKeys;
  kernels.computeRows = F::computeRows;
  kernels.countBackwardBytes = B::countBytes;
  kernels.clearGradients = B::clear;
  kernels.addGradients = B::addHead;
  kernels.writeGradients = B::write;
  kernels.countBiasBytes = Bias::countBytes;
  kernels.clearBiasGradient = Bias::clear;
  kernels.addToBiasGradient = Bias::add;
  kernels.writeBiasGradient = Bias::write;
  return kernels;
}

} // namespace
