//===- Dimensions.h - Symbolic dimensions and their values ------*- C++ -*-===//

#ifndef BINADE_LIB_IMPORT_ONNX_DIMENSIONS_H
#define BINADE_LIB_IMPORT_ONNX_DIMENSIONS_H

#include "Model.h"
#include "mlir/IR/BuiltinTypes.h"
#include "onnx-ml.pb.h"
#include <map>

namespace mlir::binade::importer {

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
  /// No value where the dimension has neither a length nor a bound name.
  std::optional<int64_t>
  getLength(const ::onnx::TensorShapeProto::Dimension &dimension) const;

  llvm::StringMap<int64_t> values;
};

} // namespace mlir::binade::importer

#endif // BINADE_LIB_IMPORT_ONNX_DIMENSIONS_H
