//===- Device.h - A CUDA device and its stream ------------------*- C++ -*-===//
// All work of a device runs in order on one stream, and the host waits for it
// only in `wait`. After an error that destroys the device's context, no more
// functions of the driver are called: every later call returns the same error,
// and allocated memory is not released until the process ends.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_DEVICE_H
#define BINADE_RUNTIME_CUDA_DEVICE_H

#include "Driver.h"
#include "binade/Runtime/Devices.h"
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace binade::cuda {

class Device;

/// A kernel and its op, for messages. The text has to outlive the execution and
/// graphs that contain it.
struct Label {
  std::string_view kernel, op;
};

/// A named amount of memory, for the table of an out-of-memory error.
struct NamedBytes {
  std::string name;
  std::uint64_t bytes;
};

/// Work that was enqueued at once: a launch, or a graph of several launches.
struct Work {
  Label first, last;
  std::uint64_t count = 0;

  void add(const Work &others);
};

struct DeviceOptions {
  /// Time limit for one wait, after which the device counts as lost.
  std::chrono::duration<double> timeout{300};
  /// Waits for each kernel, so that an error names the kernel that failed.
  /// Graphs are not used then.
  bool blocking = false;

  /// Reads the environment variables BINADE_CUDA_TIMEOUT (seconds) and
  /// BINADE_CUDA_BLOCKING (0 or 1).
  static Result<DeviceOptions> fromEnvironment();
};

/// Owns a handle, which its destructor releases with `Release` unless the
/// device has failed.
template <typename Handle, auto Release> class Owned {
public:
  Owned() = default;
  Owned(Device &device, Handle handle) : device(&device), handle(handle) {}
  Owned(Owned &&other) noexcept
      : device(other.device), handle(std::exchange(other.handle, {})) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(device, other.device);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned();

  Handle get() const { return handle; }
  explicit operator bool() const { return handle != Handle{}; }

private:
  Device *device = nullptr;
  Handle handle = {};
};

/// Memory of a device.
using DeviceMemory = Owned<Address, &DriverTable::memFree>;
/// Pinned host memory.
using PinnedMemory = Owned<void *, &DriverTable::memFreeHost>;
/// A CUDA event.
using Event = Owned<CUevent_st *, &DriverTable::eventDestroy>;

/// The grid size, the block size and the dynamic shared memory of a launch.
struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  unsigned sharedBytes = 0;
};

/// A CUDA device with one stream. To be used by one thread at a time; another
/// thread calls `bind` first. Has to outlive all memory, events and modules.
class Device {
public:
  /// Opens device `index` of those that CUDA_VISIBLE_DEVICES shows.
  static Result<std::unique_ptr<Device>> open(Driver driver, int index,
                                              DeviceOptions options = {});
  Device(const Device &) = delete;
  ~Device();

  const CudaDevice &getProperties() const { return properties; }
  const DeviceOptions &getOptions() const { return options; }
  const Driver &getDriver() const { return driver; }
  /// Makes the context current in the calling thread.
  Result<void> bind();

  struct Memory {
    std::uint64_t free, total;
  };
  Result<Memory> getMemory();
  /// Allocates device memory. If there is not enough, the error (exit code 7)
  /// lists the largest of `parts`.
  Result<DeviceMemory> allocate(std::uint64_t bytes,
                                std::span<const NamedBytes> parts = {});
  Result<PinnedMemory> allocatePinned(std::uint64_t bytes);

  // The following functions enqueue work on the stream.

  /// Copies to the device. Pinned memory is read when the copy executes, other
  /// memory immediately.
  Result<void> upload(Address to, const void *from, std::uint64_t bytes);
  /// Copies to pinned memory. For other memory the driver would wait, without
  /// a time limit.
  Result<void> download(void *to, Address from, std::uint64_t bytes);
  Result<void> copy(Address to, Address from, std::uint64_t bytes);
  Result<void> fill(Address to, std::byte value, std::uint64_t bytes);
  Result<Event> record();
  /// Records an existing event again.
  Result<void> record(const Event &event);
  /// Launches a kernel. `arguments` are the addresses of its arguments. An
  /// empty grid launches nothing.
  Result<void> launch(CUfunc_st *kernel, const LaunchShape &shape,
                      std::span<void *const> arguments, const Label &label);
  /// Calls `work`, which enqueues on a stream of the caller instead. The device
  /// does not wait for this work, and does not report its errors: the caller
  /// does. The stream may be capturing a graph.
  Result<void> enqueueOn(CUstream_st *other,
                         const std::function<Result<void>()> &work);
  /// Calls `work`, which uses the device's own stream, allocates memory or
  /// waits, even while a stream of the caller is capturing a graph.
  Result<void> prepare(const std::function<Result<void>()> &work);
  /// Notes work that was enqueued by other means, such as by a library.
  Result<void> note(const Work &work);
  Result<void> note(const Label &label) { return note({label, label, 1}); }

  /// Copies from the device to any memory, and waits for it.
  Result<void> read(void *to, Address from, std::uint64_t bytes);
  /// Waits until all work has finished. An error names the kernels that may
  /// have failed. After `patience` the device counts as lost.
  Result<void> wait();
  /// Waits until `event` has been reached.
  Result<void> wait(const Event &event);
  /// Returns the time between two events that have been reached.
  Result<std::chrono::duration<double>> measure(const Event &from,
                                                const Event &to);

  CUstream_st *getStream() const { return stream; }
  bool hasFailed() const { return failure.has_value(); }
  /// Whether work is captured into a graph instead of executed.
  bool isCapturing() const { return capturing; }
  /// Whether the current stream is one of the caller.
  bool isOnCallersStream() const { return stream != ownStream; }
  /// Returns the error that destroyed the context, if `hasFailed`.
  const Error &getFailure() const { return *failure; }

  /// Calls a function of the driver, unless the device has failed.
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) {
    if (failure)
      return *failure;
    if (int status = function.address(arguments...))
      return judge(status, function.name);
    return {};
  }
  /// Marks the device as failed with `error`, and adds which kernels were
  /// running.
  Error fail(Error error);
  /// Waits for pending work. Returns whether the device has not failed.
  bool waitForPending();

private:
  friend class Graph;
  friend class Module;
  explicit Device(Driver driver) : driver(std::move(driver)) {}
  Result<void> createMark();
  Work findRunning() const;
  Error judge(int status, std::string_view call);
  Result<void> poll(std::string_view call, const std::function<int()> &ask);
  Error describeShortage(std::uint64_t bytes, const Memory &memory,
                         std::span<const NamedBytes> parts) const;

  Driver driver;
  CudaDevice properties;
  DeviceOptions options;
  CUctx_st *context = nullptr;
  CUstream_st *ownStream = nullptr;
  CUstream_st *stream = nullptr; ///< The current one.
  bool capturing = false;

  /// Work that the host has not waited for. After each item, the stream writes
  /// its number to `mark`, which the host can read even after the context is
  /// lost; null if the device does not support such writes.
  std::vector<Work> pending;
  PinnedMemory markMemory;
  const volatile std::uint32_t *mark = nullptr;
  Address markAddress = 0;
  std::uint32_t firstNumber = 0; ///< Number of the first item of `pending`.
  std::optional<Error> failure;
};

template <typename Handle, auto Release> Owned<Handle, Release>::~Owned() {
  // Wait first, because the driver's release functions wait for kernels without
  // a time limit. Errors cannot be reported here, but the device stores them.
  if (handle != Handle{} && device->waitForPending())
    (void)device->call(device->getDriver().functions.*Release, handle);
}

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DEVICE_H
