//===- CublasLt.cpp - cuBLASLt, loaded at run time ------------------------===//

#include "CublasLt.h"
#include "SharedLibrary.h"
#include "binade/Runtime/Library.h"

using namespace binade;
using namespace binade::cuda;

Error CublasLt::describe(int status, std::string_view call) const {
  const char *name = functions.getStatusName(status);
  Error error = {device.getProperties().format(),
                 std::string(call) +
                     " failed: " + printable(name ? name : "an unknown error") +
                     " (" + std::to_string(status) + ")",
                 ExitCode::Device};
  // The library returns this status after a failed kernel, and for calls that
  // cannot be captured into a graph.
  return status == lt::status::ExecutionFailed && !device.isCapturing()
             ? device.fail(std::move(error))
             : error;
}

static constexpr const char *kNames[] = {"libcublasLt.so.13",
                                         "libcublasLt.so.12"};
static constexpr const char *kPackage =
    "the CUDA toolkit, and as the Python package nvidia-cublas";

std::string CublasLt::formatVersion(std::size_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::string binade::cublasLtVersion() {
  Result<SharedLibrary> file =
      SharedLibrary::open("cuBLASLt", kNames, kPackage);
  std::size_t (*getVersion)() = nullptr;
  if (file)
    file->find(getVersion, "cublasLtGetVersion");
  return getVersion ? CublasLt::formatVersion(getVersion()) : "";
}

std::string CublasLt::identify() const {
  return device.getProperties().name + ", cublaslt " + formatVersion();
}

Result<std::shared_ptr<CublasLt>> CublasLt::open(Device &device) {
  // The newest version may be too new for the driver.
  for (const char *name : kNames) {
    auto opened = open(device, std::span(&name, 1));
    if (opened || device.hasFailed())
      return opened;
  }
  return open(device, kNames);
}

Result<std::shared_ptr<CublasLt>>
CublasLt::open(Device &device, std::span<const char *const> libraries) {
  Result<SharedLibrary> file =
      SharedLibrary::open("cuBLASLt", libraries, kPackage);
  if (!file)
    return file.takeError();
  std::shared_ptr<CublasLt> library(new CublasLt(device));
  lt::Table &functions = library->functions;
#define BINADE_LOAD(NAME, SYMBOL, PARAMETERS)                                  \
  file->find(functions.NAME.address, #SYMBOL);
  BINADE_CUBLASLT_FUNCTIONS(BINADE_LOAD)
#undef BINADE_LOAD
  file->find(functions.getVersion, "cublasLtGetVersion");
  file->find(functions.getStatusName, "cublasLtGetStatusName");
  if (auto done = file->check("12.0 or newer"); !done)
    return done.takeError();
  library->version = functions.getVersion();
  if (auto done = library->call(functions.create, &library->handle); !done)
    return done.takeError();
  return library;
}

CublasLt::~CublasLt() {
  // Errors cannot be reported here; after a failure nothing is released.
  if (handle)
    (void)call(functions.destroy, handle);
}
