//===- TileAvx2.cpp - Microkernels for AVX2 -------------------------------===//

#include "Tile.h"

#define BINADE_TILE_LANES 8
#define BINADE_TILE_ROWS 6

using namespace binade;
using namespace binade::tile;

#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))),         \
                             apply_to = function)
#include "TileKernels.h"
#pragma clang attribute pop

const Kernels tile::avx2 = {"avx2", panelRows, panelColumns, pack,
                            pack,   pack,      multiply,     gather};
