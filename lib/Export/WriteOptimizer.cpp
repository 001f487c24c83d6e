//===- WriteOptimizer.cpp - An optimizer's rules in ONNX's words ----------===//
// Formulas of scalars become nodes over whole tensors, op by op in their order,
// so that each is rounded as the IR has it.
//===----------------------------------------------------------------------===//

#include "OnnxWriter.h"
#include "binade/IR/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

/// The constant of rank 0.
static std::string addScalar(OnnxWriter &w, TypedAttr value) {
  std::string name = w.makeName("number");
  auto type = RankedTensorType::get({}, value.getType());
  (void)w.addTensor(UnknownLoc::get(value.getContext()), name,
                    DenseElementsAttr::get(type, value));
  return name;
}

static std::string addReal(OnnxWriter &w, Type type, double value) {
  return addScalar(w, FloatAttr::get(type, value));
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

namespace {
class FormulaWriter {
public:
  explicit FormulaWriter(OnnxWriter &w) : w(w) {}

  /// The results for `arguments`. Fails, without a word, at an op that has no
  /// nodes.
  FailureOr<SmallVector<std::string>> write(func::FuncOp formula,
                                            ArrayRef<std::string> arguments);

private:
  StringRef getElementwise(Operation *op);
  FailureOr<std::string> write(Operation *op);
  std::string writeComparison(arith::CmpFOp op);
  std::string writeCopySign(math::CopySignOp op);
  const std::string &get(Value value) { return values.find(value)->second; }

  OnnxWriter &w;
  llvm::DenseMap<Value, std::string> values;
};
} // namespace

/// The op of ONNX with the same operands; empty where there is none.
StringRef FormulaWriter::getElementwise(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](arith::AddFOp) { return "Add"; })
      .Case([](arith::DivFOp) { return "Div"; })
      .Case([](arith::MaximumFOp) { return "Max"; })
      .Case([](arith::MinimumFOp) { return "Min"; })
      .Case([](arith::MulFOp) { return "Mul"; })
      .Case([](arith::NegFOp) { return "Neg"; })
      .Case([](arith::OrIOp) { return "Or"; })
      .Case([](arith::AndIOp) { return "And"; })
      .Case([](arith::SelectOp) { return "Where"; })
      .Case([](arith::SubFOp) { return "Sub"; })
      .Case([](math::AbsFOp) { return "Abs"; })
      .Case([](math::CeilOp) { return "Ceil"; })
      .Case([](math::ExpOp) { return "Exp"; })
      .Case([](math::FloorOp) { return "Floor"; })
      .Case([](math::LogOp) { return "Log"; })
      .Case([](math::PowFOp) { return "Pow"; })
      .Case([](math::RoundEvenOp) { return "Round"; })
      .Case([](math::SqrtOp) { return "Sqrt"; })
      .Case([](math::TanhOp) { return "Tanh"; })
      .Default(StringRef());
}

/// A comparison holds where neither side is NaN, unless it is the negation of
/// one that does.
std::string FormulaWriter::writeComparison(arith::CmpFOp op) {
  using Predicate = arith::CmpFPredicate;
  auto compare = [&](StringRef name, bool isNegated) {
    std::string y = w.add(name, {get(op.getLhs()), get(op.getRhs())});
    return isNegated ? w.add("Not", {y}) : y;
  };
  switch (op.getPredicate()) {
  case Predicate::OEQ:
    return compare("Equal", false);
  case Predicate::OGT:
    return compare("Greater", false);
  case Predicate::OGE:
    return compare("GreaterOrEqual", false);
  case Predicate::OLT:
    return compare("Less", false);
  case Predicate::OLE:
    return compare("LessOrEqual", false);
  case Predicate::ONE:
    return w.add("Or", {compare("Less", false), compare("Greater", false)});
  case Predicate::UNE:
    return compare("Equal", true);
  case Predicate::UGT:
    return compare("LessOrEqual", true);
  case Predicate::UGE:
    return compare("Less", true);
  case Predicate::ULT:
    return compare("GreaterOrEqual", true);
  case Predicate::ULE:
    return compare("Greater", true);
  default:
    return "";
  }
}

/// The sign of 0 is that of its reciprocal; that of a NaN is lost.
std::string FormulaWriter::writeCopySign(math::CopySignOp op) {
  std::string sign = get(op.getRhs());
  std::string zero = addReal(w, op.getType(), 0.0);
  std::string isZero = w.add("Equal", {sign, zero});
  std::string infinite = w.add("Reciprocal", {sign});
  std::string signOf = w.add("Where", {isZero, infinite, sign});
  std::string isNegative = w.add("Less", {signOf, zero});
  std::string magnitude = w.add("Abs", {get(op.getLhs())});
  std::string negative = w.add("Neg", {magnitude});
  return w.add("Where", {isNegative, negative, magnitude});
}

FailureOr<std::string> FormulaWriter::write(Operation *op) {
  if (StringRef name = getElementwise(op); !name.empty()) {
    SmallVector<std::string> inputs;
    for (Value operand : op->getOperands())
      inputs.push_back(get(operand));
    return w.add(name, inputs);
  }
  std::string y =
      llvm::TypeSwitch<Operation *, std::string>(op)
          .Case([&](arith::ConstantOp constant) {
            return addScalar(w, constant.getValue());
          })
          .Case([&](arith::CmpFOp compare) { return writeComparison(compare); })
          .Case([&](arith::CmpIOp compare) -> std::string {
            if (compare.getPredicate() != arith::CmpIPredicate::eq)
              return "";
            return w.add("Equal",
                         {get(compare.getLhs()), get(compare.getRhs())});
          })
          .Case<arith::ExtFOp, arith::SIToFPOp, arith::TruncFOp>(
              [&](auto cast) {
                return w.cast(get(cast.getIn()), cast.getType());
              })
          .Case([&](math::CopySignOp copy) { return writeCopySign(copy); })
          .Case([&](math::RsqrtOp root) {
            return w.add("Reciprocal",
                         {w.add("Sqrt", {get(root.getOperand())})});
          })
          .Default(std::string());
  return y.empty() ? FailureOr<std::string>() : y;
}

FailureOr<SmallVector<std::string>>
FormulaWriter::write(func::FuncOp formula, ArrayRef<std::string> arguments) {
  Block &body = formula.front();
  for (auto [argument, name] : llvm::zip_equal(body.getArguments(), arguments))
    values[argument] = name;
  for (Operation &op : body.without_terminator()) {
    FailureOr<std::string> y = write(&op);
    if (failed(y))
      return failure();
    values[op.getResult(0)] = *y;
  }
  SmallVector<std::string> results;
  for (Value result : body.getTerminator()->getOperands())
    results.push_back(get(result));
  return results;
}

template <typename Op> static func::FuncOp lookUpFormula(Op op) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op,
                                                            op.getFormula());
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    OptimizerScalarsOp op) {
  Type integer = getElementTypeOrSelf(op.getStep());
  std::string one = addScalar(w, IntegerAttr::get(integer, 1));
  SmallVector<std::string> arguments = {
      w.add("Add", {w.get(op.getStep()), one})};
  for (Value hyper : op.getHypers())
    arguments.push_back(w.get(hyper));
  auto results = FormulaWriter(w).write(lookUpFormula(op), arguments);
  if (failed(results))
    return failure();
  for (auto [scalar, name] : llvm::zip_equal(op.getScalars(), *results))
    w.set(scalar, w.cast(name, getElementTypeOrSelf(scalar)));
  return success();
}

/// Squares of what is no wider than f32 have a finite sum in f64, unless one of
/// them is not finite.
LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    GradientStatisticsOp op) {
  Type f64 = getElementTypeOrSelf(op.getSquares());
  std::string sum;
  for (Value gradient : op.getGradients()) {
    if (getElementTypeOrSelf(gradient) == f64)
      return failure();
    std::string squares =
        w.add("ReduceSumSquare", {w.cast(w.get(gradient), f64)});
    w.setInt("keepdims", 0);
    sum = sum.empty() ? squares : w.add("Add", {sum, squares});
  }
  if (sum.empty())
    sum = addReal(w, f64, 0.0);
  std::string largest = addReal(w, f64, std::numeric_limits<double>::max());
  w.set(op.getSquares(), sum);
  w.set(op.getFoundInf(), w.add("Not", {w.add("LessOrEqual", {sum, largest})}));
  return success();
}

/// Whether what the update keeps is numbers that are rounded to nearest.
static bool isPlain(OptimizerUpdateOp op) {
  bool hasCodes = llvm::any_of(op.getKeptStates(), [](const KeptState &state) {
    return state.format || state.isRandom;
  });
  bool keepsNumbers =
      op.getMaster() == Master::None || op.getMaster() == Master::F32;
  return keepsNumbers && !hasCodes && op.getRandom().empty() &&
         !op.getPrepareAttr();
}

LogicalResult mlir::binade::convert::writeOptimizer(OnnxWriter &w,
                                                    OptimizerUpdateOp op) {
  if (!isPlain(op))
    return failure();
  Value beside = op.getBeside();
  std::string gradient = w.getWide(op.getGradient());
  for (Value factor : op.getFactors())
    gradient = w.add("Mul", {gradient, w.getWide(factor)});
  SmallVector<std::string> arguments = {
      w.getWide(beside ? beside : Value(op.getParameter())), gradient};
  for (const KeptState &state : op.getKeptStates())
    arguments.push_back(w.getWide(op.getStates()[state.first]));
  for (ValueRange more : {op.getScalars(), op.getValues()})
    for (Value value : more)
      arguments.push_back(w.getWide(value));
  auto results = FormulaWriter(w).write(lookUpFormula(op), arguments);
  if (failed(results))
    return failure();
  if (beside)
    results->push_back(results->front());
  SmallVector<Value> before = {op.getParameter()};
  llvm::append_range(before, op.getStates());
  for (auto [old, result, name] :
       llvm::zip_equal(before, op->getResults(), *results)) {
    w.setWide(result, name);
    if (op.getSkip())
      w.set(result,
            w.add("Where", {w.get(op.getSkip()), w.get(old), w.get(result)}));
  }
  return success();
}
