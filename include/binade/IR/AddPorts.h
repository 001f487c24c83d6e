//===- AddPorts.h - many arguments and results at once ----------*- C++ -*-===//
//
// Added one by one, each port takes time for all that there are.
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
};

/// Adds arguments behind the last one of their role, in role order, and returns
/// their values.
SmallVector<Value> addArguments(func::FuncOp function, Role role,
                                ArrayRef<NewArgument> arguments);

struct NewResult {
  Role role;
  std::string name;
  Value value;
};

/// Adds results (and operands of the return) at the end.
void addResults(func::FuncOp function, ArrayRef<NewResult> results);

/// The state of the generator that dropout draws from; argument and result are
/// added where there are none.
Value getRandomState(func::FuncOp function);

/// What the update of the parameter that is argument `index` draws from: seed,
/// and step with the parameter's stream above it. Streams of dropout are those
/// below.
SmallVector<Value> buildUpdateRandom(ImplicitLocOpBuilder &b, Value rng,
                                     unsigned index);

} // namespace mlir::binade

#endif // BINADE_IR_ADDPORTS_H
