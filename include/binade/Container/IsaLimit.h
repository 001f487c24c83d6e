//===- IsaLimit.h - Limit of the instruction set ----------------*- C++ -*-===//

#ifndef BINADE_CONTAINER_ISALIMIT_H
#define BINADE_CONTAINER_ISALIMIT_H

#include <cstdlib>
#include <string_view>

namespace binade {

/// The x86-64 levels that kernels are compiled for, lowest first.
inline constexpr std::string_view kIsaV3 = "x86-64-v3", kIsaV4 = "x86-64-v4";

/// Whether the environment variable BINADE_ISA disables instructions above
/// `level`.
inline bool isLimitedTo(std::string_view level) {
  const char *wanted = std::getenv("BINADE_ISA");
  return wanted && std::string_view(wanted) == level;
}

/// Whether BINADE_ISA disables AVX-512 for compilation and execution.
inline bool leavesOutAvx512() { return isLimitedTo(kIsaV3); }

} // namespace binade

#endif // BINADE_CONTAINER_ISALIMIT_H
