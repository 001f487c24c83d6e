//===- Launch.h - Parallel execution of kernels -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H
#define BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H

#include "KernelObject.h"
#include "Operation.h"

namespace binade {

/// Creates the operation of `record`, a launch. Fails if `kernels` lack one of
/// its functions.
Result<std::unique_ptr<Operation>> createLaunch(const plan::Record &record,
                                                const Memory &memory,
                                                const KernelObject &kernels,
                                                std::string_view where);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H
