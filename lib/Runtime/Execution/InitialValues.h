//===- InitialValues.h - Random initial values ------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_INITIALVALUES_H
#define BINADE_LIB_RUNTIME_EXECUTION_INITIALVALUES_H

#include "binade/Plan/Plan.h"

namespace binade {

/// Returns element `index` of the random tensor `name`, in f64, as
/// docs/Import.md defines it.
double drawInitial(const plan::RandomInit &random, std::string_view name,
                   std::uint64_t seed, std::uint64_t index);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_INITIALVALUES_H
