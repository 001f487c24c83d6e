//===- OpKeys.h - ops of a step told apart ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_TRACING_OPKEYS_H
#define BINADE_LIB_TRACING_OPKEYS_H

#include "binade/IR/Interface.h"
#include "binade/Tracing/Trace.h"

namespace mlir::binade {

/// Gives ops names that are the same with other formats: phase, kind and node,
/// and a number where several have these. To be asked in the order of the step.
class OpKeys {
public:
  std::string next(Operation *op);

private:
  llvm::StringMap<unsigned> counts;
};

/// What the inputs of a step call an argument: "role/name".
std::string nameInput(const Port &port);

/// The format of the elements of `value`.
void describeFormat(Value value, TracedValue &traced);

/// All about `op` but the range of a result.
TracedValue describeTraced(Operation *op, unsigned result);

/// What `value` is before it was cast to another float format, or saved.
Value getOriginal(Value value);

TracedRange measureRange(const Tensor &tensor);

} // namespace mlir::binade

#endif // BINADE_LIB_TRACING_OPKEYS_H
