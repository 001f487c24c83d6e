//===- Module.h - Kernels loaded on a CUDA device ---------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_MODULE_H
#define BINADE_RUNTIME_CUDA_MODULE_H

#include "Device.h"

namespace binade::cuda {

/// Kernels compiled for a chip: a cubin, or PTX as text.
struct KernelImage {
  Chip chip;
  std::span<const std::byte> bytes;
};

/// Kernels that are loaded on a device.
class Module {
public:
  /// Loads the best image for `device`, or PTX if the driver rejects the cubin.
  /// `where` names the images in messages. Cubins are machine code and trusted
  /// like the file that contains them.
  static Result<Module> load(Device &device,
                             std::span<const KernelImage> images,
                             std::string_view where);

  /// Returns a kernel that may be launched with `sharedBytes` of shared memory.
  Result<CUfunc_st *> find(const std::string &name,
                           unsigned sharedBytes = 0) const;
  /// Returns the chip of the image that was loaded.
  Chip getChip() const { return chip; }

private:
  Module(Device &device, Owned<CUmod_st *, &DriverTable::moduleUnload> handle,
         Chip chip, std::string where)
      : device(&device), handle(std::move(handle)), chip(chip),
        where(std::move(where)) {}

  Device *device;
  Owned<CUmod_st *, &DriverTable::moduleUnload> handle;
  Chip chip;
  std::string where;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_MODULE_H
