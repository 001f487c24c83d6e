//===- OpKeys.h - Keys and descriptions of ops ------------------*- C++ -*-===//

#ifndef BINADE_LIB_TRACING_OPKEYS_H
#define BINADE_LIB_TRACING_OPKEYS_H

#include "binade/IR/Interface.h"
#include "binade/Tracing/Trace.h"

namespace mlir::binade {

/// Assigns keys to ops that do not depend on formats: phase, kind and node, and
/// a number to distinguish ops with the same ones. `next` has to be called in
/// the order of the step.
class OpKeys {
public:
  std::string next(Operation *op);

private:
  llvm::StringMap<unsigned> counts;
};

/// Returns the name of an argument in the inputs of a step: "role/name".
std::string nameInput(const Port &port);

/// Sets the format and the limit of `traced` to those of `value`.
void describeFormat(Value value, TracedValue &traced);

/// Describes a result of `op`, except for its range.
TracedValue describeTraced(Operation *op, unsigned result);

/// Returns the value from which `value` is computed by casts between
/// floating-point formats and saves only.
Value getOriginal(Value value);

TracedRange measureRange(const Tensor &tensor);

} // namespace mlir::binade

#endif // BINADE_LIB_TRACING_OPKEYS_H
