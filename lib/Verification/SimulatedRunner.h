//===- SimulatedRunner.h - records of a device without one ------*- C++ -*-===//

#ifndef BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H
#define BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H

#include "binade/Runtime/RecordRunner.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>

namespace mlir::binade {

/// Executes the records of `plan`, which outlives it, thread by thread. `code`
/// is the IR of the modules that its device kernels name.
::binade::Result<std::unique_ptr<::binade::RecordRunner>>
createSimulatedRunner(const ::binade::Plan &plan, ArrayRef<std::string> code,
                      const std::string &where);

} // namespace mlir::binade

#endif // BINADE_LIB_VERIFICATION_SIMULATEDRUNNER_H
