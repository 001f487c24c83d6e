//===- Bundle.h - A compiled program as one file ----------------*- C++ -*-===//
// A safetensors file: `plan` (JSON as U8), `kernels/<level>` (an ELF shared
// object per ISA level, as U8), `source` (what kernels were compiled from, as
// text) and `init/<name>` (initial values). Its metadata say format and version
// and hold the SHA-256 of plan, kernels and source.
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

/// Some kernels of a device, by what they are compiled for: a cubin (`sm_90`),
/// PTX (`compute_90`).
using ModuleImages = std::map<std::string, std::vector<std::byte>, std::less<>>;

/// What the compiler makes.
struct Bundle {
  Plan plan;
  /// Shared objects by ISA level (`x86-64-v3`, `x86-64-v4`).
  std::map<std::string, std::vector<std::byte>, std::less<>> kernels;
  /// By `plan::DeviceKernel::module`.
  std::vector<ModuleImages> modules;
  /// The kernels as a textual module, from which a compiler makes them again;
  /// empty where nobody asks for that.
  std::string source;
  /// For ports of `plan::BundleInit`, by the names that those give.
  std::vector<StoredTensor> init;
};

/// Copies the bytes that `external` names, a file in `directory`, to what
/// `allocate` gives for them once the file is known to have them.
Result<void>
readExternal(const plan::ExternalInit &external, const std::string &directory,
             const std::function<std::span<std::byte>()> &allocate);

/// Copies the external weights of a bundle, sought in `directory`, into it, so
/// that it needs no other file.
Result<void> embedWeights(Bundle &bundle, const std::string &directory);

/// The same for those weights that are in `file`, which has `contents`: ranges
/// were checked when it was imported.
void embedWeights(Bundle &bundle, std::string_view file,
                  std::span<const std::byte> contents);

/// Writes a bundle atomically.
Result<void> writeBundle(const std::string &path, const Bundle &bundle);

/// All of a bundle.
Result<Bundle> readBundle(const std::string &path);

/// True if the file says that it is a bundle.
bool isBundle(const Safetensors &file);

/// Checks format, version and hashes and reads the plan.
Result<Plan> readBundlePlan(const Safetensors &file);

/// The shared object for `level`, checked against its hash; empty when the
/// bundle has none.
Result<std::vector<std::byte>> readBundleKernels(const Safetensors &file,
                                                 std::string_view level);

/// The modules of a bundle for a device, checked against their hashes.
Result<std::vector<ModuleImages>> readBundleModules(const Safetensors &file);

/// The text of the kernels, checked against its hash; empty when the bundle has
/// none.
Result<std::string> readBundleSource(const Safetensors &file);

/// The levels for which the bundle has kernels.
std::vector<std::string> bundleLevels(const Safetensors &file);

} // namespace binade

#endif // BINADE_PLAN_BUNDLE_H
