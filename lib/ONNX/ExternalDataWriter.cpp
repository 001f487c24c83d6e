//===- ExternalDataWriter.cpp - Tensors in a file next to a model ---------===//

#include "binade/ONNX/ExternalDataWriter.h"
#include "onnx-ml.pb.h"
#include "llvm/Support/MathExtras.h"
#include <filesystem>

using namespace mlir;
using namespace mlir::binade;
using ::binade::Result;
using ::onnx::TensorProto;

static constexpr uint64_t kAlignment = 64;

bool mlir::binade::isExternal(const TensorProto &tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

void mlir::binade::clearData(TensorProto &tensor) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
}

Result<void> ExternalDataWriter::open() {
  if (file)
    return {};
  std::error_code unknown;
  auto kind = std::filesystem::status(model, unknown).type();
  if (kind == std::filesystem::file_type::character ||
      kind == std::filesystem::file_type::fifo)
    return ::binade::Error{
        ::binade::printable(model),
        "is a device or pipe, but the weights need a file of their own next to "
        "the model; choose a file name",
        ::binade::ExitCode::Usage};
  auto created = ::binade::AtomicFile::create(path);
  if (!created)
    return created.takeError();
  file.emplace(*std::move(created));
  return {};
}

ByteRange ExternalDataWriter::allocate(uint64_t size) {
  ByteRange range{llvm::alignTo(end, kAlignment), size};
  end = range.offset + size;
  return range;
}

Result<void> ExternalDataWriter::write(uint64_t offset,
                                       std::span<const std::byte> bytes) {
  return file->write(offset, bytes);
}

void ExternalDataWriter::refer(TensorProto &tensor, ByteRange range) const {
  clearData(tensor);
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &text) {
    auto &entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(text);
  };
  add("location", std::filesystem::path(path).filename());
  add("offset", std::to_string(range.offset));
  add("length", std::to_string(range.size));
}

Result<void> ExternalDataWriter::commit() {
  return file ? file->commit() : Result<void>();
}
