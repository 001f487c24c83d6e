//===- EmbedWeights.cpp - Make a bundle stand alone -----------------------===//

#include "binade/Container/ExternalFile.h"
#include "binade/Container/Sha256.h"
#include "binade/Plan/Bundle.h"

using namespace binade;
using namespace binade::plan;

/// Reads the bytes of one port.
static Result<std::vector<std::byte>> read(const ExternalInit &external,
                                           const std::string &directory) {
  Result<ExternalFile> file = openBeneath(directory, external.file);
  if (!file)
    return file.takeError();
  if (Result<void> exists = checkRange(*file, external.offset, external.bytes);
      !exists)
    return exists.takeError();
  std::vector<std::byte> bytes(external.bytes);
  if (Result<void> done = readRange(*file, external.offset, bytes); !done)
    return done.takeError();
  if (!external.sha256.empty() && sha256(bytes) != external.sha256)
    return Error{file->getPath(),
                 "the bytes do not have the SHA-256 that the model says"};
  return bytes;
}

Result<void> binade::embedWeights(Bundle &bundle,
                                  const std::string &directory) {
  for (Port &port : bundle.plan.ports) {
    auto *external = std::get_if<ExternalInit>(&port.init);
    if (!external)
      continue;
    Result<std::vector<std::byte>> bytes = read(*external, directory);
    if (!bytes)
      return bytes.takeError().withPart(std::string(name(port.role)) + " " +
                                        quote(port.name));
    const Buffer &buffer = bundle.plan.buffers[port.buffer];
    std::string tensor = "init/" + stateName(port.role, port.name);
    DType dtype = external->bytes == buffer.bytes ? buffer.dtype : DType::F32;
    bundle.init.push_back({tensor, dtype, buffer.shape, *std::move(bytes)});
    port.init = BundleInit{std::move(tensor)};
  }
  return {};
}
