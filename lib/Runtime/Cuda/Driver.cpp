//===- Driver.cpp - The CUDA driver, loaded at run time -------------------===//

#include "Driver.h"
#include <cstdlib>
#include <dlfcn.h>

using namespace binade;
using namespace binade::cuda;

std::string cuda::formatCudaVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

// From the release notes of the toolkits.
std::string cuda::findMinimalDriver(int version) {
  static constexpr std::pair<int, const char *> drivers[] = {
      {11080, "520.61.05"}, {12000, "525.60.13"}, {12010, "530.30.02"},
      {12020, "535.54.03"}, {12030, "545.23.06"}, {12040, "550.54.14"},
      {12050, "555.42.02"}, {12060, "560.28.03"}, {12080, "570.26"},
      {12090, "575.51.03"}, {13000, "580.65.06"},
  };
  for (auto [cuda, driver] : drivers)
    if (cuda == version)
      return driver;
  return {};
}

static Error deviceError(std::string message) {
  return {"cuda", std::move(message), ExitCode::Device};
}

/// Some installations of the toolkit contain a stub of this library, which is
/// only for linking.
static constexpr const char *kDriverNote =
    "libcuda.so.1 comes with NVIDIA's driver; nvidia-smi shows whether it "
    "works";

static const char *findAdvice(int status) {
  switch (status) {
  case status::OutOfMemory:
    return kMemoryAdvice;
  case status::StubLibrary:
    return "the library is a stub for linking; remove its folder from "
           "LD_LIBRARY_PATH";
  case status::SystemNotReady:
    return "the system's services for the device do not run yet, such as "
           "nvidia-fabricmanager";
  case status::SystemDriverMismatch:
    return "libcuda.so.1 and the kernel's module are of different versions; "
           "restart the machine after an update";
  case status::EccUncorrectable:
  case status::NvlinkUncorrectable:
    return "the hardware reports a fault that it cannot correct; look for Xid "
           "in the kernel's log";
  case status::IllegalAddress:
  case status::MisalignedAddress:
  case status::IllegalInstruction:
  case status::InvalidAddressSpace:
  case status::InvalidPc:
    return "a kernel failed; please report it with the bundle";
  case status::Unknown:
    return "the kernel's log may say more: look for Xid or NVRM";
  default:
    return nullptr;
  }
}

bool cuda::isSticky(int status) {
  switch (status) {
  case status::EccUncorrectable:
  case status::NvlinkUncorrectable:
  case status::Contained:
  case status::IllegalAddress:
  case status::LaunchTimeout:
  case status::Assert:
  case status::HardwareStackError:
  case status::IllegalInstruction:
  case status::MisalignedAddress:
  case status::InvalidAddressSpace:
  case status::InvalidPc:
  case status::LaunchFailed:
  case status::TensorMemoryLeak:
  case status::ExternalDevice:
  case status::Unknown:
    return true;
  default:
    return false;
  }
}

Error Driver::describe(int status, std::string_view call) const {
  const char *name = nullptr, *text = nullptr;
  if (functions.getErrorName.address(status, &name) || !name)
    name = "an error that the driver does not name";
  if (functions.getErrorString.address(status, &text) || !text)
    text = "no description";
  Error error =
      deviceError(std::string(call) + " failed: " + printable(name) + " (" +
                  std::to_string(status) + "): " + printable(text));
  if (status == status::OutOfMemory)
    error.exitCode = ExitCode::Resources;
  if (const char *advice = findAdvice(status))
    return std::move(error).withNote(advice);
  return error;
}

/// Adds a note about CUDA_VISIBLE_DEVICES, or about the driver if it is not
/// set.
static Error noteVisibility(Error error) {
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible)
    return std::move(error).withNote(kDriverNote);
  return std::move(error).withNote("CUDA_VISIBLE_DEVICES is " + quote(visible) +
                                   ": it hides the devices that it does not "
                                   "name");
}

Result<Driver> Driver::open(const char *library) {
  // Never closed, because threads of the driver may still run.
  void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *reason = ::dlerror();
    return deviceError("the driver cannot be opened: " +
                       printable(reason ? reason : library))
        .withNote(kDriverNote);
  }
  Driver driver;
  const char *missing = nullptr;
#define BINADE_LOAD(NAME, SYMBOL, PARAMETERS)                                  \
  driver.functions.NAME.address =                                              \
      reinterpret_cast<int(*) PARAMETERS>(::dlsym(handle, #SYMBOL));           \
  if (!driver.functions.NAME.address && !missing)                              \
    missing = #SYMBOL;
  BINADE_CUDA_FUNCTIONS(BINADE_LOAD)
#undef BINADE_LOAD
  std::string needed = "CUDA " + formatCudaVersion(kOldestCuda) + " (driver " +
                       findMinimalDriver(kOldestCuda) + ") or newer is needed";
  if (missing)
    return deviceError(std::string(library) + " has no function " + missing)
        .withNote(needed);
  const DriverTable &functions = driver.functions;
  // Checked before cuInit, which may fail because of the version.
  if (auto done = driver.call(functions.driverGetVersion, &driver.version);
      !done)
    return done.takeError();
  if (driver.version < kOldestCuda)
    return deviceError("the driver is too old: it has CUDA " +
                       formatCudaVersion(driver.version))
        .withNote(needed);
  if (int status = functions.init.address(0)) {
    Error error = driver.describe(status, functions.init.name);
    return status == status::NoDevice ? noteVisibility(std::move(error))
                                      : std::move(error);
  }
  if (auto done = driver.call(functions.deviceGetCount, &driver.devices); !done)
    return done.takeError();
  if (driver.devices == 0)
    return noteVisibility(deviceError("the driver sees no device"));
  return driver;
}
