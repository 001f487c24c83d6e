//===- Tensors.h - Stored tensors as attributes -----------------*- C++ -*-===//

#ifndef BINADE_ONNX_TENSORS_H
#define BINADE_ONNX_TENSORS_H

#include "binade/IR/ExternalData.h"
#include "binade/ONNX/ElementTypes.h"
#include "binade/ONNX/Model.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::binade {

uint64_t getBytes(RankedTensorType type);

/// Reads tensors of one model. Every byte of another file is read or referred
/// to through this class.
class TensorReader {
public:
  TensorReader(const Model &model, bool allowHardLinks)
      : model(model), external(model.getDirectory(), allowHardLinks) {}

  /// Type of `tensor`, with checks of everything but its data.
  FailureOr<RankedTensorType> getType(Location loc,
                                      const ::onnx::TensorProto &tensor);

  /// Fails unless `tensor` has the data that its type needs.
  LogicalResult check(Location loc, const ::onnx::TensorProto &tensor);

  /// Bytes of the elements, of any length, as ONNX's `raw_data` has them.
  FailureOr<std::vector<char>> readBytes(Location loc,
                                         const ::onnx::TensorProto &tensor);

  /// Fails where an element is NaN or infinite; minus infinity is none with
  /// `canBeMask`.
  LogicalResult checkFinite(Location loc, const ::onnx::TensorProto &tensor,
                            bool canBeMask);

  /// The elements themselves, whatever their number.
  FailureOr<TypedAttr> readElements(Location loc,
                                    const ::onnx::TensorProto &tensor);

  /// Elements up to `kInlineBytes`, beyond a reference to the file that holds
  /// them. `range`: where the model's file has them, if it has them as bytes.
  FailureOr<TypedAttr> readConstant(Location loc,
                                    const ::onnx::TensorProto &tensor,
                                    std::optional<ByteRange> range);

  /// A reference to the file that holds the elements; elements where the model
  /// has them in another form than plain bytes.
  FailureOr<TypedAttr> refer(Location loc, const ::onnx::TensorProto &tensor,
                             std::optional<ByteRange> range);

private:
  FailureOr<ExternalPlace> findExternal(Location loc,
                                        const ::onnx::TensorProto &tensor,
                                        RankedTensorType type);

  const Model &model;
  ExternalData external;
  llvm::StringSet<> warned; ///< Tensors of which something is not read.
};

/// Larger constants stay in their files.
inline constexpr uint64_t kInlineBytes = 64 << 10;

} // namespace mlir::binade

#endif // BINADE_ONNX_TENSORS_H
