//===- Launch.h - Kernels over blocks of work items -------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H
#define BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H

#include "KernelObject.h"
#include "Operation.h"

namespace binade {

/// Rejected where `kernels` lack the launch's functions.
Result<std::unique_ptr<Operation>> createLaunch(const plan::Launch &launch,
                                                const Memory &memory,
                                                const KernelObject &kernels,
                                                std::string_view where);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_LAUNCH_H
