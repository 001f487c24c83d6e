//===- Formula.h - functions of scalars, evaluated --------------*- C++ -*-===//

#ifndef BINADE_LIB_REFERENCE_FORMULA_H
#define BINADE_LIB_REFERENCE_FORMULA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>

namespace mlir::binade {

/// A function of `arith` and `math` ops on scalars, such as an optimizer's
/// rule: every op is evaluated in f64 and rounded to the format of its result,
/// in the order written.
class Formula {
public:
  /// A float, an integer, or i1 as 0 or 1.
  union Number {
    double real;
    int64_t integer;
  };

  /// Fails, with an error at the op, for ops that are not known here.
  static FailureOr<Formula> compile(func::FuncOp function);

  /// The results for `arguments`, both in the function's order; valid until the
  /// next call.
  ArrayRef<Number> operator()(ArrayRef<Number> arguments);

  /// Whether every op has one correct result: none is approximated by
  /// implementations.
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
