//===- Attention.h - Scaled dot-product attention ---------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_ATTENTION_H
#define BINADE_RUNTIME_ATTENTION_H

#include "Operation.h"

namespace binade {

/// Attention or its gradients, plain and correct: to compare a device with.
/// Plans for CPUs have products and kernels in its place. Bits do not depend on
/// the number of threads.
std::unique_ptr<Operation> createAttention(const plan::Attention &attention,
                                           const Memory &memory);

} // namespace binade

#endif // BINADE_RUNTIME_ATTENTION_H
