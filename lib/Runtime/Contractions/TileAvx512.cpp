//===- TileAvx512.cpp - Microkernels for AVX-512 --------------------------===//

#include "Tile.h"

#define BINADE_TILE_LANES 16
#define BINADE_TILE_ROWS 14

using namespace binade;
using namespace binade::tile;

#pragma clang attribute push(                                                  \
    __attribute__((                                                            \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))),          \
    apply_to = function)
#include "TileKernels.h"
#pragma clang attribute pop

const Kernels tile::avx512 = {"avx512", panelRows, panelColumns, pack,
                              pack,     pack,      multiply,     gather};
