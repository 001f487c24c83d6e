//===- Avx2.cpp - Fused attention for AVX2 --------------------------------===//

#include "Kernels.h"

using namespace binade;
using namespace binade::attention;

#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))),         \
                             apply_to = function)
// clang-format off: later headers use earlier ones.
#include "Vectors.h"
#include "VectorEngine.h"
#include "HeadKernels.h"
// clang-format on
#pragma clang attribute pop

template <typename Format> using Engine = VectorEngine<FloatUnit<Format>, 4, 1>;

const LevelKernels attention::avx2Kernels = {makeKernels<Engine<F32>>("avx2"),
                                             makeKernels<Engine<BF16>>("avx2"),
                                             makeKernels<Engine<F16>>("avx2")};
