//===- Dimensions.h - Symbolic dimensions and their values ------*- C++ -*-===//

#ifndef BINADE_ONNX_DIMENSIONS_H
#define BINADE_ONNX_DIMENSIONS_H

#include "binade/ONNX/Model.h"
#include "mlir/IR/BuiltinTypes.h"
#include <map>

namespace onnx {
class ValueInfoProto;
} // namespace onnx

namespace mlir::binade {

/// Binds the names of symbolic dimensions to lengths.
class Dimensions {
public:
  /// Binds each name to its length in `given`, or else to the one in
  /// `defaults`. Fails if the inputs have names without a length (one error
  /// lists them all), or if `given` has a name that no input has.
  LogicalResult bind(const Model &model, const llvm::StringMap<int64_t> &given,
                     const llvm::StringMap<int64_t> &defaults);

  /// Returns the bound names and their lengths.
  std::map<std::string, int64_t> getBound() const;

  bool isBound(StringRef name) const { return values.contains(name); }

  /// Returns the static type of a graph input.
  FailureOr<RankedTensorType>
  getType(const Model &model, const ::onnx::ValueInfoProto &input) const;

  /// Fails unless the declaration `info` agrees with `type`. The error names
  /// the value by `part`, such as "output", and introduces `type` by `how`.
  /// Shapes are compared only if `isAssumed` is false: the shape of `type` may
  /// be an assumption.
  LogicalResult check(const Model &model, StringRef part,
                      const ::onnx::ValueInfoProto &info, RankedTensorType type,
                      StringRef how = "is computed as",
                      bool isAssumed = false) const;

private:
  llvm::StringMap<int64_t> values;
};

} // namespace mlir::binade

#endif // BINADE_ONNX_DIMENSIONS_H
