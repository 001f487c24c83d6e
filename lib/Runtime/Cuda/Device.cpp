//===- Device.cpp - A CUDA device and its stream --------------------------===//

#include "Device.h"
#include "Properties.h"
#include "binade/Container/Numbers.h"
#include <algorithm>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <tuple>

using namespace binade;
using namespace binade::cuda;

void Work::add(const Work &others) {
  if (others.count == 0)
    return;
  if (count == 0)
    first = others.first;
  last = others.last;
  count += others.count;
}

/// Returns "'kernel' (op)".
static std::string format(const Label &label) {
  std::string text = quote(label.kernel);
  if (!label.op.empty())
    text += " (" + printable(label.op) + ")";
  return text;
}

Result<DeviceOptions> DeviceOptions::fromEnvironment() {
  DeviceOptions options;
  if (const char *text = std::getenv("BINADE_CUDA_TIMEOUT")) {
    char *end;
    double seconds = std::strtod(text, &end);
    if (!*text || *end || !(seconds > 0))
      return Error{"BINADE_CUDA_TIMEOUT",
                   "expected seconds, a number above 0, got " + quote(text),
                   ExitCode::Usage};
    options.timeout = std::chrono::duration<double>(seconds);
  }
  if (const char *text = std::getenv("BINADE_CUDA_BLOCKING")) {
    std::string_view word = text;
    if (word != "0" && word != "1")
      return Error{"BINADE_CUDA_BLOCKING",
                   "expected 0 or 1, got " + quote(word), ExitCode::Usage};
    options.blocking = word == "1";
  }
  return options;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

Work Device::findRunning() const {
  std::size_t first = 0, end = pending.size();
  if (mark) {
    first = std::min<std::size_t>(end, *mark - firstNumber);
    end = std::min(end, first + 1);
  }
  Work running;
  for (; first < end; ++first)
    running.add(pending[first]);
  return running;
}

Error Device::fail(Error error) {
  error.where = properties.format();
  error.exitCode = ExitCode::Device;
  Work running = findRunning();
  if (running.count) {
    std::string text = "while kernel " + format(running.first) + " ran";
    if (running.count == 2)
      text += ", or " + format(running.last) + " after it";
    else if (running.count > 2)
      text += ", or one of the " + std::to_string(running.count - 1) +
              " after it, the last of which is " + format(running.last);
    error = std::move(error).withNote(text);
  }
  if (running.count > 1)
    error = std::move(error).withNote(
        "BINADE_CUDA_BLOCKING=1 finds out which one, but is slower");
  failure = error;
  return error;
}

Error Device::judge(int status, std::string_view call) {
  Error error = driver.describe(status, call);
  error.where = properties.format();
  return isSticky(status) ? fail(std::move(error)) : error;
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<Device>> Device::open(Driver driver, int index,
                                             DeviceOptions options) {
  Result<CudaDevice> properties = readProperties(driver, index);
  if (!properties)
    return properties.takeError();
  std::unique_ptr<Device> device(new Device(std::move(driver)));
  device->properties = *std::move(properties);
  device->options = options;
  CUctx_st *context = nullptr;
  const DriverTable &functions = device->driver.functions;
  if (auto done = device->call(functions.primaryCtxRetain, &context,
                               device->properties.index);
      !done)
    return done.takeError();
  device->context = context;
  if (auto done = device->bind(); !done)
    return done.takeError();
  if (auto done = device->call(functions.streamCreate, &device->ownStream,
                               kStreamNonBlocking);
      !done)
    return done.takeError();
  device->stream = device->ownStream;
  if (auto done = device->createMark(); !done)
    return done.takeError();
  return device;
}

Result<void> Device::createMark() {
  Result<PinnedMemory> memory = allocatePinned(sizeof(*mark));
  if (!memory)
    return memory.takeError();
  auto *number = static_cast<std::uint32_t *>(memory->get());
  *number = 0;
  if (auto done = call(driver.functions.memHostGetDevicePointer, &markAddress,
                       memory->get(), 0u);
      !done)
    return done;
  markMemory = *std::move(memory);
  mark = number;
  return {};
}

Device::~Device() {
  const DriverTable &functions = driver.functions;
  if (ownStream && waitForPending())
    (void)call(functions.streamDestroy, ownStream);
  markMemory = {};
  if (context)
    (void)call(functions.primaryCtxRelease, properties.index);
}

Result<void> Device::bind() {
  return call(driver.functions.ctxSetCurrent, context);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result<Device::Memory> Device::getMemory() {
  std::size_t free = 0, total = 0;
  if (auto done = call(driver.functions.memGetInfo, &free, &total); !done)
    return done.takeError();
  return Memory{free, total};
}

Error Device::describeShortage(std::uint64_t bytes, const Memory &memory,
                               std::span<const NamedBytes> parts) const {
  Error error = {properties.format(),
                 "needs " + formatBytes(bytes) + " of memory; of " +
                     formatBytes(memory.total) + ", " +
                     formatBytes(memory.free) + " are free",
                 ExitCode::Resources};
  constexpr std::size_t shown = 8;
  std::vector<NamedBytes> sorted(parts.begin(), parts.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const NamedBytes &one, const NamedBytes &other) {
              return std::tie(other.bytes, one.name) <
                     std::tie(one.bytes, other.name);
            });
  for (const NamedBytes &part :
       std::span(sorted).first(std::min(shown, sorted.size())))
    error = std::move(error).withNote(formatBytes(part.bytes) + " for " +
                                      printable(part.name));
  if (sorted.size() > shown)
    error = std::move(error).withNote(
        "and " + std::to_string(sorted.size() - shown) + " smaller ones");
  if (bytes <= memory.total)
    error = std::move(error).withNote(kMemoryAdvice);
  return std::move(error).withNote(
      "a smaller batch or a narrower policy needs less");
}

Result<DeviceMemory> Device::allocate(std::uint64_t bytes,
                                      std::span<const NamedBytes> parts) {
  Result<Memory> memory = getMemory();
  if (!memory)
    return memory.takeError();
  if (bytes > memory->free)
    return describeShortage(bytes, *memory, parts);
  Address address = 0;
  // The driver rejects a size of 0.
  auto done = call(driver.functions.memAlloc, &address,
                   std::max<std::size_t>(bytes, 1));
  if (done)
    return DeviceMemory(*this, address);
  if (done.error().exitCode == ExitCode::Resources)
    return describeShortage(bytes, *memory, parts);
  return done.takeError();
}

Result<PinnedMemory> Device::allocatePinned(std::uint64_t bytes) {
  void *address = nullptr;
  if (auto done = call(driver.functions.memHostAlloc, &address,
                       std::max<std::size_t>(bytes, 1), kMemHostAllocPortable);
      !done)
    return done.takeError().withNote("allocating pinned host memory; ulimit -l "
                                     "or the container's limits may be too "
                                     "low");
  return PinnedMemory(*this, address);
}

Result<void> Device::upload(Address to, const void *from, std::uint64_t bytes) {
  if (bytes == 0)
    return {};
  return call(driver.functions.memcpyHtoDAsync, to, from, bytes, stream);
}

Result<void> Device::download(void *to, Address from, std::uint64_t bytes) {
  if (bytes == 0)
    return {};
  return call(driver.functions.memcpyDtoHAsync, to, from, bytes, stream);
}

Result<void> Device::copy(Address to, Address from, std::uint64_t bytes) {
  if (bytes == 0)
    return {};
  return call(driver.functions.memcpyDtoDAsync, to, from, bytes, stream);
}

Result<void> Device::fill(Address to, std::byte value, std::uint64_t bytes) {
  if (bytes == 0)
    return {};
  return call(driver.functions.memsetD8Async, to,
              static_cast<unsigned char>(value), bytes, stream);
}

//===----------------------------------------------------------------------===//
// The stream
//===----------------------------------------------------------------------===//

Result<Event> Device::record() {
  CUevent_st *handle = nullptr;
  if (auto done = call(driver.functions.eventCreate, &handle, 0u); !done)
    return done.takeError();
  Event event(*this, handle);
  if (auto done = record(event); !done)
    return done.takeError();
  return event;
}

Result<void> Device::record(const Event &event) {
  return call(driver.functions.eventRecord, event.get(), stream);
}

Result<std::chrono::duration<double>> Device::measure(const Event &from,
                                                      const Event &to) {
  float milliseconds = 0;
  if (auto done = call(driver.functions.eventElapsedTime, &milliseconds,
                       from.get(), to.get());
      !done)
    return done.takeError();
  return std::chrono::duration<double>(milliseconds / 1000.0);
}

Result<void> Device::enqueueOn(CUstream_st *other,
                               const std::function<Result<void>()> &work) {
  int isOthersCapture = 0;
  if (auto done =
          call(driver.functions.streamIsCapturing, other, &isOthersCapture);
      !done)
    return done;
  stream = other;
  capturing = isOthersCapture != 0;
  Result<void> worked = work();
  stream = ownStream;
  capturing = false;
  return worked;
}

Result<void> Device::prepare(const std::function<Result<void>()> &work) {
  CUstream_st *outerStream = std::exchange(stream, ownStream);
  bool wasCapturing = std::exchange(capturing, false);
  // A capture in the mode `global`, as PyTorch's, forbids such calls.
  int mode = kCaptureModeRelaxed;
  const auto &exchangeMode = driver.functions.threadExchangeStreamCaptureMode;
  Result<void> done = call(exchangeMode, &mode);
  if (done) {
    done = work();
    if (Result<void> restored = call(exchangeMode, &mode); done)
      done = std::move(restored);
  }
  stream = outerStream;
  capturing = wasCapturing;
  return done;
}

Result<void> Device::note(const Work &work) {
  if (isOnCallersStream())
    return {};
  pending.push_back(work);
  if (capturing)
    return {};
  auto number = static_cast<std::uint32_t>(firstNumber + pending.size());
  if (mark && !call(driver.functions.streamWriteValue32, stream, markAddress,
                    number, 0u)) {
    if (failure)
      return *failure;
    mark = nullptr;
  }
  return options.blocking ? wait() : Result<void>();
}

Result<void> Device::launch(CUfunc_st *kernel, const LaunchShape &shape,
                            std::span<void *const> arguments,
                            const Label &label) {
  auto [x, y, z] = shape.grid;
  if (x == 0 || y == 0 || z == 0)
    return {};
  auto [bx, by, bz] = shape.block;
  // The driver's parameter is not const, but it does not change the arguments.
  if (auto done =
          call(driver.functions.launchKernel, kernel, x, y, z, bx, by, bz,
               shape.sharedBytes, stream, const_cast<void **>(arguments.data()),
               static_cast<void **>(nullptr));
      !done)
    // If an earlier kernel may have failed, the error already names it.
    return failure && !pending.empty()
               ? done.takeError()
               : done.takeError().withPart("kernel " + format(label));
  return note(label);
}

bool Device::waitForPending() {
  if (!pending.empty() && !capturing)
    (void)wait();
  return !failure;
}

Result<void> Device::read(void *to, Address from, std::uint64_t bytes) {
  if (auto done = wait(); !done)
    return done;
  if (auto done = download(to, from, bytes); !done)
    return done;
  return wait();
}

Result<void> Device::wait() {
  const auto &function = driver.functions.streamQuery;
  auto done = poll(function.name, [&] { return function.address(stream); });
  if (done) {
    firstNumber += static_cast<std::uint32_t>(pending.size());
    pending.clear();
  }
  return done;
}

Result<void> Device::wait(const Event &event) {
  const auto &function = driver.functions.eventQuery;
  return poll(function.name, [&] { return function.address(event.get()); });
}

/// Polls until `ask` succeeds, because the driver's own wait may never return.
Result<void> Device::poll(std::string_view call,
                          const std::function<int()> &ask) {
  if (failure)
    return *failure;
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds spinning(0.01), longest(0.001);
  const Clock::time_point start = Clock::now();
  while (int status = ask()) {
    if (status != status::NotReady)
      return judge(status, call);
    Seconds elapsed = Clock::now() - start;
    if (elapsed > options.timeout)
      return fail(
          Error{"", "the device has not finished its work for " +
                        formatNumber(options.timeout.count()) + " s"}
              .withNote("BINADE_CUDA_TIMEOUT sets the limit, in seconds"));
    if (elapsed < spinning)
      ::sched_yield();
    else // Adds at most a thousandth to the time.
      std::this_thread::sleep_for(std::min(elapsed / 1000, longest));
  }
  return {};
}
