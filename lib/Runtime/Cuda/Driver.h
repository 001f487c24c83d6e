//===- Driver.h - CUDA's driver, found at run time --------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_DRIVER_H
#define BINADE_RUNTIME_CUDA_DRIVER_H

#include "DriverApi.h"
#include "binade/Container/Error.h"

namespace binade::cuda {

/// A function of a library that was found at run time, with its name for
/// messages.
template <typename Type> struct Function;
template <typename... Parameters> struct Function<int(Parameters...)> {
  const char *name;
  int (*address)(Parameters...) = nullptr;
};

/// The driver's functions.
struct DriverTable {
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  Function<int PARAMETERS> NAME = {#SYMBOL};
  BINADE_CUDA_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
};

/// CUDA's version as the driver counts: 12030 is 12.3.
std::string formatCudaVersion(int version);
/// The first driver for Linux that has this version of CUDA, "545.23.06"; empty
/// for versions that are not known here.
std::string findMinimalDriver(int version);

/// The driver, initialized. Errors have exit code 6 and say which step failed.
class Driver {
public:
  /// Opens `library`; tests name others than NVIDIA's.
  static Result<Driver> open(const char *library = "libcuda.so.1");

  /// The version of CUDA that the driver has.
  int getVersion() const { return version; }
  int getDeviceCount() const { return devices; }

  /// Runs a function of the driver.
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) const {
    if (int status = function.address(arguments...))
      return describe(status, function.name);
    return {};
  }

  /// What `status` of `call` means and what helps: exit code 6, or 7 for memory
  /// that the device lacks.
  Error describe(int status, std::string_view call) const;

  DriverTable functions;

private:
  Driver() = default;
  int version = 0, devices = 0;
};

/// True where the context is lost: every later call would fail too.
bool isSticky(int status);

/// Where memory of a device went.
inline constexpr const char *kMemoryAdvice =
    "nvidia-smi shows which processes have memory of the device";

/// The oldest driver that is used, by its version of CUDA.
inline constexpr int kOldestCuda = 11080;

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DRIVER_H
