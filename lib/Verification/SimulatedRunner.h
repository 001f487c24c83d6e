//===- SimulatedRunner.h - Records in the simulator -------------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H
#define BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H

#include "binade/Runtime/RecordRunner.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>

namespace mlir::binade {

/// Creates a runner that executes the records of `plan`, which has to outlive
/// it, in the simulator. `code` is the IR of the modules of device kernels.
::binade::Result<std::unique_ptr<::binade::RecordRunner>>
createSimulatedRunner(const ::binade::Plan &plan, ArrayRef<std::string> code,
                      const std::string &where);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H
