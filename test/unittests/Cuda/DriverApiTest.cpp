//===- DriverApiTest.cpp - Declarations agree with cuda.h -----------------===//
// The compiler checks all of it, by static assertions.
//===----------------------------------------------------------------------===//

#include "../../../lib/Runtime/Cuda/DriverApi.h"
#include "cuda.h"
#include "gtest/gtest.h"
#include <type_traits>

// An older header lacks some of the functions.
#if CUDA_VERSION >= 13000

using namespace binade::cuda;

namespace {
// The runtime declares enumerations as int.
template <typename Ours, typename Theirs>
constexpr bool isSame = std::is_same_v<Ours, Theirs> ||
                        (std::is_enum_v<Theirs> && std::is_same_v<Ours, int>);
template <typename Ours, typename Theirs>
constexpr bool isSame<Ours *, Theirs *> = isSame<Ours, Theirs>;

template <typename Ours, typename Theirs>
constexpr bool hasSameParameters = false;
template <typename... Ours, typename... Theirs>
constexpr bool hasSameParameters<int(Ours...), CUresult(Theirs...)> =
    sizeof...(Ours) == sizeof...(Theirs) && (isSame<Ours, Theirs> && ...);
} // namespace

#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(hasSameParameters<int PARAMETERS, decltype(::SYMBOL)>, #SYMBOL);
BINADE_CUDA_FUNCTIONS(CHECK)

#define CHECK_NUMBER(OURS, THEIRS)                                             \
  static_assert(int(OURS) == int(THEIRS), #THEIRS);
#define CHECK_STATUS(OURS, THEIRS) CHECK_NUMBER(status::OURS, CUDA_##THEIRS)
CHECK_STATUS(Success, SUCCESS)
CHECK_STATUS(InvalidValue, ERROR_INVALID_VALUE)
CHECK_STATUS(OutOfMemory, ERROR_OUT_OF_MEMORY)
CHECK_STATUS(StubLibrary, ERROR_STUB_LIBRARY)
CHECK_STATUS(NoDevice, ERROR_NO_DEVICE)
CHECK_STATUS(InvalidImage, ERROR_INVALID_IMAGE)
CHECK_STATUS(NoBinaryForGpu, ERROR_NO_BINARY_FOR_GPU)
CHECK_STATUS(EccUncorrectable, ERROR_ECC_UNCORRECTABLE)
CHECK_STATUS(InvalidPtx, ERROR_INVALID_PTX)
CHECK_STATUS(NvlinkUncorrectable, ERROR_NVLINK_UNCORRECTABLE)
CHECK_STATUS(UnsupportedPtxVersion, ERROR_UNSUPPORTED_PTX_VERSION)
CHECK_STATUS(Contained, ERROR_CONTAINED)
CHECK_STATUS(NotFound, ERROR_NOT_FOUND)
CHECK_STATUS(NotReady, ERROR_NOT_READY)
CHECK_STATUS(IllegalAddress, ERROR_ILLEGAL_ADDRESS)
CHECK_STATUS(LaunchTimeout, ERROR_LAUNCH_TIMEOUT)
CHECK_STATUS(Assert, ERROR_ASSERT)
CHECK_STATUS(HardwareStackError, ERROR_HARDWARE_STACK_ERROR)
CHECK_STATUS(IllegalInstruction, ERROR_ILLEGAL_INSTRUCTION)
CHECK_STATUS(MisalignedAddress, ERROR_MISALIGNED_ADDRESS)
CHECK_STATUS(InvalidAddressSpace, ERROR_INVALID_ADDRESS_SPACE)
CHECK_STATUS(InvalidPc, ERROR_INVALID_PC)
CHECK_STATUS(LaunchFailed, ERROR_LAUNCH_FAILED)
CHECK_STATUS(TensorMemoryLeak, ERROR_TENSOR_MEMORY_LEAK)
CHECK_STATUS(SystemNotReady, ERROR_SYSTEM_NOT_READY)
CHECK_STATUS(SystemDriverMismatch, ERROR_SYSTEM_DRIVER_MISMATCH)
CHECK_STATUS(StreamCaptureUnsupported, ERROR_STREAM_CAPTURE_UNSUPPORTED)
CHECK_STATUS(StreamCaptureInvalidated, ERROR_STREAM_CAPTURE_INVALIDATED)
CHECK_STATUS(ExternalDevice, ERROR_EXTERNAL_DEVICE)
CHECK_STATUS(Unknown, ERROR_UNKNOWN)

#define CHECK_ATTRIBUTE(OURS, THEIRS)                                          \
  CHECK_NUMBER(attribute::OURS, CU_DEVICE_ATTRIBUTE_##THEIRS)
CHECK_ATTRIBUTE(ClockRate, CLOCK_RATE)
CHECK_ATTRIBUTE(MultiprocessorCount, MULTIPROCESSOR_COUNT)
CHECK_ATTRIBUTE(MemoryClockRate, MEMORY_CLOCK_RATE)
CHECK_ATTRIBUTE(GlobalMemoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)
CHECK_ATTRIBUTE(L2CacheSize, L2_CACHE_SIZE)
CHECK_ATTRIBUTE(ComputeCapabilityMajor, COMPUTE_CAPABILITY_MAJOR)
CHECK_ATTRIBUTE(ComputeCapabilityMinor, COMPUTE_CAPABILITY_MINOR)
CHECK_ATTRIBUTE(MaxSharedMemoryPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

CHECK_NUMBER(jit::ErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER)
CHECK_NUMBER(jit::ErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
CHECK_NUMBER(kStreamNonBlocking, CU_STREAM_NON_BLOCKING)
CHECK_NUMBER(kMemHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE)
CHECK_NUMBER(kCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
CHECK_NUMBER(kMaxDynamicSharedSizeBytes,
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)

TEST(DriverApiTest, DeclarationsAgreeWithTheHeader) {}

#else

TEST(DriverApiTest, DeclarationsAgreeWithTheHeader) {
  GTEST_SKIP() << "cuda.h is older than CUDA 13.0";
}

#endif
