//===- Storage.h - parameters in 16 bits ------------------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_STORAGE_H
#define BINADE_LIB_REFERENCE_STORAGE_H

#include "binade/IR/Binade.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Tensor.h"

namespace mlir::binade {

/// A parameter of few bits, and what `master` keeps beside it.
class StoredParameter {
public:
  StoredParameter(Master master, FloatType format)
      : master(master), format(format.getFloatSemantics()) {}

  /// Element `index` as the rule reads it; `beside` may be null.
  float decode(const Tensor &parameter, const Tensor *beside,
               int64_t index) const;

  /// Element `index` of a new value. What `master` needs of the old one is in
  /// `old` and `oldBeside`; `random`, in [0, 1), is for `stochastic`.
  void update(float value, const Tensor &old, const Tensor *oldBeside,
              float random, int64_t index, Tensor &parameter,
              Tensor *beside) const;

  /// Element `index` of an initial value: either tensor may be null.
  void start(float value, int64_t index, Tensor *parameter,
             Tensor *beside) const;

private:
  Master master;
  FloatFormat format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_STORAGE_H
