//===- Reference.h - what every op means, in numbers ------------*- C++ -*-===//
//
// One function per op gives the op's value, computed in f64 from its operands,
// and how far a correct implementation may be from it. Nothing here emits IR
// or asks how an op decomposes: an oracle must not share code with what it
// judges. A new elementwise op needs one row in Elementwise.cpp.
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

/// One op about to be evaluated: operands in, results out.
class Evaluation {
public:
  /// Evaluates a function on tensors (`call`) or the body of an op (`run`), or
  /// reads the elements of an attribute that may name a file (`load`).
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

  /// `types` are the types of the results: those of the op, or for the body of
  /// a kernel over many tensors those that belong to its operands.
  Evaluation(Operation *op, SmallVector<TensorRef> operands,
             ArrayRef<RankedTensorType> types, const Context &context,
             bool wantsErrors);

  Operation *getOperation() const { return op; }
  const Context &getContext() const { return context; }

  ArrayRef<TensorRef> getOperands() const { return operands; }
  /// The tensor of an operand of this op.
  const Tensor &operator[](Value operand) const;

  /// A result to fill in. Floats are written in f64 and rounded to the result's
  /// format once the op's function is done.
  Tensor &result(unsigned index = 0) { return results[index]; }
  /// A result that exists already.
  void setResult(unsigned index, TensorRef value) {
    finished[index] = std::move(value);
  }

  /// Whether `setError` has an effect: what is expensive to bound need not be
  /// bounded otherwise.
  bool wantsErrors() const { return withErrors; }
  /// Says by how much an implementation may miss element `index` of a result
  /// before its last rounding. Elements without a mark are exact: the rounding
  /// to the result's format is their only one.
  void setError(unsigned result, int64_t index, double error);

  /// Unit roundoff of the format that this op is computed in inside: f32, or
  /// f64 where a float operand or result is.
  double getRoundoff() const { return roundoff; }
  /// Unit roundoff of partial sums: the working format's, or the one that the
  /// op's decision names.
  double getAccumulationRoundoff() const;

  /// Rounds the results, if that is asked for, and returns them.
  SmallVector<TensorRef> takeResults(bool rounds = true);
  /// Bounds on |implementation - result|, one f64 tensor per result; null
  /// for exact results. To be called before `takeResults`.
  SmallVector<TensorRef> makeBounds() const;
  /// The results moved at random within their bounds, with signs and sizes
  /// drawn by `draw` from [-1, 1].
  SmallVector<TensorRef> makePerturbed(function_ref<double()> draw) const;

private:
  double getBound(unsigned result, int64_t index) const;

  Operation *op;
  SmallVector<TensorRef> operands;
  const Context &context;
  SmallVector<Tensor> results;
  SmallVector<TensorRef> finished;
  SmallVector<std::vector<double>> errors; // Empty: exact.
  double roundoff;
  bool withErrors;
};

/// c in the bound c u sum|terms| of a sum of `count` terms in any order: the
/// worst case for short sums, for long ones the bound that random rounding
/// errors keep with all but negligible probability (Higham, Mary, 2019).
double getSumConstant(int64_t count);

/// How an elementwise op on floats may be computed.
enum class Accuracy {
  Exact,        ///< moves or picks bits
  Rounded,      ///< the exact result, rounded to the working format
  Approximated, ///< within a few units in the last place of that
};

/// An element and the sum of the magnitudes that its formula adds up: what the
/// error is relative to where terms cancel.
struct Estimate {
  Estimate(double value) : value(value), magnitude(std::fabs(value)) {}
  Estimate(double value, double magnitude)
      : value(value), magnitude(magnitude) {}
  double value, magnitude;
};

/// The ops that have a meaning here.
class Reference {
public:
  using Function = std::function<LogicalResult(Evaluation &)>;

  /// Registers `Op` by a function of (op, evaluation) that returns a
  /// LogicalResult or nothing.
  template <typename Op, typename F>
    requires std::is_invocable_v<F, Op, Evaluation &>
  void add(F function);

  /// Registers an elementwise op by a function of the operands' elements, and
  /// of the op before them where its attributes matter, that returns a number
  /// or an Estimate; and where the op means something on integers by another
  /// one. Either may be null.
  template <typename Op, typename F, typename I = std::nullptr_t>
    requires(!std::is_invocable_v<F, Op, Evaluation &>)
  void add(F onFloats, Accuracy accuracy = Accuracy::Approximated,
           I onIntegers = nullptr);

  /// Null when there is none.
  const Function *find(StringRef op) const;

  /// All ops of the dialect.
  static const Reference &get();

private:
  llvm::StringMap<Function> functions;
};

//===----------------------------------------------------------------------===//
// Implementation of `add`
//===----------------------------------------------------------------------===//

namespace detail {

/// Error of element `index` that `accuracy` allows.
double getElementError(const Evaluation &evaluation, Accuracy accuracy,
                       const Estimate &estimate);

/// "has no value on <what>".
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
