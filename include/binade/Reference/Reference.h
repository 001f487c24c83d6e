//===- Reference.h - Reference implementation of ops ------------*- C++ -*-===//
//
// One function per op computes its value in f64 from the operands, and an error
// bound of correct implementations. Nothing here emits IR or uses
// decompositions: an oracle must not share code with the implementation that it
// tests. A new elementwise op needs one row in Elementwise.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_REFERENCE_REFERENCE_H
#define BINADE_REFERENCE_REFERENCE_H

#include "binade/IR/Binade.h"
#include "binade/Reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>
#include <functional>
#include <memory>

namespace mlir::binade {

using TensorRef = std::shared_ptr<const Tensor>;

/// The evaluation of one op, with its operands and results.
class Evaluation {
public:
  /// Callbacks that evaluate a function on tensors (`call`) or the body of an
  /// op (`run`), and that read the elements of an attribute, which may refer to
  /// a file (`load`).
  struct Context {
    std::function<FailureOr<SmallVector<TensorRef>>(
        Operation *user, func::FuncOp, ArrayRef<TensorRef>,
        ArrayRef<RankedTensorType> results)>
        call;
    std::function<FailureOr<SmallVector<TensorRef>>(Block &,
                                                    ArrayRef<TensorRef>)>
        run;
    std::function<FailureOr<Tensor>(Operation *user, Attribute)> load;
  };

  /// `types` are the types of the results. They differ from those of the op in
  /// the body of a multi-tensor kernel.
  Evaluation(Operation *op, SmallVector<TensorRef> operands,
             ArrayRef<RankedTensorType> types, const Context &context,
             bool wantsErrors);

  Operation *getOperation() const { return op; }
  const Context &getContext() const { return context; }

  ArrayRef<TensorRef> getOperands() const { return operands; }
  /// Returns the tensor of an operand of this op.
  const Tensor &operator[](Value operand) const;

  /// Returns a result to fill in. Floats are written in f64, and rounded to the
  /// result's format after the op's function.
  Tensor &result(unsigned index = 0) { return results[index]; }
  /// Sets a result that already exists.
  void setResult(unsigned index, TensorRef value) {
    finished[index] = std::move(value);
  }

  /// Whether `setError` has an effect. If not, functions can skip expensive
  /// bounds.
  bool wantsErrors() const { return withErrors; }
  /// Sets the largest error that an implementation may have in element `index`
  /// of a result, before the final rounding. An element without error is exact,
  /// except for the rounding to the result's format.
  void setError(unsigned result, int64_t index, double error);

  /// Returns the unit roundoff of the format in which this op computes: f32, or
  /// f64 if an operand or result is f64.
  double getRoundoff() const { return roundoff; }
  /// Returns the unit roundoff of partial sums: that of the op's decision, or
  /// else of the format in which it computes.
  double getAccumulationRoundoff() const;

  /// Returns the results, rounded if `rounds`.
  SmallVector<TensorRef> takeResults(bool rounds = true);
  /// Returns bounds on |implementation - result|, one f64 tensor per result;
  /// null for exact results. Must be called before `takeResults`.
  SmallVector<TensorRef> makeBounds() const;
  /// Returns the results perturbed within their bounds, with signs and sizes
  /// drawn by `draw` from [-1, 1].
  SmallVector<TensorRef> makePerturbed(function_ref<double()> draw) const;

private:
  double getBound(unsigned result, int64_t index) const;

  Operation *op;
  SmallVector<TensorRef> operands;
  const Context &context;
  SmallVector<Tensor> results;
  SmallVector<TensorRef> finished;
  SmallVector<std::vector<double>> errors; // Empty for exact results.
  double roundoff;
  bool withErrors;
};

/// Returns c in the bound c u sum|terms| of a sum of `count` terms in any
/// order: the worst case for short sums; for long ones, the bound that random
/// rounding errors keep with all but negligible probability (Higham, Mary,
/// 2019).
double getSumConstant(int64_t count);

/// The accuracy that implementations of an elementwise op on floats must have.
enum class Accuracy {
  Exact,        ///< Moves or selects bits.
  Rounded,      ///< The exact result, rounded to the working format.
  Approximated, ///< Within a few units in the last place of the exact result.
};

/// An element, and the sum of the magnitudes of the terms in its formula, to
/// which the error is relative if terms cancel.
struct Estimate {
  Estimate(double value) : value(value), magnitude(std::fabs(value)) {}
  Estimate(double value, double magnitude)
      : value(value), magnitude(magnitude) {}
  double value, magnitude;
};

/// The reference functions of all ops.
class Reference {
public:
  using Function = std::function<LogicalResult(Evaluation &)>;

  /// Registers `Op` by a function of (op, evaluation) that returns a
  /// LogicalResult or nothing.
  template <typename Op, typename F>
    requires std::is_invocable_v<F, Op, Evaluation &>
  void add(F function);

  /// Registers an elementwise op by a function of the operands' elements,
  /// preceded by the op if its attributes matter, that returns a number or an
  /// Estimate; and by another function for integers, if the op supports them.
  /// Either function may be null.
  /// one. Either may be null.
  template <typename Op, typename F, typename I = std::nullptr_t>
    requires(!std::is_invocable_v<F, Op, Evaluation &>)
  void add(F onFloats, Accuracy accuracy = Accuracy::Approximated,
           I onIntegers = nullptr);

  /// Returns the function of an op; null if there is none.
  const Function *find(StringRef op) const;

  /// Returns the functions of all ops of the dialect.
  static const Reference &get();

private:
  llvm::StringMap<Function> functions;
};

//===----------------------------------------------------------------------===//
// Implementation of `add`
//===----------------------------------------------------------------------===//

namespace detail {

/// Returns the error of an element that `accuracy` allows.
double getElementError(const Evaluation &evaluation, Accuracy accuracy,
                       const Estimate &estimate);

/// Emits the error that `op` is not defined for `what`.
LogicalResult emitNoValue(Operation *op, StringRef what);

template <typename Op, typename F, typename... Element>
auto apply(Op op, F &function, Element... element) {
  if constexpr (std::is_invocable_v<F, Op, Element...>)
    return function(op, element...);
  else
    return function(element...);
}

/// Whether `F` takes `count` elements of type T, with or without the op.
template <typename Op, typename F, typename T, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F, Op, decltype((void)I, T())...> ||
         std::is_invocable_v<F, decltype((void)I, T())...>;
}

template <typename Op, typename F, typename T>
constexpr size_t countElements() {
  if constexpr (takes<Op, F, T>(std::make_index_sequence<1>()))
    return 1;
  else if constexpr (takes<Op, F, T>(std::make_index_sequence<2>()))
    return 2;
  else
    return 3;
}

/// Calls `use(index, function(elements at index...))` for every element.
template <typename T, typename Op, typename F, typename Read, typename Use>
void forEachElement(Op op, F &function, int64_t count, Read read, Use use) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    for (int64_t i = 0; i < count; ++i)
      use(i, apply(op, function, read(I, i)...));
  }(std::make_index_sequence<countElements<Op, F, T>()>());
}

} // namespace detail

template <typename Op, typename F>
  requires std::is_invocable_v<F, Op, Evaluation &>
void Reference::add(F function) {
  functions[Op::getOperationName()] = [function](Evaluation &evaluation) {
    auto op = cast<Op>(evaluation.getOperation());
    if constexpr (std::is_void_v<decltype(function(op, evaluation))>) {
      function(op, evaluation);
      return success();
    } else {
      return function(op, evaluation);
    }
  };
}

template <typename Op, typename F, typename I>
  requires(!std::is_invocable_v<F, Op, Evaluation &>)
void Reference::add(F onFloats, Accuracy accuracy, I onIntegers) {
  functions[Op::getOperationName()] = [=](Evaluation &evaluation) mutable {
    auto op = cast<Op>(evaluation.getOperation());
    Tensor &y = evaluation.result();
    ArrayRef<TensorRef> operands = evaluation.getOperands();
    if (y.isFloat()) {
      if constexpr (!std::is_null_pointer_v<F>) {
        detail::forEachElement<double>(
            op, onFloats, y.getNumElements(),
            [&](size_t operand, int64_t i) { return (*operands[operand])[i]; },
            [&](int64_t i, Estimate estimate) {
              y[i] = estimate.value;
              if (evaluation.wantsErrors())
                evaluation.setError(
                    0, i,
                    detail::getElementError(evaluation, accuracy, estimate));
            });
        return success();
      }
      return detail::emitNoValue(op, "floats");
    }
    if constexpr (!std::is_null_pointer_v<I>) {
      detail::forEachElement<int64_t>(
          op, onIntegers, y.getNumElements(),
          [&](size_t operand, int64_t i) {
            return operands[operand]->getIntegers()[i];
          },
          [&](int64_t i, int64_t value) { y.getIntegers()[i] = value; });
      return success();
    }
    return detail::emitNoValue(op, "integers");
  };
}

} // namespace mlir::binade

#endif // BINADE_REFERENCE_REFERENCE_H
