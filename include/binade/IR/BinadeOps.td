//===- BinadeOps.td - the op set, one file per family ---------------------===//

#ifndef BINADE_IR_BINADEOPS_TD
#define BINADE_IR_BINADEOPS_TD

include "binade/IR/Ops/Elementwise.td"
include "binade/IR/Ops/Binary.td"
include "binade/IR/Ops/Cast.td"
include "binade/IR/Ops/Contraction.td"
include "binade/IR/Ops/Convolution.td"
include "binade/IR/Ops/Reduction.td"
include "binade/IR/Ops/Normalization.td"
include "binade/IR/Ops/Attention.td"
include "binade/IR/Ops/Embedding.td"
include "binade/IR/Ops/Loss.td"
include "binade/IR/Ops/Shape.td"
include "binade/IR/Ops/Random.td"
include "binade/IR/Ops/LossScaling.td"
include "binade/IR/Ops/Optimizer.td"
include "binade/IR/Ops/Quantization.td"
include "binade/IR/Ops/Hadamard.td"
include "binade/IR/Ops/SumInOrder.td"
include "binade/IR/Ops/Monitor.td"
include "binade/IR/Ops/Exchange.td"
include "binade/IR/Ops/Kernel.td"

#endif // BINADE_IR_BINADEOPS_TD
