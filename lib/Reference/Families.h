//===- Families.h - Op families of the reference ----------------*- C++ -*-===//
//
// Each function registers the ops of a family, named like its file in
// lib/IR/Ops.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_REFERENCE_FAMILIES_H
#define BINADE_LIB_REFERENCE_FAMILIES_H

#include "binade/Reference/Reference.h"

namespace mlir::binade {

void addAttention(Reference &reference);
void addCast(Reference &reference);
void addContraction(Reference &reference);
void addConvolution(Reference &reference);
void addElementwise(Reference &reference);
void addEmbedding(Reference &reference);
void addExchange(Reference &reference);
void addHadamard(Reference &reference);
void addKernel(Reference &reference);
void addLoss(Reference &reference);
void addLossScaling(Reference &reference);
void addMonitor(Reference &reference);
void addNormalization(Reference &reference);
void addOptimizer(Reference &reference);
void addQuantization(Reference &reference);
void addRandom(Reference &reference);
void addReduction(Reference &reference);
void addRmsNorm(Reference &reference);
void addShape(Reference &reference);
void addSumInOrder(Reference &reference);

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_FAMILIES_H
