//===- Driver.h - The CUDA driver, loaded at run time -----------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_DRIVER_H
#define BINADE_RUNTIME_CUDA_DRIVER_H

#include "DriverApi.h"
#include "binade/Container/Error.h"

namespace binade::cuda {

/// A function of a library that is loaded at run time, with its name for
/// messages.
template <typename Type> struct Function;
template <typename... Parameters> struct Function<int(Parameters...)> {
  const char *name;
  int (*address)(Parameters...) = nullptr;
};

/// The functions of the driver.
struct DriverTable {
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS)                               \
  Function<int PARAMETERS> NAME = {#SYMBOL};
  BINADE_CUDA_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
};

/// Returns a CUDA version as text: 12030 is "12.3".
std::string formatCudaVersion(int version);
/// Returns the first Linux driver with this CUDA version, such as "545.23.06";
/// empty for unknown versions.
std::string findMinimalDriver(int version);

/// The initialized driver. Errors have exit code 6.
class Driver {
public:
  /// Opens and initializes the driver. Tests pass another `library`.
  static Result<Driver> open(const char *library = "libcuda.so.1");

  /// Returns the CUDA version of the driver, such as 12030 for 12.3.
  int getVersion() const { return version; }
  int getDeviceCount() const { return devices; }

  /// Calls a function of the driver.
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) const {
    if (int status = function.address(arguments...))
      return describe(status, function.name);
    return {};
  }

  /// Returns an error for `status` of `call`, with advice if there is any. Exit
  /// code 6, or 7 if the device is out of memory.
  Error describe(int status, std::string_view call) const;

  DriverTable functions;

private:
  Driver() = default;
  int version = 0, devices = 0;
};

/// Whether `status` destroys the context, so that every later call fails.
bool isSticky(int status);

/// The advice for a device that is out of memory.
inline constexpr const char *kMemoryAdvice =
    "nvidia-smi shows which processes have memory of the device";

/// The oldest supported CUDA version of the driver.
inline constexpr int kOldestCuda = 11080;

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DRIVER_H
