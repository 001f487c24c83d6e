//===- Launch.cpp - Modules and launches of the simulated driver ----------===//

#include "State.h"
#include <cstring>

using namespace simulated;

/// Returns `kernel` with the faults that the settings inject: the N-th kernel
/// fails, hangs or flips a bit of `result`.
static Task countLaunch(Task kernel, Address result) {
  return [kernel, result, number = std::uint64_t(0)]() mutable {
    if (number == 0)
      number = ++getState().kernels;
    if (number == getSetting("hang_launch", 0))
      return kHangs;
    if (number == getSetting("fail_launch", 0))
      return int(getSetting("fail_status", status::LaunchFailed));
    int status = kernel();
    if (number == getSetting("flip_launch", 0))
      *findMemory(result, 1) ^= 1;
    return status;
  };
}

extern "C" {

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
  auto loaded = loadModule(image);
  return loaded ? storeObject(module, loaded) : int(status::InvalidImage);
}

int cuModuleUnload(CUmod_st *module) {
  if (int error = enter())
    return error;
  return destroyObject(module);
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
  Task kernel = prepareLaunch(*function, grid, block, arguments);
  return enqueue(stream, countLaunch(kernel, findLast(*function, arguments)));
}

} // extern "C"
