//===- Weights.h - Stored tensors on their way to a new file ----*- C++ -*-===//

#ifndef BINADE_LIB_CONVERTONNX_WEIGHTS_H
#define BINADE_LIB_CONVERTONNX_WEIGHTS_H

#include "Blocks.h"
#include "binade/IR/ExternalData.h"
#include "binade/ONNX/ExternalDataWriter.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

namespace onnx {
class GraphProto;
class ModelProto;
class TensorProto;
} // namespace onnx

namespace mlir::binade::convert {

class TensorCodes;

/// What a stored tensor becomes: of another type, or codes of FP8, whose scales
/// become the values of the initializer that is named.
struct StoredFormat {
  int32_t type = 0;
  std::string scales = {};
  QuantizedInput codes = {};
};
using StoredFormats = llvm::StringMap<StoredFormat>;

/// Gives a tensor of f32, whose data are in its message, another type. Finite
/// numbers stay finite.
void convertConstant(::onnx::TensorProto &tensor, int32_t type);

/// Moves a model's stored tensors to a new file, a piece at a time.
class WeightWriter {
public:
  /// `directory` is that of the model, `output` the new model's path.
  WeightWriter(const std::string &directory, const std::string &output,
               bool allowHardLinks)
      : directory(directory), external(directory, allowHardLinks),
        data(output) {}

  /// Gives the initializers of `model` that `stored` names other types, and
  /// writes to the file beside the model what was beside it, and large tensors
  /// where it would become too large. Tensors with one place have one place
  /// again.
  ::binade::Result<void> write(::onnx::ModelProto &model,
                               const StoredFormats &stored);

  /// Makes the file appear, if there is one.
  ::binade::Result<void> commit();

  /// The file of external data; empty if there is none.
  StringRef getData() const {
    return data.isOpen() ? StringRef(data.getPath()) : StringRef();
  }

private:
  struct Place {
    std::string location;
    ByteRange range;
    std::shared_ptr<const TensorCodes> codes = {}; ///< For their scales.
  };
  ::binade::Result<void> move(::onnx::TensorProto &tensor, StoredFormat format);
  ::binade::Result<Place> find(const ::onnx::TensorProto &tensor);
  ::binade::Result<Place> moveExternal(const ::onnx::TensorProto &tensor,
                                       const StoredFormat &format);
  ::binade::Result<Place> moveInside(const ::onnx::TensorProto &tensor);
  using Visit = llvm::function_ref<::binade::Result<void>(std::span<float>)>;
  /// Calls `visit` for the elements at a place, a piece at a time: a multiple
  /// of `band` elements, or all that are left.
  ::binade::Result<void> readPieces(const Place &from, size_t band,
                                    Visit visit);
  ::binade::Result<void> copy(const Place &from, uint64_t to);
  ::binade::Result<void> encode(const Place &from, uint64_t to, int32_t type);
  ::binade::Result<void> encode(const Place &from, uint64_t to,
                                TensorCodes &codes);

  std::string directory;
  ExternalData external;
  ExternalDataWriter data;
  bool movesAll = false;
  llvm::StringMap<Place> places; ///< In `data`.
  llvm::StringMap<::onnx::TensorProto *> scales;
  /// Those of codes beside the model, which are beside it, too.
  llvm::SmallPtrSet<const ::onnx::TensorProto *, 32> scalesBeside;
  llvm::SmallPtrSet<const ::onnx::TensorProto *, 32> moved;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_WEIGHTS_H
