//===- Weights.h - Conversion of stored tensors -----------------*- C++ -*-===//

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

/// The new format of a stored tensor: another type, or FP8, with scales that
/// are stored in the initializer named `scales`.
struct StoredFormat {
  int32_t type = 0;
  std::string scales = {};
  QuantizedInput codes = {};
};
using StoredFormats = llvm::StringMap<StoredFormat>;

/// Converts an f32 tensor, whose data are in the message, to `type`, FLOAT16 or
/// BFLOAT16. Finite values stay finite.
void convertConstant(::onnx::TensorProto &tensor, int32_t type);

/// Converts a model's stored tensors and writes them to a new file of external
/// data, piece by piece.
class WeightWriter {
public:
  /// `directory` is the model's directory, `output` the new model's path.
  WeightWriter(const std::string &directory, const std::string &output,
               bool allowHardLinks)
      : directory(directory), external(directory, allowHardLinks),
        data(output) {}

  /// Converts the initializers of `model` that are in `stored`. Moves external
  /// data to the new file, and also large tensors if the model would become too
  /// large. Tensors that share data in the original share them again.
  ::binade::Result<void> write(::onnx::ModelProto &model,
                               const StoredFormats &stored);

  /// Gives the file of external data its name, if there is one.
  ::binade::Result<void> commit();

  /// The file of external data; empty if there is none.
  StringRef getData() const {
    return data.isOpen() ? StringRef(data.getPath()) : StringRef();
  }

private:
  struct Place {
    std::string location;
    ByteRange range;
    /// The scales of quantized data.
    std::shared_ptr<const TensorCodes> codes = {};
  };
  ::binade::Result<void> move(::onnx::TensorProto &tensor, StoredFormat format);
  ::binade::Result<Place> find(const ::onnx::TensorProto &tensor);
  ::binade::Result<Place> moveExternal(const ::onnx::TensorProto &tensor,
                                       const StoredFormat &format);
  ::binade::Result<Place> moveInside(const ::onnx::TensorProto &tensor);
  using Visit = llvm::function_ref<::binade::Result<void>(std::span<float>)>;
  /// Calls `visit` for the elements at a place, piece by piece: a multiple of
  /// `band` elements, or all remaining ones.
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
  llvm::StringMap<Place> places; ///< New places in `data`, by key.
  llvm::StringMap<::onnx::TensorProto *> scales;
  /// Scales of external quantized data, which are stored externally, too.
  llvm::SmallPtrSet<const ::onnx::TensorProto *, 32> externalScales;
  llvm::SmallPtrSet<const ::onnx::TensorProto *, 32> moved;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_CONVERTONNX_WEIGHTS_H
