//===- EmbedWeights.cpp - Embedding of external weights -------------------===//

#include "binade/Container/ExternalFile.h"
#include "binade/Container/Sha256.h"
#include "binade/Plan/Bundle.h"

using namespace binade;
using namespace binade::plan;

Result<void>
binade::readExternal(const ExternalInit &external, const std::string &directory,
                     const std::function<std::span<std::byte>()> &allocate) {
  Result<ExternalFile> file = openBeneath(directory, external.file);
  if (!file)
    return file.takeError();
  if (Result<void> exists = checkRange(*file, external.offset, external.bytes);
      !exists)
    return exists;
  std::span<std::byte> bytes = allocate();
  if (Result<void> done = readRange(*file, external.offset, bytes); !done)
    return done;
  if (!external.sha256.empty() && sha256(bytes) != external.sha256)
    return Error{file->getPath(),
                 "the bytes do not have the SHA-256 that the plan specifies"};
  return {};
}

/// Stores `bytes` in the bundle as the initial value of `port`.
static void embed(Bundle &bundle, Port &port, std::vector<std::byte> bytes) {
  const Buffer &buffer = bundle.plan.buffers[port.buffer];
  std::string tensor = "init/" + stateName(port.role, port.name);
  DType dtype = bytes.size() == buffer.bytes ? buffer.dtype : DType::F32;
  bundle.init.push_back({tensor, dtype, buffer.shape, std::move(bytes)});
  port.init = BundleInit{std::move(tensor)};
}

Result<void> binade::embedWeights(Bundle &bundle,
                                  const std::string &directory) {
  for (Port &port : bundle.plan.ports) {
    auto *external = std::get_if<ExternalInit>(&port.init);
    if (!external)
      continue;
    std::vector<std::byte> bytes;
    Result<void> done = readExternal(*external, directory, [&] {
      bytes.resize(external->bytes);
      return std::span(bytes);
    });
    if (!done)
      return done.takeError().withPart(std::string(name(port.role)) + " " +
                                       quote(port.name));
    embed(bundle, port, std::move(bytes));
  }
  return {};
}

void binade::embedWeights(Bundle &bundle, std::string_view file,
                          std::span<const std::byte> contents) {
  for (Port &port : bundle.plan.ports)
    if (auto *external = std::get_if<ExternalInit>(&port.init);
        external && external->file == file) {
      auto bytes = contents.subspan(external->offset, external->bytes);
      embed(bundle, port, {bytes.begin(), bytes.end()});
    }
}
