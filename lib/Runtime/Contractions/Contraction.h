//===- Contraction.h - Matrix products and convolutions ---------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H

#include "../Execution/Operation.h"

namespace binade {

/// The operation of a matmul or convolution record, by oneDNN or by own code
/// as `choice` says and the library can.
std::unique_ptr<Operation> createContraction(const plan::Record &record,
                                             const Memory &memory,
                                             unsigned threads,
                                             Contraction choice);

// By own code: every element is one chain of fused multiply-adds in f32, in
// the order of the contracted axis (of a convolution: kernel position, then
// channel; of a weight gradient: sample, then output position), then bias, then
// the old element, then one rounding. With scales of blocks there is a chain
// for each block of terms, and one over these. The bits depend on nothing else:
// not on threads, vector width or tiles.
std::unique_ptr<Operation> createOwnMatmul(const plan::Matmul &matmul,
                                           const Memory &memory,
                                           unsigned threads);
std::unique_ptr<Operation>
createOwnConvolution(const plan::Convolution &convolution, const Memory &memory,
                     unsigned threads);

// By oneDNN; null where the library is absent or would use its slow reference
// code. Needs the OpenMP thread count that `run` will have.
std::unique_ptr<Operation> createOneDnnMatmul(const plan::Matmul &matmul,
                                              const Memory &memory);
std::unique_ptr<Operation>
createOneDnnConvolution(const plan::Convolution &convolution,
                        const Memory &memory);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_CONTRACTION_H
