//===- KernelsAvx2.cpp - Encoding of gradients ---------------------------===//

#include "Kernels.h"
#include "binade/Container/FloatConversion.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

using namespace binade;
using namespace binade::exchange;

#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))),         \
                             apply_to = function)
#include "KernelBodies.h"
#pragma clang attribute pop

const Kernels exchange::avx2 = {add,     pack,   decode, toBF16,
                                addBF16, toE4M3, addE4M3};
