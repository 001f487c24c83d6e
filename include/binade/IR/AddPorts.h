//===- AddPorts.h - Adding several arguments or results ---------*- C++ -*-===//
//
// Adding ports one by one takes time proportional to all ports for each.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_IR_ADDPORTS_H
#define BINADE_IR_ADDPORTS_H

#include "binade/IR/Interface.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::binade {

struct NewArgument {
  std::string name;
  Type type;
  Location loc;
  /// May be null.
  Attribute init;
  /// Whether a buffer is a parameter that is not trained.
  bool isFrozen = false;
};

/// Adds arguments after the last one of their role, in role order, and returns
/// their values.
SmallVector<Value> addArguments(func::FuncOp function, Role role,
                                ArrayRef<NewArgument> arguments);

struct NewResult {
  Role role;
  std::string name;
  Value value;
};

/// Appends results to the function, and operands to its return.
void addResults(func::FuncOp function, ArrayRef<NewResult> results);

/// Returns the state of the random generator of dropout. Adds it as argument
/// and result if the function has none.
Value getRandomState(func::FuncOp function);

/// Returns the seed and the step from which the update of `parameter`, an
/// argument, draws random values. The upper half of the step is the parameter's
/// stream; streams of dropout are lower. The third value, for a shard that does
/// not begin with the first row, is the index of its first element.
SmallVector<Value> buildUpdateRandom(ImplicitLocOpBuilder &b, Value rng,
                                     BlockArgument parameter);

} // namespace mlir::binade

#endif // BINADE_IR_ADDPORTS_H
