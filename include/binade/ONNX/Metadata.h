//===- Metadata.h - What ONNX cannot say ------------------------*- C++ -*-===//
// The keys `binade.*` of `metadata_props`; docs/Import.md describes them.
//===----------------------------------------------------------------------===//

#ifndef BINADE_ONNX_METADATA_H
#define BINADE_ONNX_METADATA_H

#include "binade/ONNX/Model.h"
#include "mlir/IR/BuiltinTypes.h"
#include "nlohmann/json_fwd.hpp"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {

/// The rule for a tensor's initial values.
struct InitialRule {
  std::string kind;    ///< normal, uniform or constant
  double origin = 0.0; ///< mean, lower end, or the value
  double scale = 0.0;  ///< standard deviation, or length
};

struct Metadata {
  /// Whether the model says by what version of these keys it was written, as
  /// `binade.export` does.
  bool isVersioned = false;
  /// Complete list of trained tensors, where the model has one.
  std::optional<llvm::StringSet<>> trainable;
  /// Parameters that are not trained, but kept with the state.
  llvm::StringSet<> frozen;
  /// Running variances that advance with the unbiased variance.
  llvm::StringSet<> unbiased;
  /// Values of symbolic dimensions that nobody gives.
  llvm::StringMap<int64_t> dims;
  /// Graph inputs that are parameters or buffers without a stored value.
  llvm::StringMap<InitialRule> initial;
};

FailureOr<Metadata> readMetadata(const Model &model);

/// The rule as an initial value of `type`: random, or equal elements.
Attribute getInitialValue(const InitialRule &rule, RankedTensorType type);

} // namespace mlir::binade

#endif // BINADE_ONNX_METADATA_H
