//===- Costs.h - what formats cost on a target ------------------*- C++ -*-===//

#ifndef BINADE_PRECISION_COSTS_H
#define BINADE_PRECISION_COSTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::binade {

/// How fast a target is in one format.
struct FormatRates {
  FloatType format;
  /// Products a second that a large matrix product sums.
  double products = 0;
  /// Elements a second that an elementwise kernel reads or writes in memory.
  double elements = 0;
};

/// What a target takes for the work of a training step, as `binade costs`
/// measures it.
struct TargetCosts {
  std::string target;
  /// Seconds to start a kernel.
  double launch = 0;
  std::vector<FormatRates> formats;

  /// Null for formats that were not measured.
  const FormatRates *find(FloatType format) const {
    auto found = llvm::find_if(formats, [&](const FormatRates &rates) {
      return rates.format == format;
    });
    return found == formats.end() ? nullptr : &*found;
  }
};

} // namespace mlir::binade

#endif // BINADE_PRECISION_COSTS_H
