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

/// Binds the names of dimensions to numbers.
class Dimensions {
public:
  /// Takes `given`, then `defaults` for names that it lacks. Fails when an
  /// input has a dimension without a value (all are named in one error), or
  /// when `given` has a name that no input has.
  LogicalResult bind(const Model &model, const llvm::StringMap<int64_t> &given,
                     const llvm::StringMap<int64_t> &defaults);

  /// The names that inputs have, and their values.
  std::map<std::string, int64_t> getBound() const;

  bool isBound(StringRef name) const { return values.contains(name); }

  /// The static type of a graph input.
  FailureOr<RankedTensorType>
  getType(const Model &model, const ::onnx::ValueInfoProto &input) const;

  /// Fails when `info`, of a graph's output or value (`part`), is declared
  /// otherwise than `type`, of which it is what `how` says. Shapes are not
  /// compared where that of `type` is assumed.
  LogicalResult check(const Model &model, StringRef part,
                      const ::onnx::ValueInfoProto &info, RankedTensorType type,
                      StringRef how = "is computed as",
                      bool isAssumed = false) const;

private:
  llvm::StringMap<int64_t> values;
};

} // namespace mlir::binade

#endif // BINADE_ONNX_DIMENSIONS_H
