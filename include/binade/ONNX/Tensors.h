//===- Tensors.h - Stored tensors as attributes -----------------*- C++ -*-===//

#ifndef BINADE_ONNX_TENSORS_H
#define BINADE_ONNX_TENSORS_H

#include "binade/IR/ExternalData.h"
#include "binade/ONNX/ElementTypes.h"
#include "binade/ONNX/Model.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {

/// Returns the bytes of a tensor of `type` in ONNX's `raw_data`.
uint64_t getBytes(RankedTensorType type);

/// Reads tensors of one model. Every byte of another file is read or referred
/// to through this class.
class TensorReader {
public:
  TensorReader(const Model &model, bool allowHardLinks)
      : model(model), external(model.getDirectory(), allowHardLinks) {}

  /// Returns the type of `tensor`, after checking everything except its data.
  FailureOr<RankedTensorType> getType(Location loc,
                                      const ::onnx::TensorProto &tensor);

  /// Fails unless `tensor` has the data that its type needs.
  LogicalResult check(Location loc, const ::onnx::TensorProto &tensor);

  /// Returns the bytes of all elements, in the format of ONNX's `raw_data`.
  FailureOr<std::vector<char>> readBytes(Location loc,
                                         const ::onnx::TensorProto &tensor);

  /// Fails if an element is NaN or infinite; with `canBeMask`, minus infinity
  /// is allowed.
  LogicalResult checkFinite(Location loc, const ::onnx::TensorProto &tensor,
                            bool canBeMask);

  /// Returns the elements as an attribute, whatever their number.
  FailureOr<TypedAttr> readElements(Location loc,
                                    const ::onnx::TensorProto &tensor);

  /// Returns the elements if they take at most `kInlineBytes` bytes, and
  /// otherwise a reference to their file as `refer` does.
  FailureOr<TypedAttr> readConstant(Location loc,
                                    const ::onnx::TensorProto &tensor,
                                    std::optional<ByteRange> range);

  /// Returns a reference to the range of the file that stores the elements, or
  /// the elements if the model does not store them as plain bytes. `range` is
  /// the range of the raw data in the model's own file, if they are there.
  FailureOr<TypedAttr> refer(Location loc, const ::onnx::TensorProto &tensor,
                             std::optional<ByteRange> range);

private:
  FailureOr<ExternalPlace> findExternal(Location loc,
                                        const ::onnx::TensorProto &tensor,
                                        RankedTensorType type);

  const Model &model;
  ExternalData external;
  llvm::StringSet<> warned; ///< Tensors whose external data were warned about.
};

/// Constants with more bytes stay in their files.
inline constexpr uint64_t kInlineBytes = 64 << 10;

} // namespace mlir::binade

#endif // BINADE_ONNX_TENSORS_H
