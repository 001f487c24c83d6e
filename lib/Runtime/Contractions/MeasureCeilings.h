//===- MeasureCeilings.h - Peak rates of the CPU ----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H

#include "binade/Runtime/Library.h"
#include "binade/Runtime/Profile.h"
#include <set>

namespace binade {

/// Measures the bandwidth with a copy in memory, the f32 peak with chains of
/// fused multiply-adds, and the peak of each type of `narrow`, BF16 or F16,
/// with a matmul. Takes some tenths of a second.
Ceilings measureCeilings(unsigned threads, const std::set<DType> &narrow,
                         Contraction contraction);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_MEASURECEILINGS_H
