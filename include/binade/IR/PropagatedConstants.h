//===- PropagatedConstants.h - Constants within values ----------*- C++ -*-===//

#ifndef BINADE_IR_PROPAGATEDCONSTANTS_H
#define BINADE_IR_PROPAGATEDCONSTANTS_H

#include "binade/IR/Binade.h"

namespace mlir::binade {

/// A constant c that some elements of a value are equal to, or are computed
/// from alone: x + c where x is 0, max(x, c), a selection, padding.
struct PropagatedConstant {
  Value constant;
  OpOperand *use; ///< The operand through which it enters the value.
  /// Maps an element of the constant to an element of the value.
  std::function<double(double)> make;
};

/// Finds the constants that elements of values are computed from alone. Visits
/// each op once, in order, and remembers which results such constants reach, so
/// that `find` follows only these.
class PropagatedConstants {
public:
  /// Visits an op. Those that compute its operands must have been visited.
  void visit(Operation *op);

  /// Returns constants that reach `value`. Follows at most 32 ops, so that it
  /// may miss some.
  SmallVector<PropagatedConstant, 1> find(Value value) const;

private:
  /// The number of ops between the nearest constant and a value; only of values
  /// that a constant reaches within 32 ops.
  llvm::DenseMap<Value, unsigned> distances;
};

} // namespace mlir::binade

#endif // BINADE_IR_PROPAGATEDCONSTANTS_H
