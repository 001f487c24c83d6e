//===- ExternalDataWriter.h - Tensors in a file next to a model -*- C++ -*-===//

#ifndef BINADE_ONNX_EXTERNALDATAWRITER_H
#define BINADE_ONNX_EXTERNALDATAWRITER_H

#include "binade/Container/AtomicFile.h"
#include "binade/ONNX/Model.h"
#include <span>

namespace mlir::binade {

/// Models with more bytes of weights than this store them as external data: a
/// protobuf message cannot be larger than 2 GiB.
inline constexpr uint64_t kMaxInlineBytes = uint64_t(1) << 30;
/// Tensors with fewer bytes stay in the model even then.
inline constexpr uint64_t kMinExternalBytes = 1 << 10;

/// Returns whether the data of `tensor` are in another file.
bool isExternal(const ::onnx::TensorProto &tensor);

/// Removes the data of `tensor`, or its reference to external data.
void clearData(::onnx::TensorProto &tensor);

/// Writes the external data of one model to one file, the model's name followed
/// by `.data`. Each tensor starts at a multiple of 64 bytes.
class ExternalDataWriter {
public:
  explicit ExternalDataWriter(const std::string &model)
      : model(model), path(model + ".data") {}

  /// Creates the file under a temporary name, unless it was created before.
  ::binade::Result<void> open();
  bool isOpen() const { return file.has_value(); }
  /// The name that the file has from `commit` on.
  const std::string &getPath() const { return path; }

  /// Returns the range of the file where the next `size` bytes belong.
  ByteRange allocate(uint64_t size);
  ::binade::Result<void> write(uint64_t offset,
                               std::span<const std::byte> bytes);

  /// Replaces the data of `tensor` by a reference to `range` of the file.
  void refer(::onnx::TensorProto &tensor, ByteRange range) const;

  /// Gives the file its name; does nothing unless it is open.
  ::binade::Result<void> commit();

private:
  std::string model, path;
  std::optional<::binade::AtomicFile> file;
  uint64_t end = 0; ///< The end of the allocated ranges.
};

} // namespace mlir::binade

#endif // BINADE_ONNX_EXTERNALDATAWRITER_H
