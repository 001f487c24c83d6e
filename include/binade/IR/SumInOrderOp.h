//===- SumInOrderOp.h - The op `sum_in_order` -------------------*- C++ -*-===//
//
// Not part of Binade.h, so that a change of the op rebuilds few files.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_SUMINORDEROP_H
#define BINADE_IR_SUMINORDEROP_H

#include "binade/IR/Binade.h"
#include "binade/IR/ReadsNeighbors.h"

#define GET_OP_CLASSES
#include "binade/IR/Ops/SumInOrder.h.inc"

#endif // BINADE_IR_SUMINORDEROP_H
