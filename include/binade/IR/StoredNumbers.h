//===- StoredNumbers.h - Constants and weights in a format ------*- C++ -*-===//

#ifndef BINADE_IR_STOREDNUMBERS_H
#define BINADE_IR_STOREDNUMBERS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// The finite elements of a constant or a stored weight that lie farthest from
/// 0 and nearest to it.
struct StoredNumbers {
  double most = 0.0, least = 0.0; ///< Largest and smallest; 0 without any.
  double smallest = 0.0;          ///< The smallest magnitude that is not 0.

  void add(double number);
  double getMagnitude() const { return std::max(most, -least); }
  bool isEmpty() const { return smallest == 0.0; }
};

/// `number` in `format`, to nearest; finite numbers stay finite.
double roundTo(double number, FloatType format);

/// Why `format` does not hold the numbers, in words ("is 1e-08, which becomes 0
/// in f16"); empty where it does. It does not hold a number beyond its largest,
/// or one that it rounds by more than 1 % because it is too small. Of several
/// numbers small ones count only where all are small, or with `readsEach`,
/// where each stands for itself. `isMask` is asked about a number beyond the
/// largest: of a mask the largest does.
std::string explainMisfit(const StoredNumbers &numbers, FloatType format,
                          bool readsEach,
                          llvm::function_ref<bool(double)> isMask);

/// The numbers of a constant, or of the initial value of an argument. Data in
/// other files are looked for in `directory`, and passed over where that is
/// empty or they cannot be read. Nothing for other values.
std::optional<StoredNumbers> readStored(Value value, StringRef directory);

} // namespace mlir::binade

#endif // BINADE_IR_STOREDNUMBERS_H
