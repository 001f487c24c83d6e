//===- Bundle.h - File format of compiled programs --------------*- C++ -*-===//
// A bundle is a safetensors file with the tensors `plan` (JSON as U8),
// `kernels/<level>` (an ELF shared object per ISA level, as U8),
// `modules/<number>/<chip>` (GPU kernels), `source` (the textual module that
// kernels were compiled from) and `init/<name>` (initial values). The metadata
// contain format, version, and the SHA-256 of all of these but initial values.
//===----------------------------------------------------------------------===//

#ifndef BINADE_PLAN_BUNDLE_H
#define BINADE_PLAN_BUNDLE_H

#include "binade/Container/Safetensors.h"
#include "binade/Plan/Plan.h"
#include <functional>

namespace binade {

inline constexpr std::string_view kPlanTensor = "plan";
inline constexpr std::string_view kKernelTensorPrefix = "kernels/";
inline constexpr std::string_view kModuleTensorPrefix = "modules/";
inline constexpr std::string_view kSourceTensor = "source";
inline constexpr std::string_view kBundleFormat = "binade-bundle";
inline constexpr std::string_view kBundleVersion = "1";

/// An initial value with its bytes.
struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// The images of a module of GPU kernels, by the chip that they are compiled
/// for: a cubin (`sm_90`) or PTX (`compute_90`).
using ModuleImages = std::map<std::string, std::vector<std::byte>, std::less<>>;

/// The result of a compilation.
struct Bundle {
  Plan plan;
  /// Shared objects by ISA level (`x86-64-v3`, `x86-64-v4`).
  std::map<std::string, std::vector<std::byte>, std::less<>> kernels;
  /// Indexed by `plan::DeviceKernel::module`.
  std::vector<ModuleImages> modules;
  /// The textual module from which the kernels can be compiled again; empty if
  /// it was not requested.
  std::string source;
  /// Initial values to which ports refer by `plan::BundleInit`.
  std::vector<StoredTensor> init;
};

/// Reads the bytes of `external` from its file in `directory` into the memory
/// that `allocate` returns. Calls `allocate` only once the size of the file has
/// been checked.
Result<void>
readExternal(const plan::ExternalInit &external, const std::string &directory,
             const std::function<std::span<std::byte>()> &allocate);

/// Copies the external weights of a bundle, whose files are in `directory`,
/// into the bundle, so that it needs no other file.
Result<void> embedWeights(Bundle &bundle, const std::string &directory);

/// Copies the weights that are in `file`, whose contents are `contents`, into
/// the bundle. Their ranges have to be valid.
void embedWeights(Bundle &bundle, std::string_view file,
                  std::span<const std::byte> contents);

/// Writes a bundle atomically.
Result<void> writeBundle(const std::string &path, const Bundle &bundle);

/// Reads a whole bundle.
Result<Bundle> readBundle(const std::string &path);

/// Whether the metadata identify the file as a bundle.
bool isBundle(const Safetensors &file);

/// Checks format, version and hash, and reads the plan.
Result<Plan> readBundlePlan(const Safetensors &file);

/// Returns the shared object for `level`, after checking its hash; empty if the
/// bundle has none.
Result<std::vector<std::byte>> readBundleKernels(const Safetensors &file,
                                                 std::string_view level);

/// Returns the modules of GPU kernels, after checking their hashes.
Result<std::vector<ModuleImages>> readBundleModules(const Safetensors &file);

/// Returns the source of the kernels, after checking its hash; empty if the
/// bundle has none.
Result<std::string> readBundleSource(const Safetensors &file);

/// Returns the ISA levels for which the bundle has kernels.
std::vector<std::string> bundleLevels(const Safetensors &file);

} // namespace binade

#endif // BINADE_PLAN_BUNDLE_H
