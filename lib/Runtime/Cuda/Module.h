//===- Module.h - Kernels on a CUDA device ----------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_MODULE_H
#define BINADE_RUNTIME_CUDA_MODULE_H

#include "Device.h"

namespace binade::cuda {

/// Kernels compiled for a chip: a cubin or, as text, PTX.
struct KernelImage {
  Chip chip;
  std::span<const std::byte> bytes;
};

/// Kernels that a device has loaded.
class Module {
public:
  /// Loads the image that is best for `device`; PTX where its cubin is refused.
  /// `where` names the images in messages. Cubins are machine code and are
  /// trusted as the file that they come from is.
  static Result<Module> load(Device &device,
                             std::span<const KernelImage> images,
                             std::string_view where);

  /// A kernel, allowed to have `sharedBytes` of shared memory at its launch.
  Result<CUfunc_st *> find(const std::string &name,
                           unsigned sharedBytes = 0) const;
  /// What was loaded: for people.
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
