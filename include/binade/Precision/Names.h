//===- Names.h - ops and values as people call them -------------*- C++ -*-===//

#ifndef BINADE_PRECISION_NAMES_H
#define BINADE_PRECISION_NAMES_H

#include "mlir/IR/Operation.h"

namespace mlir::binade {

/// Name of the node that `op` came from, as its location says; empty for none.
StringRef getNodeName(Operation *op);

/// "matmul at 'node', backward"; the forward part is not named.
std::string describe(Operation *op);

/// The op that makes `value`, or the argument: "parameter 'w'".
std::string describe(Value value);

} // namespace mlir::binade

#endif // BINADE_PRECISION_NAMES_H
