//===- Names.h - ops and values as people call them -------------*- C++ -*-===//

#ifndef BINADE_IR_NAMES_H
#define BINADE_IR_NAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Name of the node that `op` came from, as its location says; empty for none.
StringRef getNodeName(Operation *op);

/// What the norm of a stable embedding is called: "token.norm" for the table
/// "token.weight".
std::string getEmbeddingNorm(StringRef table);

/// "matmul at 'node', backward"; the forward part is not named.
std::string describe(Operation *op);

/// The op that makes `value`, or the argument: "parameter 'w'".
std::string describe(Value value);

/// A value and a name that no other has.
struct NamedValue {
  Value value;
  std::string name;
};

/// The values of a training step whose format can be chosen, in order: "forward
/// matmul /h.0/MatMul" by phase, op and node, "parameter w", "batch x". Where
/// several would have one name, " #2" and so on follow. The same before and
/// after casts are inserted. What is saved has the name of its value alone.
SmallVector<NamedValue> nameValues(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_IR_NAMES_H
