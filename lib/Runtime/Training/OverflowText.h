//===- OverflowText.h - Messages about overflows ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H
#define BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Returns a message that names the record and the magnitudes.
std::string describe(const Overflow &overflow);

/// Returns a message about the policy rule that avoids the overflow.
std::string advise(const Overflow &overflow);

/// Returns a message about the last step, which had no feasible loss scale: one
/// gradient overflows at a scale at which another still underflows.
std::string describeInfeasible(const Program &program, double scale);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_TRAINING_OVERFLOWTEXT_H
