//===- IsaLimit.h - instruction sets that are left out ----------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ISALIMIT_H
#define BINADE_CONTAINER_ISALIMIT_H

#include <cstdlib>
#include <string_view>

namespace binade {

/// The levels of x86-64 that kernels are compiled for, the lowest first.
inline constexpr std::string_view kIsaV3 = "x86-64-v3", kIsaV4 = "x86-64-v4";

/// Whether the environment variable BINADE_ISA leaves AVX-512 out, of what is
/// compiled and of what is run, as if this CPU had none.
inline bool leavesOutAvx512() {
  const char *wanted = std::getenv("BINADE_ISA");
  return wanted && std::string_view(wanted) == kIsaV3;
}

} // namespace binade

#endif // BINADE_CONTAINER_ISALIMIT_H
