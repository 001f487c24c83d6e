//===- DeviceStarts.h - Kernel launches on a device -------------*- C++ -*-===//

#ifndef BINADE_PLAN_DEVICESTARTS_H
#define BINADE_PLAN_DEVICESTARTS_H

#include "binade/Container/Error.h"
#include "binade/Plan/Plan.h"
#include <span>

namespace binade {

/// An operand in the table of a multi-tensor kernel: `column` of the rows
/// [begin, end) has the offset of `view`.
struct TableOperand {
  plan::View view;
  std::size_t column = 0, begin = 0, end = 0;
};

/// One launch of an entry of a kernel; see plan::DeviceKernel.
struct DeviceStart {
  const plan::DeviceKernel *kernel = nullptr;
  const plan::DeviceKernel::Entry *entry = nullptr;
  std::int64_t blocks = 0; ///< Blocks along the grid's first axis.
  /// The operands whose addresses are the arguments; empty for a multi-tensor
  /// kernel.
  std::vector<plan::View> operands;
  /// The table that a multi-tensor kernel gets as its second argument.
  std::vector<std::int64_t> table;
  std::vector<TableOperand> tableOperands;
};

/// Returns the kernel launches of a launch record, in order. Errors, at
/// `where`: a launch that a valid plan may contain but a device cannot execute.
Result<std::vector<DeviceStart>> listStarts(const Plan &plan,
                                            const plan::Launch &launch,
                                            std::string_view label,
                                            const std::string &where);

/// Returns the launches of one kernel without a launch record.
Result<std::vector<DeviceStart>>
listStarts(const Plan &plan, const std::string &kernel,
           std::span<const plan::View> operands, const std::string &where);

/// Returns the launches of a record's kernels. The record must not be a loop.
Result<std::vector<DeviceStart>> listStarts(const Plan &plan,
                                            const plan::Record &record,
                                            const std::string &where);

} // namespace binade

#endif // BINADE_PLAN_DEVICESTARTS_H
