//===- CopySafetensors.cpp - Copies a safetensors file --------------------===//
// `binade-copy-safetensors IN OUT [--diag=json]` reads a file and writes its
// tensors to another, for tests that compare with the Python package.
//===----------------------------------------------------------------------===//

#include "binade/Container/Safetensors.h"
#include <cstdio>

using namespace binade;

static Result<void> copy(const std::string &from, const std::string &to) {
  Result<Safetensors> file = Safetensors::open(from);
  if (!file)
    return file.takeError();
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(to, file->getTensors(), file->getMetadata());
  if (!writer)
    return writer.takeError();
  // Copy in pieces, as is done for large tensors.
  std::vector<std::byte> buffer(1 << 16);
  for (std::size_t i = 0; i < file->getTensors().size(); ++i) {
    const TensorInfo &tensor = file->getTensors()[i];
    for (std::uint64_t done = 0; done < tensor.bytes;) {
      auto piece = std::span(buffer).first(
          std::min<std::uint64_t>(buffer.size(), tensor.bytes - done));
      if (Result<void> read = file->read(tensor, done, piece); !read)
        return read;
      if (Result<void> appended = writer->append(i, piece); !appended)
        return appended;
      done += piece.size();
    }
  }
  return writer->finish();
}

int main(int argc, char **argv) {
  if (argc < 3)
    return ExitCode::Usage;
  bool json = argc > 3 && std::string_view(argv[3]) == "--diag=json";
  Result<void> copied = copy(argv[1], argv[2]);
  if (copied)
    return ExitCode::Ok;
  std::string text = render(copied.error(), json ? DiagnosticFormat::Json
                                                 : DiagnosticFormat::Text);
  std::fprintf(stderr, "%s\n", text.c_str());
  return copied.error().exitCode;
}
