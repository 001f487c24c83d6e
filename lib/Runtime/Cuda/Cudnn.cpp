//===- Cudnn.cpp - cuDNN, loaded at run time ------------------------------===//

#include "Cudnn.h"
#include "SharedLibrary.h"
#include "binade/Runtime/Library.h"

using namespace binade;
using namespace binade::cuda;

Error Cudnn::describe(int status, std::string_view call) const {
  const char *text = functions.getErrorString(status);
  Error error = {device.getProperties().format(),
                 std::string(call) +
                     " failed: " + printable(text ? text : "an unknown error") +
                     " (" + std::to_string(status) + ")",
                 ExitCode::Device};
  bool hasRun = status == cudnn::status::ExecutionFailed8 ||
                (status >= cudnn::status::ExecutionFailed &&
                 status < cudnn::status::AfterExecutionFailed);
  return hasRun && !device.isCapturing() ? device.fail(std::move(error))
                                         : error;
}

/// Opens the newest library that exists.
static Result<SharedLibrary> openLibrary() {
  static constexpr const char *names[] = {"libcudnn.so.9", "libcudnn.so.8"};
  return SharedLibrary::open(
      "cuDNN", names,
      "NVIDIA's package cudnn, and as the Python package "
      "nvidia-cudnn-cu13");
}

std::string Cudnn::formatVersion(std::size_t version) {
  // Until version 8, the major version was counted in thousands.
  std::size_t major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." +
         std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

std::string binade::cudnnVersion() {
  Result<SharedLibrary> file = openLibrary();
  std::size_t (*getVersion)() = nullptr;
  if (file)
    file->find(getVersion, "cudnnGetVersion");
  return getVersion ? Cudnn::formatVersion(getVersion()) : "";
}

Result<std::shared_ptr<Cudnn>> Cudnn::open(Device &device) {
  Result<SharedLibrary> file = openLibrary();
  if (!file)
    return file.takeError();
  std::shared_ptr<Cudnn> library(new Cudnn(device));
  cudnn::Table &functions = library->functions;
#define BINADE_LOAD(NAME, SYMBOL, PARAMETERS)                                  \
  file->find(functions.NAME.address, #SYMBOL);
  BINADE_CUDNN_FUNCTIONS(BINADE_LOAD)
  BINADE_CUDNN_GRAPH_FUNCTIONS(BINADE_LOAD)
#undef BINADE_LOAD
  file->find(functions.getVersion, "cudnnGetVersion");
  file->find(functions.getErrorString, "cudnnGetErrorString");
  if (auto done = file->check("8.0 or newer"); !done)
    return done.takeError();
  library->version = functions.getVersion();
  if (auto done = library->call(functions.create, &library->handle); !done)
    return done.takeError();
  if (auto done = library->call(functions.setStream, library->handle,
                                device.getStream());
      !done)
    return done.takeError();
  return library;
}

Cudnn::~Cudnn() {
  // Errors cannot be reported here; after a failure nothing is released.
  if (handle)
    (void)call(functions.destroy, handle);
}
