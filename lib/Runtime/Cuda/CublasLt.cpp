//===- CublasLt.cpp - NVIDIA's matrix products, found at run time ---------===//

#include "CublasLt.h"
#include <dlfcn.h>

using namespace binade;
using namespace binade::cuda;

Error CublasLt::describe(int status, std::string_view call) const {
  const char *name = functions.getStatusName(status);
  Error error = {device.getProperties().format(),
                 std::string(call) +
                     " failed: " + printable(name ? name : "an unknown error") +
                     " (" + std::to_string(status) + ")",
                 ExitCode::Device};
  // The library says so where a kernel of the device failed.
  return status == lt::status::ExecutionFailed ? device.fail(std::move(error))
                                               : error;
}

std::string CublasLt::formatVersion() const {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::string CublasLt::identify() const {
  return device.getProperties().name + ", cublaslt " + formatVersion();
}

Result<std::shared_ptr<CublasLt>> CublasLt::open(Device &device) {
  static constexpr const char *names[] = {"libcublasLt.so.13",
                                          "libcublasLt.so.12"};
  return open(device, names);
}

Result<std::shared_ptr<CublasLt>>
CublasLt::open(Device &device, std::span<const char *const> libraries) {
  Error error = {"cuda", "cuBLASLt cannot be opened", ExitCode::Device};
  void *handle = nullptr;
  for (const char *name : libraries) {
    handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle)
      break;
    const char *reason = ::dlerror();
    error =
        std::move(error).withNote("tried " + printable(reason ? reason : name));
  }
  if (!handle)
    return std::move(error).withNote(
        "it comes with the CUDA toolkit, and as the Python package "
        "nvidia-cublas; LD_LIBRARY_PATH names its folder");
  std::shared_ptr<CublasLt> library(new CublasLt(device));
  lt::Table &functions = library->functions;
  const char *missing = nullptr;
  auto load = [&](auto &address, const char *symbol) {
    address = reinterpret_cast<std::remove_reference_t<decltype(address)>>(
        ::dlsym(handle, symbol));
    if (!address && !missing)
      missing = symbol;
  };
#define BINADE_LOAD(NAME, SYMBOL, PARAMETERS)                                  \
  load(functions.NAME.address, #SYMBOL);
  BINADE_CUBLASLT_FUNCTIONS(BINADE_LOAD)
#undef BINADE_LOAD
  load(functions.getVersion, "cublasLtGetVersion");
  load(functions.getStatusName, "cublasLtGetStatusName");
  if (missing)
    return Error{"cuda", std::string("cuBLASLt has no function ") + missing,
                 ExitCode::Device}
        .withNote("version 12.0 or newer is needed");
  library->version = functions.getVersion();
  if (auto done = library->call(functions.create, &library->handle); !done)
    return done.takeError();
  return library;
}

CublasLt::~CublasLt() {
  // Nobody to report to; after a failure the device is left as it is.
  if (handle)
    (void)call(functions.destroy, handle);
}
