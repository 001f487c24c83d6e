//===- ExchangeOps.h - Sums over the ranks of a group -----------*- C++ -*-===//

#ifndef BINADE_IR_EXCHANGEOPS_H
#define BINADE_IR_EXCHANGEOPS_H

#include "binade/IR/ExchangeFormat.h"

namespace mlir::binade {

/// Result i of the op is computed in the memory of operand i.
template <typename Op>
class ResultsInPlace : public OpTrait::TraitBase<Op, ResultsInPlace> {};

} // namespace mlir::binade

#define GET_OP_CLASSES
#include "binade/IR/Ops/Exchange.h.inc"

#endif // BINADE_IR_EXCHANGEOPS_H
