//===- Simulated.h - CUDA's driver without a device -------------*- C++ -*-===//
// A libcuda.so.1 whose devices' memory is memory of the host. Work waits on its
// stream until the host waits for it, as on a device; kernels run in Binade's
// simulator. What a device leaves undefined is an error here.
//
// A module's image may be anything: what runs is
// $BINADE_SIMULATED_KERNELS/<SHA-256 of the image>.mlir, a gpu.module with the
// kernels' names. The hash of PTX is that of the text without its terminating
// 0.
//
// BINADE_SIMULATED_CUDA, key=value with commas between, says what the device is
// and what goes wrong. It is read by cuInit, which starts everything anew
// unless a context is in use under the same settings, as of a process's other
// program:
//
//   devices=1            how many; none is what cuInit fails for
//   version=13000        of CUDA
//   capability=90
//   memory=1073741824    bytes of a device
//   allocate=BYTES       no single allocation gets more
//   init=STATUS          of cuInit
//   load_cubin=STATUS, load_ptx=STATUS
//   fail_launch=N        the N-th kernel that runs fails, from 1
//   fail_status=719      how
//   hang_launch=N        the N-th kernel that runs does not end
//   flip_launch=N        the N-th kernel leaves a bit of its last buffer wrong
//   write_value=STATUS  of writes of the stream to memory of the host
//   cublaslt=130000      version of libcublasLt.so.13
//   refuse=1             the library multiplies nothing
//   cudnn=92400          version of libcudnn.so.9
//   capture=STATUS       what breaks a capture when a library puts work there
//   report=1             says at the end how much was copied
//===----------------------------------------------------------------------===//

#ifndef BINADE_TEST_CUDA_SIMULATED_H
#define BINADE_TEST_CUDA_SIMULATED_H

#include "../../../../lib/Runtime/Cuda/DriverApi.h"
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using binade::cuda::Address;

namespace simulated {

namespace status = binade::cuda::status;

/// What a stream does next; returns a status, or `kHangs`.
using Task = std::function<int()>;
inline constexpr int kHangs = -1;

/// The bytes of the device at an address; null unless all of them belong to one
/// allocation.
char *findMemory(Address address, std::size_t bytes);
/// Returns the number of bytes from an address to the end of its allocation; 0
/// if no allocation contains it.
std::size_t countRest(Address address);

/// Puts work on a stream, for libraries that launch kernels of their own.
int enqueue(CUstream_st *stream, Task task);
/// Whether the stream may not record what a library is about to put there: the
/// capture is broken then.
bool breakCapture(CUstream_st *stream);

/// The number of BINADE_SIMULATED_CUDA for a key.
std::uint64_t getSetting(const std::string &key, std::uint64_t otherwise);

/// Loads a module. Returns null, after a message on standard error, if it
/// cannot.
std::shared_ptr<CUmod_st> loadModule(const void *image);
CUfunc_st *findFunction(CUmod_st &module, const std::string &name);
/// The work of a launch, with arguments as they are now.
Task prepareLaunch(const CUfunc_st &function, const unsigned *grid,
                   const unsigned *block, void **arguments);
/// The last of a launch's addresses: of a result, or of a workspace.
Address findLast(const CUfunc_st &function, void **arguments);

} // namespace simulated

extern "C" {
/// Functions called after the context was lost.
int simulatedCallsAfterFailure();

// What the runtime asks for, with its parameters: a definition with others is
// an error.
#define BINADE_DECLARE(NAME, SYMBOL, PARAMETERS) int SYMBOL PARAMETERS;
BINADE_CUDA_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
}

#endif // BINADE_TEST_CUDA_SIMULATED_H
