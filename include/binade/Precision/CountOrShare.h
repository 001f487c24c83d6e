//===- CountOrShare.h - A number, or a share of all -------------*- C++ -*-===//

#ifndef BINADE_PRECISION_COUNTORSHARE_H
#define BINADE_PRECISION_COUNTORSHARE_H

#include <cstdint>
#include <string>

namespace mlir::binade {

/// A number of steps or blocks, or a share of all of them.
struct CountOrShare {
  /// The count, or the share in [0, 1].
  double number = 0;
  bool isShare = false;

  /// Returns the count, at most `all`; a share of `all` is rounded to nearest.
  int64_t resolve(int64_t all) const;
  /// Returns the text as in a policy: `8` or `13%`.
  std::string print() const;
  bool operator==(const CountOrShare &) const = default;
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_COUNTORSHARE_H
