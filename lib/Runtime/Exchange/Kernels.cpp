//===- Kernels.cpp - Choice of the kernels --------------------------------===//

#include "Kernels.h"
#include "../Execution/KernelObject.h"

using namespace binade;

const exchange::Kernels &exchange::kernels() {
  std::span<const std::string_view> levels = supportedIsaLevels();
  return !levels.empty() && levels.front() == "x86-64-v4" ? avx512 : avx2;
}
