//===- DeviceStarts.h - What a record starts on a device --------*- C++ -*-===//

#ifndef BINADE_PLAN_DEVICESTARTS_H
#define BINADE_PLAN_DEVICESTARTS_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// A part of a kernel, started once; see plan::DeviceKernel.
struct DeviceStart {
  const plan::DeviceKernel *kernel = nullptr;
  const plan::DeviceKernel::Entry *entry = nullptr;
  std::int64_t blocks = 0; ///< Of the grid's first axis.
  /// Whose addresses it gets; empty for a kernel over many tensors.
  std::vector<plan::View> operands;
  /// What a kernel over many tensors finds behind the arena's address.
  std::vector<std::int64_t> table;
};

/// The starts of a launch, in their order. Errors, at `where`: what a plan that
/// is valid may still ask of a device that it cannot do.
Result<std::vector<DeviceStart>> listStarts(const Plan &plan,
                                            const plan::Launch &launch,
                                            std::string_view label,
                                            const std::string &where);

/// The starts of one kernel for which there is no launch in the plan.
Result<std::vector<DeviceStart>>
listStarts(const Plan &plan, const std::string &kernel,
           std::span<const plan::View> operands, const std::string &where);

/// The starts of a record's kernels. It is no loop.
Result<std::vector<DeviceStart>> listStarts(const Plan &plan,
                                            const plan::Record &record,
                                            const std::string &where);

} // namespace binade

#endif // BINADE_PLAN_DEVICESTARTS_H
