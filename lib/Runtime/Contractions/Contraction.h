//===- Contraction.h - Contractions on the CPU ------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H

#include "../Execution/Operation.h"
#include "Tile.h"

namespace binade {

/// Creates the operation of a matmul, convolution or attention record. Matmuls
/// and convolutions use oneDNN, or Binade's own kernels if `choice` says so or
/// oneDNN does not support the record. Attention always uses own kernels.
std::unique_ptr<Operation> createContraction(const plan::Record &record,
                                             const Memory &memory,
                                             unsigned threads,
                                             Contraction choice);

// Binade's own kernels compute every element as a sequence of fused
// multiply-adds in f32 in the order of the contracted axis (for a convolution:
// kernel position, then channel; for a weight gradient: sample, then output
// position), then add the bias, then the old element, then round once. With
// block scales, each block of terms is summed first, then the sums of the
// blocks. Results do not depend on the number of threads, the vector width or
// the tile sizes.
std::unique_ptr<Operation>
createOwnMatmul(const plan::Matmul &matmul, const Memory &memory,
                unsigned threads,
                const tile::Kernels &kernels = tile::kernels());
std::unique_ptr<Operation>
createOwnConvolution(const plan::Convolution &convolution, const Memory &memory,
                     unsigned threads);

/// Creates a matmul with `accumulation`, which own kernels always compute.
std::unique_ptr<Operation> createAccumulatedMatmul(const plan::Matmul &matmul,
                                                   const Memory &memory,
                                                   unsigned threads);

/// Creates a matmul of f16 operands with AMX. It adds the same products in
/// another order than the own kernels. Returns null if the CPU has no AMX or
/// the sizes do not suit it.
std::unique_ptr<Operation> createHalfMatmul(const plan::Matmul &matmul,
                                            const Memory &memory,
                                            unsigned threads);

/// Creates attention or its gradients with the fused kernels; returns null if
/// these do not compute the record.
std::unique_ptr<Operation>
createFusedAttention(const plan::Attention &attention, const Memory &memory,
                     unsigned threads);
/// Creates a simple implementation, for other records, which only plans for
/// other devices have.
std::unique_ptr<Operation>
createSimpleAttention(const plan::Attention &attention, const Memory &memory);

// Creates operations with oneDNN. Returns null if the library is not found or
// has only its slow reference code. The OpenMP thread count has to be that of
// `run`.
std::unique_ptr<Operation> createOneDnnMatmul(const plan::Matmul &matmul,
                                              const Memory &memory);
std::unique_ptr<Operation>
createOneDnnConvolution(const plan::Convolution &convolution,
                        const Memory &memory);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H
