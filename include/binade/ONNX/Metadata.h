//===- Metadata.h - Binade's metadata in ONNX files -------------*- C++ -*-===//
// Reads the keys `binade.*` of `metadata_props`, such as which tensors are
// trained and how initial values are drawn. docs/Import.md describes them.
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
  /// Whether the model has the key `binade.version`, which `binade.export`
  /// writes.
  bool isVersioned = false;
  /// The complete list of trained tensors, if the model has one.
  std::optional<llvm::StringSet<>> trainable;
  /// Whether `trainable` lists exactly the parameters of a module: other
  /// tensors are buffers and constants, which are never trained.
  bool hasSignature = false;
  /// Parameters of an exported module that the file lacks, or layers that have
  /// such parameters.
  llvm::StringSet<> absent;
  /// Parameters that are not trained, but are part of the state of a run.
  llvm::StringSet<> frozen;
  /// Running variances that are updated with the unbiased variance of a batch.
  llvm::StringSet<> unbiased;
  /// Default lengths of symbolic dimensions.
  llvm::StringMap<int64_t> dims;
  /// Graph inputs that are parameters or buffers without a stored value.
  llvm::StringMap<InitialRule> initial;
};

/// Reads the keys `binade.*` of the model. Fails on unknown keys, values of a
/// wrong form and names that the graph does not have.
FailureOr<Metadata> readMetadata(const Model &model);

/// Returns the initial value of `type` that `rule` defines: `#binade.random`,
/// or a splat constant.
Attribute getInitialValue(const InitialRule &rule, RankedTensorType type);

} // namespace mlir::binade

#endif // BINADE_ONNX_METADATA_H
