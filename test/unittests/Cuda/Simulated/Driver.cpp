//===- Driver.cpp - Simulated CUDA driver ---------------------------------===//

#include "State.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string_view>

using namespace simulated;

State &simulated::getState() {
  static State state;
  return state;
}

extern "C" int simulatedCallsAfterFailure() {
  return getState().callsAfterFailure;
}

std::uint64_t simulated::getSetting(const std::string &key,
                                    std::uint64_t otherwise) {
  auto found = getState().settings.find(key);
  return found == getState().settings.end() ? otherwise : found->second;
}

/// Returns the settings in the environment.
static std::string getText() {
  const char *text = std::getenv("BINADE_SIMULATED_CUDA");
  return text ? text : "";
}

static void readSettings() {
  static constexpr std::string_view known[] = {"devices",
                                               "version",
                                               "capability",
                                               "memory",
                                               "allocate",
                                               "init",
                                               "load_cubin",
                                               "load_ptx",
                                               "fail_launch",
                                               "fail_status",
                                               "hang_launch",
                                               "flip_launch",
                                               "cublaslt",
                                               "write_value",
                                               "report",
                                               "cudnn",
                                               "capture",
                                               "refuse",
                                               "attention_engines",
                                               "attention_workspace",
                                               "attention_status"};
  getState().settings.clear();
  std::istringstream pairs(getText());
  for (std::string pair; std::getline(pairs, pair, ',');) {
    std::size_t equal = pair.find('=');
    std::string key = pair.substr(0, equal);
    if (equal == pair.npos ||
        std::find(std::begin(known), std::end(known), key) == std::end(known)) {
      std::cerr << "BINADE_SIMULATED_CUDA: " << pair << " is not known\n";
      std::abort();
    }
    getState().settings[key] = std::stoull(pair.substr(equal + 1));
  }
}

int simulated::enter() {
  State &state = getState();
  if (!state.isInitialized)
    return 3; // CUDA_ERROR_NOT_INITIALIZED
  if (state.failure)
    ++state.callsAfterFailure;
  return state.failure;
}

std::size_t simulated::getTotal() {
  return getSetting("memory", std::size_t(1) << 30);
}

extern "C" {

int cuGetErrorName(int code, const char **name) {
  static const std::map<int, const char *> names = {
      {status::InvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {status::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {status::StubLibrary, "CUDA_ERROR_STUB_LIBRARY"},
      {status::NoDevice, "CUDA_ERROR_NO_DEVICE"},
      {status::NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {status::EccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE"},
      {status::InvalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {status::NotFound, "CUDA_ERROR_NOT_FOUND"},
      {status::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {status::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {status::SystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {status::StreamCaptureUnsupported,
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? status::Success : status::InvalidValue;
}

int cuGetErrorString(int code, const char **text) {
  *text = "simulated";
  return status::Success;
}

int cuDriverGetVersion(int *version) {
  readSettings();
  *version = static_cast<int>(getSetting("version", 13000));
  return status::Success;
}

int cuInit(unsigned) {
  const State &before = getState();
  if (before.contexts > 0 && !before.failure && before.text == getText())
    return status::Success;
  getState() = State();
  getState().text = getText();
  readSettings();
  if (auto failure = getSetting("init", 0))
    return static_cast<int>(failure);
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (getSetting("devices", 1) == 0 || (visible && !*visible))
    return status::NoDevice;
  getState().isInitialized = true;
  return status::Success;
}

int cuDeviceGetCount(int *count) {
  *count = static_cast<int>(getSetting("devices", 1));
  return enter();
}

int cuDeviceGet(int *device, int index) {
  *device = index;
  return enter();
}

int cuDeviceGetName(char *name, int bytes, int) {
  std::strncpy(name, "Simulated H200", static_cast<std::size_t>(bytes));
  return enter();
}

int cuDeviceGetAttribute(int *value, int which, int) {
  namespace attribute = binade::cuda::attribute;
  auto capability = static_cast<int>(getSetting("capability", 90));
  // The values that the driver returns for an H200.
  const std::map<int, int> values = {
      {attribute::ClockRate, 1980000},
      {attribute::MultiprocessorCount, 132},
      {attribute::MemoryClockRate, 3201000},
      {attribute::GlobalMemoryBusWidth, 6144},
      {attribute::L2CacheSize, 62914560},
      {attribute::ComputeCapabilityMajor, capability / 10},
      {attribute::ComputeCapabilityMinor, capability % 10},
      {attribute::MaxSharedMemoryPerBlockOptin, 232448}};
  auto found = values.find(which);
  if (found == values.end())
    return status::InvalidValue;
  *value = found->second;
  return enter();
}

int cuDeviceTotalMem_v2(std::size_t *bytes, int) {
  *bytes = getTotal();
  return enter();
}

int cuDevicePrimaryCtxRetain(CUctx_st **context, int) {
  *context = &getState().context;
  ++getState().contexts;
  return enter();
}

int cuDevicePrimaryCtxRelease_v2(int) {
  --getState().contexts;
  return enter();
}

int cuCtxSetCurrent(CUctx_st *) { return enter(); }

int cuCtxSynchronize() {
  if (int error = enter())
    return error;
  if (int error = restrict())
    return error;
  for (CUstream_st *stream : getState().streams)
    if (!stream->capture)
      if (int failure = drain(stream))
        return failure;
  return status::Success;
}

} // extern "C"
