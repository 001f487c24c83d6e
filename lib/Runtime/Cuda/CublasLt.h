//===- CublasLt.h - NVIDIA's matrix products, found at run time -*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_CUBLASLT_H
#define BINADE_RUNTIME_CUDA_CUBLASLT_H

#include "CublasLtApi.h"
#include "Device.h"

namespace binade::cuda {

namespace lt {
/// The library's functions.
struct Table {
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  Function<int PARAMETERS> NAME = {#SYMBOL};
  BINADE_CUBLASLT_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
  std::size_t (*getVersion)() = nullptr;
  const char *(*getStatusName)(int) = nullptr;
};
} // namespace lt

/// The library, for one device.
class CublasLt {
public:
  /// Looks for libcublasLt.so.13 and .12. An error (exit code 6) says what was
  /// tried.
  static Result<std::shared_ptr<CublasLt>> open(Device &device);
  /// As `open`; looks for `libraries` alone.
  static Result<std::shared_ptr<CublasLt>>
  open(Device &device, std::span<const char *const> libraries);
  CublasLt(const CublasLt &) = delete;
  ~CublasLt();

  const Device &getDevice() const { return device; }
  /// 120901 is 12.9.1.
  std::size_t getVersion() const { return version; }
  /// "12.9.1"
  std::string formatVersion() const;
  /// By which plans know whose algorithms they have: "NVIDIA H200, cublaslt
  /// 12.9.1".
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
