//===- Devices.h - Devices that execute a step ------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_DEVICES_H
#define BINADE_RUNTIME_DEVICES_H

#include "binade/Container/Error.h"
#include <compare>
#include <cstdint>
#include <vector>

namespace binade {

/// A CUDA compute capability, such as 9.0.
struct ComputeCapability {
  int major = 0, minor = 0;

  auto operator<=>(const ComputeCapability &) const = default;
  /// Returns "9.0".
  std::string format() const;
};

/// The properties of a CUDA device; 0 where the driver does not report one.
struct CudaDevice {
  int index = 0;
  std::string name;
  ComputeCapability capability;
  std::uint64_t bytes = 0;
  int multiprocessors = 0;
  std::uint64_t clockHz = 0;
  /// Memory bandwidth: bus width times memory clock, with two transfers per
  /// cycle.
  double bytesPerSecond = 0;
  std::uint64_t cacheBytes = 0; ///< Size of the L2 cache.
  int sharedBytes = 0;          ///< Maximum shared memory of a thread block.

  /// Returns "cuda:0 (NVIDIA H200)".
  std::string format() const;
};

/// The CPU and the CUDA devices of this machine.
struct DeviceList {
  unsigned cores = 0;
  /// The best supported level, such as `x86-64-v4`; empty if this CPU cannot
  /// run kernels.
  std::string isaLevel;
  std::uint64_t memory = 0;
  int cudaVersion = 0; ///< The driver's: 12030 is 12.3.
  std::vector<CudaDevice> cuda;
  /// Why no CUDA device, or no further one, was found.
  std::optional<Error> cudaError;
};

DeviceList listDevices();

/// The device that a user selects.
struct DeviceChoice {
  enum Kind { Auto, Cpu, Cuda } kind = Auto;
  int index = 0; ///< Index of the CUDA device.

  /// Parses `auto`, `cpu`, `cuda` or `cuda:1`.
  static std::optional<DeviceChoice> parse(std::string_view text);
};

/// The chip that kernels were compiled for. A cubin (`sm_90`) runs on devices
/// of the same major version and at least the same minor version; PTX
/// (`compute_80`) runs on this version and all newer ones. Kernels with the
/// suffix `a` run on exactly this version, those with `f` on this major
/// version.
struct Chip {
  ComputeCapability capability;
  bool isPtx = false;
  char suffix = 0;

  static std::optional<Chip> parse(std::string_view text);
  std::string format() const;
  bool runsOn(ComputeCapability device) const;
};

/// Returns the index of the chip whose kernels to load on `device`: the newest
/// cubin that runs there, else the newest PTX. Returns nothing if none runs.
std::optional<std::size_t> findChip(const std::vector<Chip> &chips,
                                    ComputeCapability device);

} // namespace binade

#endif // BINADE_RUNTIME_DEVICES_H
