//===- Containers.cpp - Fuzz tensor files, bundles and plans --------------===//

#include "Check.h"
#include "Targets.h"
#include "binade/Container/TensorFile.h"
#include "binade/Plan/Bundle.h"
#include "binade/Plan/PlanJson.h"

#include <sys/mman.h>

using namespace binade;

/// Returns the value of `result`; checks its error if it has none.
template <typename T> static std::optional<T> take(Result<T> result) {
  if (result)
    return *std::move(result);
  fuzz::checkError(result.error());
  return std::nullopt;
}

void fuzz::readSafetensors(Bytes bytes) {
  std::optional<Safetensors> file =
      take(Safetensors::fromMemory(std::as_bytes(bytes), "f.safetensors"));
  if (!file)
    return;
  std::uint64_t total = 0;
  for (const TensorInfo &tensor : file->getTensors()) {
    check(file->find(tensor.name) != nullptr, "a tensor is found by its name");
    total += tensor.bytes;
    check(total <= bytes.size(), "tensors are in the file");
    std::vector<std::byte> data(tensor.bytes);
    check(bool(file->read(tensor, data)), "a tensor can be read");
  }
  (void)take(readBundlePlan(*file));
  (void)take(readBundleModules(*file));
  (void)take(readBundleSource(*file));
  for (const std::string &level : bundleLevels(*file))
    (void)take(readBundleKernels(*file, level));
}

void fuzz::readNumpy(Bytes bytes) {
  Descriptor memory(::memfd_create("f.npz", MFD_CLOEXEC));
  check(::write(memory.get(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()),
        "the file can be written");
  std::optional<TensorFile> file =
      take(TensorFile::open("/proc/self/fd/" + std::to_string(memory.get())));
  if (!file)
    return;
  constexpr std::uint64_t kMaxRatio = 1100;
  for (const TensorInfo &tensor : file->getTensors()) {
    check(file->find(tensor.name) != nullptr, "a tensor is found by its name");
    check(tensor.bytes / kMaxRatio <= bytes.size(),
          "a tensor has the bytes that the file contains");
    std::vector<std::byte> data(tensor.bytes);
    check(bool(file->read(tensor, 0, data)), "a tensor can be read");
  }
}

void fuzz::readPlan(Bytes bytes) {
  std::string_view text(reinterpret_cast<const char *>(bytes.data()),
                        bytes.size());
  (void)take(readQuantizedStates(text, "f.bnd"));
  std::optional<Plan> plan = take(binade::readPlan(text, "f.bnd"));
  if (!plan)
    return;
  std::string written = writePlan(*plan);
  std::optional<Plan> again = take(binade::readPlan(written, "f.bnd"));
  check(again && writePlan(*again) == written,
        "a plan that was read can be written and read");
}
