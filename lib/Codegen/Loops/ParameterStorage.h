//===- ParameterStorage.h - Storage of parameters in 16 bits ----*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H
#define BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H

#include "Emitter.h"

namespace mlir::binade {

/// How an update reads and writes its parameter and its companion: the master
/// weight, remainder or compensation. Values are elements, or vectors of them.
class ParameterStorage {
public:
  ParameterStorage(Emitter &emitter, OptimizerUpdateOp op);

  /// Whether the update reads the parameter. It need not if there is an f32
  /// master weight.
  bool readsParameter() const { return master != Master::F32; }

  /// Returns the parameter in f32, as the rule reads it.
  Value decode(Value parameter, Value companion);

  /// Returns the new parameter and the new companion (or null), from the values
  /// `before` and `after` the rule's update. `random` is used by stochastic
  /// rounding.
  std::pair<Value, Value> encode(Value before, Value after, Value companion,
                                 std::optional<FloatLanes> random);

private:
  Type like(Value x, Type element);
  Value joinHalves(Value high, Value low);
  Value takeUpperHalf(Value word);
  std::pair<Value, Value> addCompensated(Value before, Value after, Value lost);
  std::pair<Value, Value> addWithResidual(Value before, Value after,
                                          Value residual);

  Emitter &emitter;
  ImplicitLocOpBuilder &b;
  Master master;
  FloatType format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H
