//===- Weights.h - Stored tensors on their way to a new file ----*- C++ -*-===//

#ifndef BINADE_LIB_EXPORT_WEIGHTS_H
#define BINADE_LIB_EXPORT_WEIGHTS_H

#include "binade/Container/AtomicFile.h"
#include "binade/Container/ExternalFile.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

namespace onnx {
class ModelProto;
class TensorProto;
} // namespace onnx

namespace mlir::binade::convert {

/// Gives a tensor of f32, whose data are in its message, another type. Finite
/// numbers stay finite.
void convertConstant(::onnx::TensorProto &tensor, int32_t type);

/// Moves a model's stored tensors to a new file, a piece at a time.
class WeightWriter {
public:
  /// `directory` is that of the model, `output` the new model's path.
  WeightWriter(std::string directory, std::string output, bool allowHardLinks)
      : directory(std::move(directory)), path(output + ".data"),
        allowHardLinks(allowHardLinks) {}

  /// Gives the initializers of `model` that `stored` names other types, and
  /// writes to the file beside the model what was beside it, and large tensors
  /// where it would become too large. Tensors with one place have one place
  /// again.
  ::binade::Result<void> write(::onnx::ModelProto &model,
                               const llvm::StringMap<int32_t> &stored);

  /// Makes the file appear, if there is one.
  ::binade::Result<void> commit();

  /// Empty where nothing is beside the model.
  StringRef getData() const { return data ? StringRef(path) : StringRef(); }

private:
  struct Place {
    std::string location;
    uint64_t offset = 0, size = 0;
  };
  ::binade::Result<void> move(::onnx::TensorProto &tensor, int32_t type);
  ::binade::Result<Place> find(const ::onnx::TensorProto &tensor);
  ::binade::Result<void> copy(const Place &from, uint64_t to, bool isConverted,
                              int32_t type);

  std::string directory, path;
  bool allowHardLinks;
  bool movesAll = false;
  std::optional<::binade::AtomicFile> data;
  uint64_t end = 0;
  llvm::StringMap<::binade::ExternalFile> files;
  llvm::StringMap<Place> places; ///< In `data`.
  llvm::SmallPtrSet<const ::onnx::TensorProto *, 32> moved;
};

} // namespace mlir::binade::convert

#endif // BINADE_LIB_EXPORT_WEIGHTS_H
