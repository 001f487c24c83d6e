//===- DriverApi.h - Declarations of the CUDA driver ------------*- C++ -*-===//
// The declarations are repeated here so that Binade can be built without CUDA.
// A test compares them with cuda.h if that is found.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_DRIVERAPI_H
#define BINADE_RUNTIME_CUDA_DRIVERAPI_H

#include <cstddef>

// These have the driver's names, so that cuda.h may be included, too.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace binade::cuda {

/// An address in the memory of a device.
using Address = unsigned long long;

// Lists every function that is used: name here, symbol, parameters. The suffix
// of a symbol is the version with these parameters.
#define BINADE_CUDA_FUNCTIONS(X)                                               \
  X(getErrorName, cuGetErrorName, (int, const char **))                        \
  X(getErrorString, cuGetErrorString, (int, const char **))                    \
  X(init, cuInit, (unsigned))                                                  \
  X(driverGetVersion, cuDriverGetVersion, (int *))                             \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                 \
  X(deviceGet, cuDeviceGet, (int *, int))                                      \
  X(deviceGetName, cuDeviceGetName, (char *, int, int))                        \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, int))               \
  X(deviceTotalMem, cuDeviceTotalMem_v2, (std::size_t *, int))                 \
  X(primaryCtxRetain, cuDevicePrimaryCtxRetain, (CUctx_st **, int))            \
  X(primaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int))                    \
  X(ctxSetCurrent, cuCtxSetCurrent, (CUctx_st *))                              \
  X(ctxSynchronize, cuCtxSynchronize, ())                                      \
  X(memGetInfo, cuMemGetInfo_v2, (std::size_t *, std::size_t *))               \
  X(memAlloc, cuMemAlloc_v2, (Address *, std::size_t))                         \
  X(memFree, cuMemFree_v2, (Address))                                          \
  X(memHostAlloc, cuMemHostAlloc, (void **, std::size_t, unsigned))            \
  X(memFreeHost, cuMemFreeHost, (void *))                                      \
  X(memHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                     \
    (Address *, void *, unsigned))                                             \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                     \
    (Address, const void *, std::size_t, CUstream_st *))                       \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                     \
    (void *, Address, std::size_t, CUstream_st *))                             \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                     \
    (Address, Address, std::size_t, CUstream_st *))                            \
  X(memsetD8Async, cuMemsetD8Async,                                            \
    (Address, unsigned char, std::size_t, CUstream_st *))                      \
  X(streamCreate, cuStreamCreate, (CUstream_st **, unsigned))                  \
  X(streamDestroy, cuStreamDestroy_v2, (CUstream_st *))                        \
  X(streamQuery, cuStreamQuery, (CUstream_st *))                               \
  X(streamWriteValue32, cuStreamWriteValue32_v2,                               \
    (CUstream_st *, Address, unsigned, unsigned))                              \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (CUstream_st *, int))         \
  X(streamEndCapture, cuStreamEndCapture, (CUstream_st *, CUgraph_st **))      \
  X(streamIsCapturing, cuStreamIsCapturing, (CUstream_st *, int *))            \
  X(threadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,        \
    (int *))                                                                   \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (CUgraphExec_st **, CUgraph_st *, unsigned long long))                     \
  X(graphLaunch, cuGraphLaunch, (CUgraphExec_st *, CUstream_st *))             \
  X(graphDestroy, cuGraphDestroy, (CUgraph_st *))                              \
  X(graphExecDestroy, cuGraphExecDestroy, (CUgraphExec_st *))                  \
  X(eventCreate, cuEventCreate, (CUevent_st **, unsigned))                     \
  X(eventRecord, cuEventRecord, (CUevent_st *, CUstream_st *))                 \
  X(eventQuery, cuEventQuery, (CUevent_st *))                                  \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *, CUevent_st *, CUevent_st *))                                     \
  X(eventDestroy, cuEventDestroy_v2, (CUevent_st *))                           \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (CUmod_st **, const void *, unsigned, int *, void **))                     \
  X(moduleUnload, cuModuleUnload, (CUmod_st *))                                \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (CUfunc_st **, CUmod_st *, const char *))                                  \
  X(funcSetAttribute, cuFuncSetAttribute, (CUfunc_st *, int, int))             \
  X(launchKernel, cuLaunchKernel,                                              \
    (CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
     unsigned, CUstream_st *, void **, void **))

/// The statuses that the code distinguishes.
namespace status {
enum : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  StubLibrary = 34,
  NoDevice = 100,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  NvlinkUncorrectable = 220,
  UnsupportedPtxVersion = 222,
  Contained = 226,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchTimeout = 702,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  TensorMemoryLeak = 721,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  ExternalDevice = 911,
  Unknown = 999,
};
} // namespace status

namespace attribute {
enum : int {
  ClockRate = 13, ///< kHz
  MultiprocessorCount = 16,
  MemoryClockRate = 36,      ///< kHz
  GlobalMemoryBusWidth = 37, ///< bits
  L2CacheSize = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerBlockOptin = 97,
};
} // namespace attribute

namespace jit {
enum : int {
  ErrorLogBuffer = 5,
  ErrorLogBufferSizeBytes = 6,
};
} // namespace jit

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kMemHostAllocPortable = 1;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
/// The attribute that lets a function use more than 48 KiB of shared memory.
inline constexpr int kMaxDynamicSharedSizeBytes = 8;

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DRIVERAPI_H
