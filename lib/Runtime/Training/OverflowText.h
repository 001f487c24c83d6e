//===- OverflowText.h - What left a format's range, in words ----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H
#define BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H

#include "binade/Runtime/Program.h"

namespace binade {

std::string describe(const Overflow &overflow);

/// Which precision would have helped.
std::string advise(const Overflow &overflow);

/// Where no scale of the loss is feasible, as the step's own gradients prove:
/// which one overflows at a scale at which another still vanishes.
std::string describeInfeasible(const Program &program, double scale);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H
