//===- Magic.cpp - Recognition of file types ------------------------------===//

#include "binade/Container/Magic.h"

namespace binade {

namespace {
struct Kind {
  std::size_t offset;
  std::string_view bytes;
  std::string_view name;
  std::string_view advice;
};
} // namespace

using namespace std::string_view_literals;

static constexpr Kind kinds[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer",
     "run 'git lfs pull' to fetch the data that it refers to"},
    {0, "\x1f\x8b"sv, "a gzip file", "decompress it first"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", "decompress it first"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz file", "decompress it first"},
    {0, "BZh"sv, "a bzip2 file", "decompress it first"},
    {30, "metadata.json"sv, "a Keras model (.keras)",
     "export it to ONNX with binade.keras.export(model, path)"},
    {0, "PK\x03\x04"sv,
     "a zip archive (a PyTorch checkpoint, a TorchScript or torch.export "
     "program, and an .npz file are such)",
     "'binade from-torch' writes a PyTorch module as ONNX, 'binade data npz' "
     "an "
     ".npz file as safetensors, and safetensors.torch.save_file a state_dict"},
    {0, "\x80\x02"sv, "a Python pickle",
     "safetensors.torch.save_file(torch.load(FILE), OUT) writes its tensors as "
     "safetensors"},
    {0, "\x80\x04"sv, "a Python pickle",
     "safetensors.torch.save_file(torch.load(FILE), OUT) writes its tensors as "
     "safetensors"},
    {0, "\x93NUMPY"sv, "a NumPy array", ""},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, such as a Keras model",
     "export a model to ONNX with binade.keras.export(model, path), or convert "
     "tensors to safetensors with Python"},
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG image", ""},
    {0, "\xff\xd8\xff"sv, "a JPEG image", ""},
    {0, "%PDF-"sv, "a PDF document", ""},
    {0,
     "\x7f"
     "ELF"sv,
     "an ELF object", ""},
    {0, "GGUF"sv, "a GGUF file", ""},
    {0, "ML\xefR\x0dStableHLO"sv, "a StableHLO module",
     "export the function to ONNX, for example with binade.jax.export"},
    {0, "ML\xefR"sv, "MLIR bytecode", "print it as text with 'binade-opt'"},
    {4, "TFL3"sv, "a TensorFlow Lite model",
     "export the model from which it was made to ONNX"},
    // A SavedModel's first field is the version of its format, 1.
    {0, "\x08\x01\x12"sv, "a TensorFlow SavedModel",
     "export the model to ONNX, for a Keras model with "
     "binade.keras.export(model, path)"},
    {0, "<!DOCTYPE"sv, "an HTML page", "the download may have failed"},
    {0, "<!doctype"sv, "an HTML page", "the download may have failed"},
    {0, "<html"sv, "an HTML page", "the download may have failed"},
    {8, "{\""sv, "a safetensors file", ""},
};

static const Kind *find(std::span<const std::byte> head) {
  std::string_view text(reinterpret_cast<const char *>(head.data()),
                        head.size());
  for (const Kind &kind : kinds)
    if (text.size() > kind.offset &&
        text.substr(kind.offset).starts_with(kind.bytes))
      return &kind;
  return nullptr;
}

std::string_view recognizeMagic(std::span<const std::byte> head) {
  const Kind *kind = find(head);
  return kind ? kind->name : "";
}

std::string_view magicAdvice(std::span<const std::byte> head) {
  const Kind *kind = find(head);
  return kind ? kind->advice : "";
}

} // namespace binade
