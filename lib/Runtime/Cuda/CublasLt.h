//===- CublasLt.h - cuBLASLt, loaded at run time ----------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUBLASLT_H
#define BINADE_RUNTIME_CUDA_CUBLASLT_H

#include "CublasLtApi.h"
#include "Device.h"

namespace binade::cuda {

namespace lt {
/// The functions of cuBLASLt.
struct Table {
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  Function<int PARAMETERS> NAME = {#SYMBOL};
  BINADE_CUBLASLT_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
  std::size_t (*getVersion)() = nullptr;
  const char *(*getStatusName)(int) = nullptr;
};
} // namespace lt

/// cuBLASLt with a handle for one device.
class CublasLt {
public:
  /// Opens libcublasLt.so.13 or .12. An error (exit code 6) lists the names
  /// that were tried.
  static Result<std::shared_ptr<CublasLt>> open(Device &device);
  /// Opens the first of `libraries` that exists.
  static Result<std::shared_ptr<CublasLt>>
  open(Device &device, std::span<const char *const> libraries);
  CublasLt(const CublasLt &) = delete;
  ~CublasLt();

  const Device &getDevice() const { return device; }
  /// Returns the version, such as 120901 for 12.9.1.
  std::size_t getVersion() const { return version; }
  /// Returns the version as text, such as "12.9.1".
  std::string formatVersion() const { return formatVersion(version); }
  static std::string formatVersion(std::size_t version);
  /// Returns the key of this device and library for recorded algorithms, such
  /// as "NVIDIA H200, cublaslt 12.9.1".
  std::string identify() const;

private:
  friend class CublasLtMatmul;
  explicit CublasLt(Device &device) : device(device) {}
  Error describe(int status, std::string_view call) const;
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) const {
    if (device.hasFailed())
      return device.getFailure();
    if (int status = function.address(arguments...))
      return describe(status, function.name);
    return {};
  }

  Device &device;
  lt::Table functions;
  lt::Handle *handle = nullptr;
  std::size_t version = 0;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUBLASLT_H
