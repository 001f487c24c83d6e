//===- Devices.h - What a step can run on -----------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_DEVICES_H
#define BINADE_RUNTIME_DEVICES_H

#include "binade/Container/Error.h"
#include <compare>
#include <cstdint>
#include <vector>

namespace binade {

/// Of CUDA: what a device can do, 9.0 for example.
struct ComputeCapability {
  int major = 0, minor = 0;

  auto operator<=>(const ComputeCapability &) const = default;
  /// "9.0"
  std::string format() const;
};

/// A CUDA device as its driver describes it. What the driver does not say is 0.
struct CudaDevice {
  int index = 0;
  std::string name;
  ComputeCapability capability;
  std::uint64_t bytes = 0;
  int multiprocessors = 0;
  std::uint64_t clockHz = 0;
  /// Of the memory, at its clock and with two transfers per cycle.
  double bytesPerSecond = 0;
  std::uint64_t cacheBytes = 0; ///< Second level.
  int sharedBytes = 0;          ///< That one block may have.

  /// "cuda:0 (NVIDIA H200)"
  std::string format() const;
};

/// The CPU, and the CUDA devices or why there are none, or no more.
struct DeviceList {
  unsigned cores = 0;
  /// `x86-64-v4`; empty where kernels cannot run.
  std::string isaLevel;
  std::uint64_t memory = 0;
  int cudaVersion = 0; ///< The driver's: 12030 is 12.3.
  std::vector<CudaDevice> cuda;
  std::optional<Error> whyNoCuda;
};

DeviceList listDevices();

/// What a user wants to run on.
struct DeviceChoice {
  enum Kind { Auto, Cpu, Cuda } kind = Auto;
  int index = 0; ///< Of a CUDA device.

  /// `auto`, `cpu`, `cuda` or `cuda:1`.
  static std::optional<DeviceChoice> parse(std::string_view text);
};

/// What kernels were compiled for. A cubin, `sm_90`, runs on devices of the
/// same major version and at least the minor one; PTX, `compute_80`, on that
/// and all newer ones. A name that ends in `a` is for this version alone, one
/// in `f` for its major version.
struct Chip {
  ComputeCapability capability;
  bool isPtx = false;
  char suffix = 0;

  static std::optional<Chip> parse(std::string_view text);
  std::string format() const;
  bool runsOn(ComputeCapability device) const;
};

/// The chip to load on `device`: the newest cubin, else the newest PTX; none
/// where nothing runs.
std::optional<std::size_t> findChip(const std::vector<Chip> &chips,
                                    ComputeCapability device);

} // namespace binade

#endif // BINADE_RUNTIME_DEVICES_H
