//===- WriteFormula.cpp - ONNX nodes of scalar formulas -------------------===//

#include "WriteFormula.h"
#include "FloatNodes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::convert;

namespace {
class FormulaWriter {
public:
  explicit FormulaWriter(OnnxWriter &w) : w(w) {}

  FailureOr<SmallVector<std::string>> write(func::FuncOp formula,
                                            ArrayRef<std::string> arguments);

private:
  StringRef getElementwise(Operation *op);
  FailureOr<std::string> write(Operation *op);
  std::string writeComparison(arith::CmpFOp op);
  std::string writeFma(math::FmaOp op);
  const std::string &get(Value value) { return values.find(value)->second; }

  OnnxWriter &w;
  llvm::DenseMap<Value, std::string> values;
};
} // namespace

/// Returns the ONNX op with the same operands; empty if there is none.
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

/// Writes a comparison. ONNX has ordered ones only, which are false for NaN;
/// unordered ones are negations.
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

/// Writes an f32 fma, whose product is exact in f64.
std::string FormulaWriter::writeFma(math::FmaOp op) {
  if (!op.getType().isF32())
    return "";
  FloatNodes f(w);
  SmallVector<std::string> wide;
  for (Value operand : op.getOperands())
    wide.push_back(f.widen(get(operand)));
  return f.narrow(f.fma(wide[0], wide[1], wide[2]));
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
          .Case([&](arith::ConstantOp constant) -> std::string {
            return w.addNumber(constant.getValue());
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
          .Case([&](math::CopySignOp copy) {
            std::string magnitude = w.add("Abs", {get(copy.getLhs())});
            return w.copySign(magnitude, get(copy.getRhs()),
                              cast<FloatType>(copy.getType()));
          })
          .Case([&](math::FmaOp fma) { return writeFma(fma); })
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

FailureOr<SmallVector<std::string>>
mlir::binade::convert::writeFormula(OnnxWriter &w, func::FuncOp formula,
                                    ArrayRef<std::string> arguments) {
  return FormulaWriter(w).write(formula, arguments);
}
