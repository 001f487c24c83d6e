//===- Companion.h - Tensors stored in addition to parameters ---*- C++ -*-===//

#ifndef BINADE_PLAN_COMPANION_H
#define BINADE_PLAN_COMPANION_H

#include "binade/Plan/Plan.h"

namespace binade::plan {

/// Returns the type of the master weight, remainder or compensation of a
/// parameter that is stored as `parameter`.
inline DType getCompanionType(Master master, DType parameter) {
  switch (master) {
  case Master::F32:
    return DType::F32;
  case Master::SplitRound:
  case Master::SplitTrunc:
    return DType::I16;
  case Master::Split8Bit:
    return DType::I8;
  case Master::Kahan:
  case Master::Residual:
    return parameter;
  }
  return parameter;
}

} // namespace binade::plan

#endif // BINADE_PLAN_COMPANION_H
