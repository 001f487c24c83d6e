//===- MeasureCeilings.h - What this machine's CPU can do -------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H

#include "binade/Runtime/Library.h"
#include "binade/Runtime/Profile.h"
#include <set>

namespace binade {

/// Some tenths of a second: a copy in memory, chains of fused multiply-adds,
/// and for each of `narrow`, BF16 or F16, a product by whoever computes those.
Ceilings measureCeilings(unsigned threads, const std::set<DType> &narrow,
                         Contraction contraction);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H
