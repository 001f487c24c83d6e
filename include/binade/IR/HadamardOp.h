//===- HadamardOp.h - The op `hadamard` -------------------------*- C++ -*-===//
//
// Not part of Binade.h, so that a change of the op rebuilds few files.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_HADAMARDOP_H
#define BINADE_IR_HADAMARDOP_H

#include "binade/IR/Binade.h"
#include "binade/IR/ReadsNeighbors.h"

namespace mlir::binade {

/// The sizes of groups that may be transformed.
inline constexpr std::array<int64_t, 6> kHadamardSizes = {4,  8,  16,
                                                          32, 64, 128};

} // namespace mlir::binade

#define GET_OP_CLASSES
#include "binade/IR/Ops/Hadamard.h.inc"

#endif // BINADE_IR_HADAMARDOP_H
