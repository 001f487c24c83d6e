//===- Bundle.cpp - Reader and writer of bundles --------------------------===//

#include "binade/Plan/Bundle.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Sha256.h"
#include "binade/Plan/PlanJson.h"
#include <algorithm>
#include <charconv>

using namespace binade;

static std::string hashKey(std::string_view tensor) {
  return "sha256." + std::string(tensor);
}

Result<void> binade::writeBundle(const std::string &path,
                                 const Bundle &bundle) {
  std::string plan = writePlan(bundle.plan);
  std::vector<TensorBytes> tensors;
  SafetensorsMetadata metadata = {
      {"format", std::string(kBundleFormat)},
      {"format_version", std::string(kBundleVersion)},
      {"model", bundle.plan.model},
      {"policy", bundle.plan.policy},
      {"policy_hash", bundle.plan.policyHash}};
  auto addChecked = [&](std::string name, std::span<const std::byte> bytes) {
    metadata[hashKey(name)] = sha256(bytes);
    tensors.push_back({std::move(name),
                       DType::U8,
                       {static_cast<std::int64_t>(bytes.size())},
                       bytes});
  };
  addChecked(std::string(kPlanTensor), std::as_bytes(std::span(plan)));
  for (const auto &[level, object] : bundle.kernels)
    addChecked(std::string(kKernelTensorPrefix) + level, object);
  for (std::size_t i = 0; i < bundle.modules.size(); ++i)
    for (const auto &[chip, image] : bundle.modules[i])
      addChecked(std::string(kModuleTensorPrefix) + std::to_string(i) + "/" +
                     chip,
                 image);
  if (!bundle.source.empty())
    addChecked(std::string(kSourceTensor),
               std::as_bytes(std::span(bundle.source)));
  for (const StoredTensor &tensor : bundle.init)
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  return writeSafetensors(path, tensors, metadata);
}

bool binade::isBundle(const Safetensors &file) {
  auto format = file.getMetadata().find("format");
  return format != file.getMetadata().end() && format->second == kBundleFormat;
}

/// Reads a U8 tensor and checks it against its hash in the metadata.
static Result<std::vector<std::byte>> readChecked(const Safetensors &file,
                                                  const TensorInfo &tensor) {
  if (tensor.dtype != DType::U8)
    return file.errorAt(tensor, "type " + std::string(name(tensor.dtype)) +
                                    ", expected U8");
  std::vector<std::byte> bytes(tensor.bytes);
  if (Result<void> done = file.read(tensor, bytes); !done)
    return done.takeError();
  auto hash = file.getMetadata().find(hashKey(tensor.name));
  if (hash == file.getMetadata().end() || hash->second != sha256(bytes))
    return file.errorAt(tensor, "the bytes do not have the SHA-256 that the "
                                "bundle specifies: it was damaged or edited");
  return bytes;
}

Result<Plan> binade::readBundlePlan(const Safetensors &file) {
  const TensorInfo *tensor = file.find(kPlanTensor);
  if (!isBundle(file) || !tensor)
    return Error{file.getPath(), "a safetensors file, but not a bundle"}
        .withNote("'binade compile MODEL.onnx -o FILE' writes one");
  auto version = file.getMetadata().find("format_version");
  if (version == file.getMetadata().end() || version->second != kBundleVersion)
    return Error{file.getPath(), "a bundle of version " +
                                     quote(version == file.getMetadata().end()
                                               ? std::string_view()
                                               : version->second) +
                                     ", this runtime reads version " +
                                     std::string(kBundleVersion)};
  Result<std::vector<std::byte>> bytes = readChecked(file, *tensor);
  if (!bytes)
    return bytes.takeError();
  return readPlan(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()},
      file.getPath());
}

Result<std::vector<std::byte>>
binade::readBundleKernels(const Safetensors &file, std::string_view level) {
  std::string name(kKernelTensorPrefix);
  const TensorInfo *tensor = file.find(name.append(level));
  if (!tensor)
    return std::vector<std::byte>();
  return readChecked(file, *tensor);
}

Result<std::string> binade::readBundleSource(const Safetensors &file) {
  const TensorInfo *tensor = file.find(kSourceTensor);
  if (!tensor)
    return std::string();
  Result<std::vector<std::byte>> bytes = readChecked(file, *tensor);
  if (!bytes)
    return bytes.takeError();
  return std::string(reinterpret_cast<const char *>(bytes->data()),
                     bytes->size());
}

Result<std::vector<ModuleImages>>
binade::readBundleModules(const Safetensors &file) {
  std::vector<ModuleImages> modules;
  for (const TensorInfo &tensor : file.getTensors()) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kModuleTensorPrefix))
      continue;
    name.remove_prefix(kModuleTensorPrefix.size());
    std::size_t slash = name.find('/');
    std::size_t number = 0;
    const char *end = name.data() + std::min(slash, name.size());
    auto [last, status] = std::from_chars(name.data(), end, number);
    if (slash == name.npos || status != std::errc() || last != end ||
        number >= file.getTensors().size())
      return file.errorAt(tensor, "not the name of a module, expected '" +
                                      std::string(kModuleTensorPrefix) +
                                      "NUMBER/CHIP'");
    Result<std::vector<std::byte>> image = readChecked(file, tensor);
    if (!image)
      return image.takeError();
    if (modules.size() <= number)
      modules.resize(number + 1);
    modules[number].emplace(name.substr(slash + 1), *std::move(image));
  }
  return modules;
}

std::vector<std::string> binade::bundleLevels(const Safetensors &file) {
  std::vector<std::string> levels;
  for (const TensorInfo &tensor : file.getTensors())
    if (tensor.name.starts_with(kKernelTensorPrefix))
      levels.push_back(tensor.name.substr(kKernelTensorPrefix.size()));
  return levels;
}

/// Whether `name` is a tensor of the bundle format other than initial values.
static bool isOwnName(std::string_view name) {
  return name == kPlanTensor || name == kSourceTensor ||
         name.starts_with(kKernelTensorPrefix) ||
         name.starts_with(kModuleTensorPrefix);
}

Result<Bundle> binade::readBundle(const std::string &path) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  Bundle bundle;
  if (Result<Plan> plan = readBundlePlan(*file))
    bundle.plan = *std::move(plan);
  else
    return plan.takeError();
  for (const std::string &level : bundleLevels(*file)) {
    Result<std::vector<std::byte>> object = readBundleKernels(*file, level);
    if (!object)
      return object.takeError();
    bundle.kernels[level] = *std::move(object);
  }
  if (Result<std::vector<ModuleImages>> modules = readBundleModules(*file))
    bundle.modules = *std::move(modules);
  else
    return modules.takeError();
  if (Result<std::string> source = readBundleSource(*file))
    bundle.source = *std::move(source);
  else
    return source.takeError();
  for (const TensorInfo &tensor : file->getTensors()) {
    if (isOwnName(tensor.name))
      continue;
    StoredTensor &stored = bundle.init.emplace_back(
        StoredTensor{tensor.name, tensor.dtype, tensor.shape,
                     std::vector<std::byte>(tensor.bytes)});
    if (Result<void> done = file->read(tensor, stored.bytes); !done)
      return done.takeError();
  }
  return bundle;
}
