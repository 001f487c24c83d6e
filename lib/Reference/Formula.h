//===- Formula.h - Evaluation of scalar functions ---------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_FORMULA_H
#define BINADE_LIB_REFERENCE_FORMULA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>

namespace mlir::binade {

/// The larger value, and the smaller one: NaN if either is NaN, and 0 is
/// greater than -0.
double maximum(double x, double y);
double minimum(double x, double y);

/// A function of `arith` and `math` ops on scalars, such as an optimizer's
/// rule. Every op is evaluated in f64 and rounded to the format of its result,
/// in order.
class Formula {
public:
  /// A float, an integer, or i1 as 0 or 1.
  union Number {
    double real;
    int64_t integer;
  };

  /// Compiles `function`. Emits an error at an op that is not supported.
  static FailureOr<Formula> compile(func::FuncOp function);

  /// Returns the results for `arguments`, both in the function's order; valid
  /// until the next call.
  ArrayRef<Number> operator()(ArrayRef<Number> arguments);

  /// Whether every op has only one correct result, so that implementations do
  /// not approximate any.
  bool isExact() const { return exact; }

private:
  using Step = std::function<void(MutableArrayRef<Number> slots)>;
  FailureOr<Step> compileOp(Operation *op);
  unsigned getSlot(Value value) const { return slotOf.lookup(value); }

  llvm::DenseMap<Value, unsigned> slotOf;
  std::vector<Number> slots;
  std::vector<Step> steps;
  std::vector<unsigned> resultSlots;
  std::vector<Number> results;
  bool exact = true;
};

} // namespace mlir::binade

#endif // BINADE_LIB_REFERENCE_FORMULA_H
