//===- Names.h - Names of ops and values in reports -------------*- C++ -*-===//

#ifndef BINADE_IR_NAMES_H
#define BINADE_IR_NAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::binade {

/// Returns the name of the node that `op` was imported from; empty if its
/// location has none.
StringRef getNodeName(Operation *op);

/// Whether a node called `name` belongs to the module `path` of PyTorch:
/// "head/linear_9" and "head.0/linear" belong to "head".
bool isInModule(StringRef name, StringRef path);

/// Returns the end of a message that nothing is called `glob`: the most similar
/// of `names`, or else those that begin alike, or some of them. Says so if
/// there are none.
std::string suggestNames(StringRef glob, ArrayRef<std::string> names);

/// Returns the name of the norm of a stable embedding: "token.norm" for the
/// table "token.weight".
std::string getEmbeddingNorm(StringRef table);

/// Returns "matmul at 'node', backward"; the forward phase is not named.
std::string describe(Operation *op);

/// Describes the producer of `value`, or the argument: "parameter 'w'".
std::string describe(Value value);

/// Returns a name for a kernel, from its first and last op. An op that each
/// reader recomputes is named only if there is no other, and an op that moves
/// elements is not the first if there is another.
std::string nameByOps(func::FuncOp kernel);

/// A value and its unique name.
struct NamedValue {
  Value value;
  std::string name;
};

/// Returns the values of a training step whose format can be chosen, in order,
/// with names by phase, op and node: "forward matmul /h.0/MatMul", "parameter
/// w", "batch x". Equal names get " #2" and so on. The names are the same
/// before and after casts are inserted. A saved value is listed only under the
/// name of the value itself.
SmallVector<NamedValue> nameValues(func::FuncOp step);

} // namespace mlir::binade

#endif // BINADE_IR_NAMES_H
