//===- Convert.cpp - Fuzz the ONNX converter ------------------------------===//

#include "Check.h"
#include "Context.h"
#include "binade/Pipelines/ConvertOnnx.h"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace binade;
namespace fs = std::filesystem;

namespace {
/// A temporary folder of this process, removed at its end. It is in memory if
/// the system has /dev/shm, because the converter flushes each file to disk.
class Folder {
public:
  Folder() : path(getRoot() / ("binade-fuzz-" + std::to_string(::getpid()))) {
    fs::create_directory(path);
  }
  ~Folder() { fs::remove_all(path); }

  fs::path path;

private:
  static fs::path getRoot() {
    fs::path memory = "/dev/shm";
    return fs::is_directory(memory) ? memory : fs::temp_directory_path();
  }
};
} // namespace

/// Derives the policy from the bytes, so that the file alone reproduces a
/// failure.
static const char *choosePolicy(fuzz::Bytes bytes) {
  constexpr const char *kPolicies[] = {"fp16-amp",      "bf16-amp", "coat",
                                       "autocast-onnx", "mxfp8",    "fp32"};
  std::uint32_t sum = 0;
  for (std::uint8_t byte : bytes)
    sum = sum * 31 + byte;
  return kPolicies[(sum >> 8) % std::size(kPolicies)];
}

void fuzz::convertModel(Bytes bytes) {
  static const Folder folder;
  fs::path model = folder.path / "f.onnx", out = folder.path / "out.onnx";
  std::ofstream(model, std::ios::binary) << toText(bytes).str();
  Context &context = Context::get();
  mlir::binade::OnnxConversion conversion;
  conversion.policy = choosePolicy(bytes);
  mlir::binade::OnnxConversionReport report;
  bool isRejected = failed(mlir::binade::convertOnnx(
      model.string(), conversion, out.string(), &context.mlir, report));
  context.checkResult(isRejected);
  check(fs::exists(out) != isRejected,
        "a file is written where the model is converted, and only there");
  fs::remove(out);
}
