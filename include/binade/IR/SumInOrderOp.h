//===- SumInOrderOp.h - The op `sum_in_order` -------------------*- C++ -*-===//
//
// Only few files need it.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_SUMINORDEROP_H
#define BINADE_IR_SUMINORDEROP_H

#include "binade/IR/Binade.h"
#include "binade/IR/ReadsNeighbors.h"

#define GET_OP_CLASSES
#include "binade/IR/Ops/SumInOrder.h.inc"

#endif // BINADE_IR_SUMINORDEROP_H
