//===- WatchedValues.h - Values of a step that can be watched ---*- C++ -*-===//

#ifndef BINADE_LIB_MONITOR_WATCHEDVALUES_H
#define BINADE_LIB_MONITOR_WATCHEDVALUES_H

#include "binade/IR/Interface.h"
#include "binade/Monitor/Requests.h"

namespace mlir::binade {

/// A weight before and after its update.
struct WeightChange {
  Value gradient;
  Value after;
  /// Whether the step updates nothing; null if it always does.
  Value skip = {};
  /// The master weight, remainder or compensation, before and after; null
  /// without one.
  Value companion = {}, companionAfter = {};
};

struct WatchedValue {
  WatchedKind kind;
  /// The name in the model: of a parameter, or of a node without its first
  /// slash.
  std::string layer;
  Value value;
  /// A value with the same bytes, which a kernel writes or reads.
  Value shown;
  Phase phase = Phase::Forward;
  /// Whether another kind has the same elements: a scaled gradient of a step
  /// without a loss scale.
  bool isRepeated = false;
  /// The factor by which the value is multiplied before statistics; null for
  /// none.
  Value factor = {};
  /// The loss scale, by which the value is divided before statistics; null for
  /// none.
  Value scale = {};
  /// How the step changes a weight; none for others.
  std::optional<WeightChange> change = {};
  /// The dequantized state, whose statistics are computed instead of those of
  /// `value`, its quantized elements.
  struct Codes {
    SmallVector<Value> parts; ///< Quantized elements first.
    QuantizedAttr format;
    RankedTensorType type; ///< Of the dequantized state: f32.
  };
  std::optional<Codes> codes = {};
};

/// Returns all values of `step`, by kind. Names within a kind are unique.
std::vector<WatchedValue> collectWatchedValues(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_LIB_MONITOR_WATCHEDVALUES_H
