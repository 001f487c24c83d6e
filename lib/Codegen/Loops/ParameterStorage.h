//===- ParameterStorage.h - parameters in 16 bits ---------------*- C++ -*-===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H
#define BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H

#include "Emitter.h"

namespace mlir::binade {

/// How an update reads and writes its parameter, and what is kept beside it.
/// Values are elements, or vectors of them.
class ParameterStorage {
public:
  ParameterStorage(Emitter &emitter, OptimizerUpdateOp op);

  /// Whether the parameter itself says anything that `beside` does not.
  bool readsParameter() const { return master != Master::F32; }

  /// The f32 that the rule reads.
  Value decode(Value parameter, Value beside);

  /// The new parameter and what is kept beside it, or null, of `before` and
  /// `after`, what the rule read and made. `random` is for `stochastic`.
  std::pair<Value, Value> encode(Value before, Value after, Value beside,
                                 std::optional<FloatLanes> random);

private:
  Type like(Value x, Type element);
  Value joinHalves(Value high, Value low);
  Value takeUpperHalf(Value word);
  std::pair<Value, Value> addCompensated(Value before, Value after, Value lost);

  Emitter &emitter;
  ImplicitLocOpBuilder &b;
  Master master;
  FloatType format;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_PARAMETERSTORAGE_H
