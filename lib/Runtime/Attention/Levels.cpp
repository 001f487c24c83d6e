//===- Levels.cpp - Choice of the attention kernels -----------------------===//

#include "../Execution/KernelObject.h"
#include "Kernels.h"
#include "binade/Container/IsaLimit.h"
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace binade;
using namespace binade::attention;

static bool hasBit(unsigned leaf, unsigned subleaf, bool inEdx, int bit) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx) &&
         ((inEdx ? edx : eax) >> bit & 1);
}

/// Whether multiply-adds of bf16 vectors are faster than those of f32. Intel's
/// processors start one in two cycles, and multiply half as many elements as
/// with f32.
static bool hasFastAvx512Bf16() {
  return hasBit(7, 1, /*inEdx=*/false, 5) && __builtin_cpu_is("amd");
}

/// Whether the CPU has tiles and their multiply-adds of bf16, and Linux lets
/// this process use them.
static bool hasAmx() {
  if (!hasBit(7, 0, /*inEdx=*/true, 24) || !hasBit(7, 0, /*inEdx=*/true, 22))
    return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Level attention::getHighestLevel() {
  static const Level highest = [] {
    std::span<const std::string_view> levels = supportedIsaLevels();
    if (levels.empty() || levels.front() != kIsaV4)
      return Level::Avx2;
    if (isLimitedTo(kIsaV4))
      return Level::Avx512;
    return hasAmx()              ? Level::Amx
           : hasFastAvx512Bf16() ? Level::Avx512Bf16
                                 : Level::Avx512;
  }();
  return highest;
}

const Kernels &attention::getKernels(Level level, DType dtype) {
  if (dtype == DType::BF16 && level == Level::Amx)
    return amxKernels;
  if (dtype == DType::BF16 && level == Level::Avx512Bf16)
    return avx512Bf16Kernels;
  const LevelKernels &kernels =
      level == Level::Avx2 ? avx2Kernels : avx512Kernels;
  return dtype == DType::F32    ? kernels.f32
         : dtype == DType::BF16 ? kernels.bf16
                                : kernels.f16;
}
