//===- Module.cpp - Kernels loaded on a CUDA device -----------------------===//

#include "Module.h"
#include "OpenDevice.h"
#include <charconv>
#include <vector>

using namespace binade;
using namespace binade::cuda;

/// Returns the version of a PTX text, such as 83 for 8.3; 0 if it has none.
static int findPtxVersion(std::string_view ptx) {
  constexpr std::string_view key = ".version";
  std::size_t at = ptx.find(key);
  if (at == ptx.npos)
    return 0;
  at = ptx.find_first_not_of(" \t", at + key.size());
  if (at == ptx.npos)
    return 0;
  const char *begin = ptx.data() + at, *end = ptx.data() + ptx.size();
  int major = 0, minor = 0;
  auto [dot, first] = std::from_chars(begin, end, major);
  if (first != std::errc() || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, minor).ec != std::errc())
    return 0;
  return 10 * major + minor;
}

/// Returns the first CUDA version that supports a PTX version; 0 if unknown.
static int findCudaVersion(int ptx) {
  static constexpr std::pair<int, int> versions[] = {
      {78, 11080}, {80, 12000}, {81, 12010}, {82, 12020}, {83, 12030},
      {84, 12040}, {85, 12050}, {87, 12080}, {88, 12090}, {90, 13000}};
  for (auto [known, cuda] : versions)
    if (known >= ptx)
      return cuda;
  return 0;
}

static Error describeOldDriver(const Driver &driver, std::string_view ptx,
                               std::string where) {
  int version = findPtxVersion(ptx);
  std::string text = version ? std::to_string(version / 10) + "." +
                                   std::to_string(version % 10)
                             : "unknown";
  Error error = {std::move(where),
                 "the driver is too old for these kernels: they are PTX of "
                 "version " +
                     text + ", the driver has CUDA " +
                     formatCudaVersion(driver.getVersion()),
                 ExitCode::Device};
  if (int cuda = version ? findCudaVersion(version) : 0)
    return std::move(error).withNote("CUDA " + formatCudaVersion(cuda) +
                                     " reads it: driver " +
                                     findMinimalDriver(cuda) + " or newer");
  return error;
}

static std::vector<Chip> getChips(std::span<const KernelImage> images) {
  std::vector<Chip> chips;
  for (const KernelImage &image : images)
    chips.push_back(image.chip);
  return chips;
}

Result<Module> Module::load(Device &device, std::span<const KernelImage> images,
                            std::string_view where) {
  std::string place(where);
  const auto &function = device.getDriver().functions.moduleLoadDataEx;
  std::vector<KernelImage> left(images.begin(), images.end());
  const std::vector<Chip> all = getChips(images);
  while (true) {
    auto found = findChip(getChips(left), device.getProperties().capability);
    if (!found)
      return describeUnsupported(device.getProperties(), all, place);
    KernelImage image = left[*found];
    // PTX has to end with a null character.
    std::string text(reinterpret_cast<const char *>(image.bytes.data()),
                     image.bytes.size());
    std::string log(8192, '\0');
    int keys[] = {jit::ErrorLogBuffer, jit::ErrorLogBufferSizeBytes};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
    if (device.hasFailed())
      return device.getFailure();
    CUmod_st *handle = nullptr;
    int status = function.address(&handle, text.c_str(), 2, keys, values);
    if (status == status::Success)
      return Module(device, {device, handle}, image.chip, place);
    // A driver may reject a cubin of a newer assembler; try PTX.
    if (!image.chip.isPtx && left.size() > 1 && !isSticky(status)) {
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(*found));
      continue;
    }
    if (status == status::UnsupportedPtxVersion)
      return describeOldDriver(device.getDriver(), text, place);
    if (status == status::NoBinaryForGpu)
      return describeUnsupported(device.getProperties(), all, place);
    Error error = device.judge(status, function.name);
    error.where = place;
    error.part = image.chip.format();
    log.resize(log.find('\0'));
    while (log.ends_with('\n'))
      log.pop_back();
    if (!log.empty())
      error = std::move(error).withNote("the driver's compiler says: " +
                                        printable(log, 2000));
    return error;
  }
}

Result<CUfunc_st *> Module::find(const std::string &name,
                                 unsigned sharedBytes) const {
  const DriverTable &functions = device->getDriver().functions;
  CUfunc_st *function = nullptr;
  if (auto done = device->call(functions.moduleGetFunction, &function,
                               handle.get(), name.c_str());
      !done) {
    if (device->hasFailed())
      return done.takeError();
    return Error{where, done.error().message, ExitCode::Rejected}.withPart(
        "kernel " + quote(name));
  }
  // The limit of shared memory without setting an attribute.
  constexpr unsigned usual = 48 << 10;
  if (sharedBytes > usual)
    if (auto done = device->call(functions.funcSetAttribute, function,
                                 kMaxDynamicSharedSizeBytes,
                                 static_cast<int>(sharedBytes));
        !done)
      return done.takeError().withPart("kernel " + quote(name));
  return function;
}
