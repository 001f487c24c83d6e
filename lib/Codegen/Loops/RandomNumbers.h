//===- RandomNumbers.h - Random numbers of several lanes --------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_RANDOMNUMBERS_H
#define BINADE_LIB_CODEGEN_LOOPS_RANDOMNUMBERS_H

#include "Emitter.h"

namespace mlir::binade {

/// Returns how many vectors an iteration of a CPU loop of `kernel` should
/// compute: two if it draws several random numbers per counter, so that the
/// counters of both fill the lanes of a vector.
int64_t chooseVectorsPerIteration(func::FuncOp kernel);

/// Returns the random numbers of all lanes, if `op` draws several per counter
/// and the lanes are all elements of some counters.
std::optional<Element> drawTogether(Emitter &e, Operation *op,
                                    const Offset &offset);

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_RANDOMNUMBERS_H
