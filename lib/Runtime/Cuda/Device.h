//===- Device.h - A CUDA device and its stream ------------------*- C++ -*-===//
// One stream, on which everything happens in order, and which the host waits
// for by `wait` alone. After an error that ends the device's context no
// function of the driver is called any more: every later call gives the same
// error, and what was allocated is left to the end of the process.
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

/// What runs, and the op that it came from: for messages. The text lives for as
/// long as the device, or the graph, may run it.
struct Label {
  std::string_view kernel, op;
};

/// A part of memory, for the table of an error.
struct NamedBytes {
  std::string name;
  std::uint64_t bytes;
};

/// What was put on the stream at once: a launch, or a graph of several.
struct Work {
  Label first, last;
  std::uint64_t count = 0;

  void add(const Work &others);
};

struct DeviceOptions {
  /// How long the device may work without the host's seeing an end.
  std::chrono::duration<double> patience{300};
  /// Wait for each kernel. Who records graphs runs their work instead, so that
  /// an error names the kernel that failed.
  bool blocking = false;

  /// BINADE_CUDA_TIMEOUT (seconds) and BINADE_CUDA_BLOCKING (0 or 1).
  static Result<DeviceOptions> fromEnvironment();
};

/// Owns what `Release` gives back, unless the device has failed.
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
/// Memory of the host that a device reads and writes by itself.
using PinnedMemory = Owned<void *, &DriverTable::memFreeHost>;
/// A moment on the stream.
using Event = Owned<CUevent_st *, &DriverTable::eventDestroy>;

/// Blocks of a launch, threads of a block, and shared memory of a block that
/// the kernel does not declare.
struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  unsigned sharedBytes = 0;
};

/// To be used by one thread; another calls `bind` first. Outlives what it made.
class Device {
public:
  /// The device of this number, among those that CUDA_VISIBLE_DEVICES shows.
  static Result<std::unique_ptr<Device>> open(Driver driver, int index,
                                              DeviceOptions options = {});
  Device(const Device &) = delete;
  ~Device();

  const CudaDevice &getProperties() const { return properties; }
  const DeviceOptions &getOptions() const { return options; }
  const Driver &getDriver() const { return driver; }
  /// Makes the context that of the calling thread.
  Result<void> bind();

  struct Memory {
    std::uint64_t free, total;
  };
  Result<Memory> getMemory();
  /// An error (exit code 7) shows the largest of `parts`.
  Result<DeviceMemory> allocate(std::uint64_t bytes,
                                std::span<const NamedBytes> parts = {});
  Result<PinnedMemory> allocatePinned(std::uint64_t bytes);

  // What follows is put on the stream.

  /// Pinned memory is read when the stream comes to it, other memory at once.
  Result<void> upload(Address to, const void *from, std::uint64_t bytes);
  /// Into pinned memory: for other memory the driver would wait by itself,
  /// without an end.
  Result<void> download(void *to, Address from, std::uint64_t bytes);
  Result<void> copy(Address to, Address from, std::uint64_t bytes);
  Result<void> fill(Address to, std::byte value, std::uint64_t bytes);
  Result<Event> record();
  /// Moves an event to now.
  Result<void> record(const Event &event);
  /// `arguments` are the addresses of what the kernel gets. A grid without
  /// blocks is no error, and runs nothing.
  Result<void> launch(CUfunc_st *kernel, const LaunchShape &shape,
                      std::span<void *const> arguments, const Label &label);
  /// Work that others have put on the stream, such as libraries.
  Result<void> note(const Work &work);
  Result<void> note(const Label &label) { return note({label, label, 1}); }

  /// Downloads into any memory, and waits for it.
  Result<void> read(void *to, Address from, std::uint64_t bytes);
  /// Returns when the stream is empty. An error of what ran names it; after
  /// `patience` the device counts as lost.
  Result<void> wait();
  /// The same when the stream has come to `event`.
  Result<void> wait(const Event &event);
  /// Between two events that were waited for.
  Result<std::chrono::duration<double>> measure(const Event &from,
                                                const Event &to);

  CUstream_st *getStream() const { return stream; }
  bool hasFailed() const { return failure.has_value(); }
  /// Whether what is put on the stream is recorded for a graph: nothing runs
  /// that could fail.
  bool isCapturing() const { return capturing; }
  /// The failure that ended the context; only after it.
  const Error &getFailure() const { return *failure; }

  /// Runs a function of the driver, unless the device has failed.
  template <typename... Parameters, typename... Arguments>
  Result<void> call(const Function<int(Parameters...)> &function,
                    Arguments... arguments) {
    if (failure)
      return *failure;
    if (int status = function.address(arguments...))
      return judge(status, function.name);
    return {};
  }
  /// Ends the context with `error`, which says what was running.
  Error fail(Error error);
  /// Waits if kernels may run; true where the device lives.
  bool settle();

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
  CUstream_st *stream = nullptr;
  bool capturing = false;

  /// What the host has not waited for. After each the stream writes its number
  /// to `mark`, which can be read when the context is lost; null where the
  /// device has no such writes.
  std::vector<Work> pending;
  PinnedMemory markMemory;
  const volatile std::uint32_t *mark = nullptr;
  Address markAddress = 0;
  std::uint32_t firstNumber = 0; ///< Of `pending`.
  std::optional<Error> failure;
};

template <typename Handle, auto Release> Owned<Handle, Release>::~Owned() {
  // The driver waits for kernels before it takes memory back, without an end. A
  // destructor has nobody to report to, and the device remembers.
  if (handle != Handle{} && device->settle())
    (void)device->call(device->getDriver().functions.*Release, handle);
}

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_DEVICE_H
