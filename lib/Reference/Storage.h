//===- Storage.h - Parameters stored in 16 bits -----------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_STORAGE_H
#define BINADE_LIB_REFERENCE_STORAGE_H

#include "binade/IR/Binade.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// The storage of a parameter and, if `master` has one, of its companion: the
/// master weight, remainder or compensation.
class StoredParameter {
public:
  StoredParameter(Master master, FloatType format)
      : master(master), format(format.getFloatSemantics()) {}

  /// Returns element `index` as the rule reads it; `companion` may be null.
  float decode(const Tensor &parameter, const Tensor *companion,
               int64_t index) const;

  /// Stores element `index` of a new value. `old` and `oldCompanion` are the
  /// tensors before the update; `random`, in [0, 1), is for stochastic
  /// rounding.
  void update(float value, const Tensor &old, const Tensor *oldCompanion,
              float random, int64_t index, Tensor &parameter,
              Tensor *companion) const;

  /// Stores element `index` of an initial value; either tensor may be null.
  void start(float value, int64_t index, Tensor *parameter,
             Tensor *companion) const;

private:
  Master master;
  FloatFormat format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_STORAGE_H
