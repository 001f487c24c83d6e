//===- Simulated.h - Simulated CUDA driver ----------------------*- C++ -*-===//
// A libcuda.so.1 whose devices use memory of the host. Work stays queued on its
// stream until the host waits for it; kernels run in Binade's simulator.
// Undefined behaviour on a device is an error here.
//
// A module's image may have any contents. The kernels that run are those of the
// gpu.module in $BINADE_SIMULATED_KERNELS/<SHA-256 of the image>.mlir, found by
// name. The hash of PTX is that of the text without its terminating 0.
//
// BINADE_SIMULATED_CUDA is a comma-separated list of key=value; it sets the
// properties of the device and injects faults. cuInit reads it and resets the
// state of the driver, unless a context is in use under the same settings (a
// process may open the driver for several programs):
//
//   devices=1            number of devices; with 0, cuInit fails
//   version=13000        version of CUDA
//   capability=90        compute capability
//   memory=1073741824    bytes of memory of a device
//   allocate=BYTES       largest single allocation
//   init=STATUS          result of cuInit
//   load_cubin=STATUS    result of loading a cubin
//   load_ptx=STATUS      result of loading PTX
//   fail_launch=N        the N-th kernel that runs fails, counted from 1
//   fail_status=719      status of that failure
//   hang_launch=N        the N-th kernel that runs does not end
//   flip_launch=N        a bit of the last buffer of the N-th kernel is flipped
//   write_value=STATUS   result of writes of the stream to memory of the host
//   cublaslt=130000      version of libcublasLt.so.13
//   refuse=1             cuBLASLt refuses every matmul
//   cudnn=92400          version of libcudnn.so.9
//   attention_engines=0  cuDNN has no engine for attention
//   attention_workspace=BYTES  workspace for each head of its gradients
//   attention_status=STATUS    result of its executions
//   capture=STATUS       work of a library breaks a capture with STATUS
//   report=1             prints at exit how much was copied
//===----------------------------------------------------------------------===//

#ifndef BINADE_TEST_CUDA_SIMULATED_H
#define BINADE_TEST_CUDA_SIMULATED_H

#include "../../../../lib/Runtime/Cuda/DriverApi.h"
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

using binade::cuda::Address;

namespace simulated {

namespace status = binade::cuda::status;

/// Work that is queued on a stream; returns a status, or `kHangs`.
using Task = std::function<int()>;
inline constexpr int kHangs = -1;

/// Returns the host's pointer to device memory; null unless all `bytes` belong
/// to one allocation.
char *findMemory(Address address, std::size_t bytes);
/// Returns the allocation that contains an address, and where it begins; empty
/// if there is none.
std::span<char> findAllocation(Address address, Address &begin);
/// Returns the number of bytes from an address to the end of its allocation; 0
/// if no allocation contains it.
std::size_t countRest(Address address);

/// Puts work on a stream, for libraries that launch kernels of their own.
int enqueue(CUstream_st *stream, Task task);
/// Breaks the capture of the stream, and returns true, if the settings say that
/// a library's work cannot be captured.
bool breakCapture(CUstream_st *stream);

/// Returns the value of a key of BINADE_SIMULATED_CUDA.
std::uint64_t getSetting(const std::string &key, std::uint64_t otherwise);

/// Loads a module. Returns null, after a message on standard error, if it
/// cannot.
std::shared_ptr<CUmod_st> loadModule(const void *image);
CUfunc_st *findFunction(CUmod_st &module, const std::string &name);
/// Returns the work of a launch, with copies of its arguments.
Task prepareLaunch(const CUfunc_st &function, const unsigned *grid,
                   const unsigned *block, void **arguments);
/// Returns the last argument of a launch: a result or a workspace.
Address findLast(const CUfunc_st &function, void **arguments);

} // namespace simulated

extern "C" {
/// Returns how many driver functions were called after the context was lost.
int simulatedCallsAfterFailure();

// Declares the functions that the runtime loads, so that the compiler rejects
// definitions with other parameters.
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS) int SYMBOL PARAMETERS;
BINADE_CUDA_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
}

#endif // BINADE_TEST_CUDA_SIMULATED_H
