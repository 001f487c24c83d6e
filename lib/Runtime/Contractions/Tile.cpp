//===- Tile.cpp - Choice of the microkernels ------------------------------===//

#include "Tile.h"
#include "../Execution/KernelObject.h"

using namespace binade;

const tile::Kernels &tile::kernels() {
  std::span<const std::string_view> levels = supportedIsaLevels();
  return !levels.empty() && levels.front() == "x86-64-v4" ? avx512 : avx2;
}
