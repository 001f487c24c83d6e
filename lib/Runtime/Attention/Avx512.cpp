//===- Avx512.cpp - Fused attention for AVX-512 ---------------------------===//

#include "Kernels.h"

using namespace binade;
using namespace binade::attention;

#pragma clang attribute push(                                                  \
    __attribute__((                                                            \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))),          \
    apply_to = function)
// clang-format off: later headers use earlier ones.
#include "Vectors.h"
#include "VectorEngine.h"
#include "HeadKernels.h"
// clang-format on
#pragma clang attribute pop

template <typename Format> using Engine = VectorEngine<FloatUnit<Format>, 8, 2>;

const LevelKernels attention::avx512Kernels = {
    makeKernels<Engine<F32>>("avx512"), makeKernels<Engine<BF16>>("avx512"),
    makeKernels<Engine<F16>>("avx512")};
