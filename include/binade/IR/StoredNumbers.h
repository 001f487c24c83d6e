//===- StoredNumbers.h - Ranges of constants and weights --------*- C++ -*-===//

#ifndef BINADE_IR_STOREDNUMBERS_H
#define BINADE_IR_STOREDNUMBERS_H

#include "binade/IR/Binade.h"
#include <cmath>

namespace mlir::binade {

/// The range of the finite elements of a constant or a stored weight.
struct StoredNumbers {
  double most = 0.0;     ///< The largest element, at least 0.
  double least = 0.0;    ///< The smallest element, at most 0.
  double smallest = 0.0; ///< The smallest magnitude that is not 0; 0 for none.
  double squares = 0.0;  ///< The sum of their squares.
  int64_t count = 0;     ///< The number of those that are not 0.

  void add(double number);
  double getMagnitude() const { return std::max(most, -least); }
  /// Returns the root mean square of the elements that are not 0; 0 for none.
  double getRms() const { return count ? std::sqrt(squares / count) : 0.0; }
  bool isEmpty() const { return smallest == 0.0; }
};

/// Rounds `number` to `format`, to nearest; finite numbers stay finite.
double roundTo(double number, FloatType format);

/// Returns why `format` cannot represent the numbers ("is 1e-08, which becomes
/// 0 in f16"); empty if it can. A format cannot represent a number beyond its
/// largest finite value, unless `isMask` holds for the number, nor a number
/// that is so small that rounding changes it by more than 1 %. Small numbers
/// count only if there are no large ones, or with `readsEach`, which is for ops
/// on which each element acts alone.
std::string explainUnsuitable(const StoredNumbers &numbers, FloatType format,
                              bool readsEach,
                              llvm::function_ref<bool(double)> isMask);

/// Returns the range of a constant, or of the initial value of an argument;
/// none for other values. Reads data outside of the module from `directory`;
/// returns none if that is empty or reading fails.
std::optional<StoredNumbers> readStored(Value value, StringRef directory);

} // namespace mlir::binade

#endif // BINADE_IR_STOREDNUMBERS_H
