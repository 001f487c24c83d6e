//===- Driver.cpp - CUDA's driver without a device ------------------------===//

#include "Simulated.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>

using namespace simulated;

struct CUctx_st {};
struct CUevent_st {
  std::optional<std::chrono::steady_clock::time_point> time;
};
struct CUgraph_st {
  std::vector<Task> tasks;
};
struct CUgraphExec_st {
  std::vector<Task> tasks;
};
struct CUstream_st {
  std::deque<Task> tasks;
  std::unique_ptr<CUgraph_st> capture;
  bool isBroken = false; ///< The capture.
};

namespace {
/// Memory of the host that the device reads by itself.
using Pinned = std::vector<char>;

/// All that a process has of the driver.
struct State {
  std::map<std::string, std::uint64_t> settings;
  std::map<Address, std::vector<char>> memory;
  std::map<const void *, Pinned> pinned;
  std::map<CUfunc_st *, int> sharedBytes;
  Address next = kFirst;
  std::uint64_t allocated = 0, kernels = 0;
  int failure = 0, callsAfterFailure = 0;
  bool isInitialized = false;
  CUctx_st context;

  /// No address that the host has.
  static constexpr Address kFirst = Address(0x30) << 40;
};
} // namespace

static State &getState() {
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

static void readSettings() {
  static constexpr std::string_view known[] = {
      "devices",     "version",     "capability", "memory",
      "allocate",    "init",        "load_cubin", "load_ptx",
      "fail_launch", "fail_status", "hang_launch"};
  getState().settings.clear();
  const char *text = std::getenv("BINADE_SIMULATED_CUDA");
  std::istringstream pairs(text ? text : "");
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

/// Before every function: whether it may go on.
static int enter() {
  State &state = getState();
  if (!state.isInitialized)
    return 3; // CUDA_ERROR_NOT_INITIALIZED
  if (state.failure)
    ++state.callsAfterFailure;
  return state.failure;
}

char *simulated::findMemory(Address address, std::size_t bytes) {
  auto &memory = getState().memory;
  auto behind = memory.upper_bound(address);
  if (behind == memory.begin())
    return nullptr;
  auto &[start, content] = *std::prev(behind);
  if (address - start > content.size() ||
      bytes > content.size() - (address - start))
    return nullptr;
  return content.data() + (address - start);
}

static bool isPinned(const void *address, std::size_t bytes) {
  const char *first = static_cast<const char *>(address);
  for (const auto &[start, content] : getState().pinned)
    if (first >= content.data() &&
        first + bytes <= content.data() + content.size())
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// The stream
//===----------------------------------------------------------------------===//

int simulated::enqueue(CUstream_st *stream, Task task) {
  if (stream->capture)
    stream->capture->tasks.push_back(std::move(task));
  else
    stream->tasks.push_back(std::move(task));
  return status::Success;
}

/// Does what is on the stream; what fails loses the context.
static int run(CUstream_st *stream) {
  if (stream->capture) {
    stream->isBroken = true;
    return status::StreamCaptureUnsupported;
  }
  while (!stream->tasks.empty()) {
    int result = stream->tasks.front()();
    if (result == kHangs)
      return status::NotReady;
    stream->tasks.pop_front();
    if (result) {
      stream->tasks.clear();
      return getState().failure = result;
    }
  }
  return status::Success;
}

/// A kernel that counts among those that fail or hang.
static Task countLaunch(Task kernel) {
  return [kernel, number = std::uint64_t(0)]() mutable {
    if (number == 0)
      number = ++getState().kernels;
    if (number == getSetting("hang_launch", 0))
      return kHangs;
    if (number == getSetting("fail_launch", 0))
      return int(getSetting("fail_status", status::LaunchFailed));
    return kernel();
  };
}

extern "C" {

int cuStreamCreate(CUstream_st **stream, unsigned) {
  if (int error = enter())
    return error;
  *stream = new CUstream_st;
  return status::Success;
}

int cuStreamDestroy_v2(CUstream_st *stream) {
  if (int error = enter())
    return error;
  delete stream;
  return status::Success;
}

int cuStreamQuery(CUstream_st *stream) {
  if (int error = enter())
    return error;
  return run(stream);
}

int cuStreamBeginCapture_v2(CUstream_st *stream, int) {
  if (int error = enter())
    return error;
  stream->capture = std::make_unique<CUgraph_st>();
  stream->isBroken = false;
  return status::Success;
}

int cuStreamEndCapture(CUstream_st *stream, CUgraph_st **graph) {
  if (int error = enter())
    return error;
  auto captured = std::move(stream->capture);
  *graph = nullptr;
  if (stream->isBroken)
    return status::StreamCaptureInvalidated;
  *graph = captured.release();
  return status::Success;
}

int cuGraphInstantiateWithFlags(CUgraphExec_st **made, CUgraph_st *graph,
                                unsigned long long) {
  if (int error = enter())
    return error;
  *made = new CUgraphExec_st{graph->tasks};
  return status::Success;
}

int cuGraphLaunch(CUgraphExec_st *graph, CUstream_st *stream) {
  if (int error = enter())
    return error;
  for (const Task &task : graph->tasks)
    enqueue(stream, task);
  return status::Success;
}

int cuGraphDestroy(CUgraph_st *graph) {
  if (int error = enter())
    return error;
  delete graph;
  return status::Success;
}

int cuGraphExecDestroy(CUgraphExec_st *graph) {
  if (int error = enter())
    return error;
  delete graph;
  return status::Success;
}

int cuEventCreate(CUevent_st **event, unsigned) {
  if (int error = enter())
    return error;
  *event = new CUevent_st;
  return status::Success;
}

int cuEventRecord(CUevent_st *event, CUstream_st *stream) {
  if (int error = enter())
    return error;
  return enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    return int(status::Success);
  });
}

int cuEventQuery(CUevent_st *event) {
  if (int error = enter())
    return error;
  return event->time ? status::Success : status::NotReady;
}

int cuEventElapsedTime(float *milliseconds, CUevent_st *from, CUevent_st *to) {
  if (int error = enter())
    return error;
  if (!from->time || !to->time)
    return status::NotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return status::Success;
}

int cuEventDestroy_v2(CUevent_st *event) {
  if (int error = enter())
    return error;
  delete event;
  return status::Success;
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

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
  getState() = State();
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
  // Of an H200, as its driver gives them.
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

static std::size_t getTotal() {
  return getSetting("memory", std::size_t(1) << 30);
}

int cuDeviceTotalMem_v2(std::size_t *bytes, int) {
  *bytes = getTotal();
  return enter();
}

int cuDevicePrimaryCtxRetain(CUctx_st **context, int) {
  *context = &getState().context;
  return enter();
}

int cuDevicePrimaryCtxRelease_v2(int) { return enter(); }

int cuCtxSetCurrent(CUctx_st *) { return enter(); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int cuMemGetInfo_v2(std::size_t *free, std::size_t *total) {
  *total = getTotal();
  *free = *total - getState().allocated;
  return enter();
}

int cuMemAlloc_v2(Address *address, std::size_t bytes) {
  if (int error = enter())
    return error;
  if (bytes == 0)
    return status::InvalidValue;
  State &state = getState();
  if (bytes > getTotal() - state.allocated ||
      bytes > getSetting("allocate", bytes))
    return status::OutOfMemory;
  // What nobody wrote is no number that passes for one; allocations do not
  // touch.
  constexpr std::size_t page = 2 << 20;
  *address = state.next;
  state.memory[state.next].assign(bytes, static_cast<char>(0xff));
  state.next += (bytes / page + 2) * page;
  state.allocated += bytes;
  return status::Success;
}

int cuMemFree_v2(Address address) {
  if (int error = enter())
    return error;
  auto found = getState().memory.find(address);
  if (found == getState().memory.end())
    return status::InvalidValue;
  getState().allocated -= found->second.size();
  getState().memory.erase(found);
  return status::Success;
}

int cuMemHostAlloc(void **address, std::size_t bytes, unsigned) {
  if (int error = enter())
    return error;
  Pinned memory(bytes);
  *address = memory.data();
  getState().pinned.emplace(*address, std::move(memory));
  return status::Success;
}

int cuMemFreeHost(void *address) {
  if (int error = enter())
    return error;
  return getState().pinned.erase(address) ? status::Success
                                          : status::InvalidValue;
}

int cuMemcpyHtoDAsync_v2(Address to, const void *from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes))
    return status::InvalidValue;
  // Of pageable memory the driver makes a copy; pinned memory is read when the
  // stream comes to it.
  std::shared_ptr<std::vector<char>> staged;
  if (!isPinned(from, bytes))
    staged = std::make_shared<std::vector<char>>(
        static_cast<const char *>(from),
        static_cast<const char *>(from) + bytes);
  return enqueue(stream, [=] {
    std::memcpy(findMemory(to, bytes), staged ? staged->data() : from, bytes);
    return int(status::Success);
  });
}

int cuMemcpyDtoHAsync_v2(void *to, Address from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(from, bytes))
    return status::InvalidValue;
  enqueue(stream, [=] {
    std::memcpy(to, findMemory(from, bytes), bytes);
    return int(status::Success);
  });
  return isPinned(to, bytes) ? int(status::Success) : run(stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes,
                         CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes) || !findMemory(from, bytes))
    return status::InvalidValue;
  return enqueue(stream, [=] {
    std::memmove(findMemory(to, bytes), findMemory(from, bytes), bytes);
    return int(status::Success);
  });
}

int cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes,
                    CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (!findMemory(to, bytes))
    return status::InvalidValue;
  return enqueue(stream, [=] {
    std::memset(findMemory(to, bytes), value, bytes);
    return int(status::Success);
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

int cuModuleLoadDataEx(CUmod_st **module, const void *image, unsigned options,
                       int *keys, void **values) {
  if (int error = enter())
    return error;
  bool isCubin = std::memcmp(image,
                             "\x7f"
                             "ELF",
                             4) == 0;
  if (auto failure = getSetting(isCubin ? "load_cubin" : "load_ptx", 0)) {
    for (unsigned i = 0; i < options; ++i)
      if (keys[i] == binade::cuda::jit::ErrorLogBuffer && !isCubin)
        std::strcpy(static_cast<char *>(values[i]),
                    "ptxas fatal   : simulated\n");
    return static_cast<int>(failure);
  }
  *module = loadModule(image);
  return *module ? status::Success : status::InvalidImage;
}

int cuModuleUnload(CUmod_st *module) {
  if (int error = enter())
    return error;
  unloadModule(module);
  return status::Success;
}

int cuModuleGetFunction(CUfunc_st **function, CUmod_st *module,
                        const char *name) {
  if (int error = enter())
    return error;
  *function = findFunction(*module, name);
  return *function ? status::Success : status::NotFound;
}

int cuFuncSetAttribute(CUfunc_st *function, int attribute, int value) {
  if (int error = enter())
    return error;
  if (attribute != binade::cuda::kMaxDynamicSharedSizeBytes || value > 232448)
    return status::InvalidValue;
  getState().sharedBytes[function] = value;
  return status::Success;
}

int cuLaunchKernel(CUfunc_st *function, unsigned x, unsigned y, unsigned z,
                   unsigned bx, unsigned by, unsigned bz, unsigned sharedBytes,
                   CUstream_st *stream, void **arguments, void **) {
  if (int error = enter())
    return error;
  auto shared = getState().sharedBytes.find(function);
  unsigned allowed = shared == getState().sharedBytes.end()
                         ? 48 << 10
                         : static_cast<unsigned>(shared->second);
  std::uint64_t threads = std::uint64_t(bx) * by * bz;
  if (std::uint64_t(x) * y * z == 0 || threads == 0 || threads > 1024 ||
      sharedBytes > allowed)
    return status::InvalidValue;
  const unsigned grid[] = {x, y, z}, block[] = {bx, by, bz};
  return enqueue(stream,
                 countLaunch(prepareLaunch(*function, grid, block, arguments)));
}

} // extern "C"

// The runtime finds every function that it asks for, with its parameters.
#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(std::is_same_v<decltype(&SYMBOL), int(*) PARAMETERS>);
BINADE_CUDA_FUNCTIONS(CHECK)
#undef CHECK
