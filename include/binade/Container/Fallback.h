//===- Fallback.h - Deviation of a target from a decision -------*- C++ -*-===//
//
// A policy decides formats by op, role and layer. Whether the target has a
// library call or a kernel for them also depends on shapes. If it has none, the
// op is computed in other formats or split into pieces, and reports list it as
// a fallback: docs/decisions/0059-fallbacks.md.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_CONTAINER_FALLBACK_H
#define BINADE_CONTAINER_FALLBACK_H

#include <string>
#include <tuple>

namespace binade {

/// How the computation of an op differs from its decision, for reports.
struct Fallback {
  std::string decided, computed; ///< Formats; equal if the op is only split.
  std::string reason;            ///< What the target lacks.
  std::string nearest; ///< The nearest larger shape without a fallback, if any.

  bool keepsFormats() const { return decided == computed; }
  /// Returns text such as "f8E4M3FN x f8E4M3FN decided, bf16 computed: k = 50
  /// is not a multiple of 16; k = 64 would do".
  std::string describe() const;
  bool operator<(const Fallback &other) const {
    return std::tie(decided, computed, reason, nearest) <
           std::tie(other.decided, other.computed, other.reason, other.nearest);
  }
};

} // namespace binade

#endif // BINADE_CONTAINER_FALLBACK_H
