//===- WatchedValues.h - which values of a step can be watched --*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_WATCHEDVALUES_H
#define BINADE_LIB_MONITOR_WATCHEDVALUES_H

#include "binade/IR/Interface.h"
#include "binade/Monitor/Requests.h"

namespace mlir::binade {

struct WatchedValue {
  WatchedKind kind;
  /// As the model calls it: a parameter, or a node without its first slash.
  std::string layer;
  Value value;
  /// What has the same bytes in memory, and a kernel that makes or reads it.
  Value shown;
  Phase phase = Phase::Forward;
  /// What the value is multiplied by before it is looked at; null for nothing.
  Value factor = {};
  /// The loss scale, which the value is divided by likewise; null for none.
  Value scale = {};
  /// The update of a weight; null for others.
  OptimizerUpdateOp update = {};
  /// What a quantized state stands for, which is looked at in place of `value`,
  /// its codes.
  struct Codes {
    SmallVector<Value> parts; ///< Codes first.
    QuantizedAttr format;
    RankedTensorType type; ///< Of what they stand for: f32.
  };
  std::optional<Codes> codes = {};
};

/// All of `step`, by kind. No two of one kind are called alike.
std::vector<WatchedValue> collectWatchedValues(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_WATCHEDVALUES_H
