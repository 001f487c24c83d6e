//===- Formula.cpp - Evaluation of scalar functions -----------------------===//

#include "Formula.h"
#include "binade/Reference/FloatFormat.h"
#include "binade/Reference/Tensor.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using Number = Formula::Number;

//===----------------------------------------------------------------------===//
// Functions of floats
//===----------------------------------------------------------------------===//

namespace {
using Unary = double (*)(double);
using Binary = double (*)(double, double);

/// The function that an op computes in f64. After rounding to f32, the result
/// equals a single rounding: for the basic operations, 53 bits are enough that
/// the rounding to f64 before makes no difference.
struct Row {
  Unary unary = nullptr;
  Binary binary = nullptr;
  bool exact = true;
};
} // namespace

double mlir::binade::maximum(double x, double y) {
  if (std::isnan(x) || std::isnan(y))
    return NAN;
  return x == y ? (std::signbit(x) ? y : x) : std::fmax(x, y);
}

double mlir::binade::minimum(double x, double y) { return -maximum(-x, -y); }

static Row exactly(Unary function) { return {function, nullptr, true}; }
static Row exactly(Binary function) { return {nullptr, function, true}; }
static Row closely(Unary function) { return {function, nullptr, false}; }
static Row closely(Binary function) { return {nullptr, function, false}; }

static const llvm::StringMap<Row> &getRows() {
  static const llvm::StringMap<Row> rows = {
      {"arith.addf", exactly([](double x, double y) { return x + y; })},
      {"arith.subf", exactly([](double x, double y) { return x - y; })},
      {"arith.mulf", exactly([](double x, double y) { return x * y; })},
      {"arith.divf", exactly([](double x, double y) { return x / y; })},
      {"arith.remf",
       exactly([](double x, double y) { return std::fmod(x, y); })},
      {"arith.negf", exactly([](double x) { return -x; })},
      {"arith.maximumf", exactly(maximum)},
      {"arith.minimumf", exactly(minimum)},
      {"arith.maxnumf",
       exactly([](double x, double y) { return std::fmax(x, y); })},
      {"arith.minnumf",
       exactly([](double x, double y) { return std::fmin(x, y); })},
      {"arith.extf", exactly([](double x) { return x; })},
      {"arith.truncf", exactly([](double x) { return x; })},
      {"math.absf", exactly([](double x) { return std::fabs(x); })},
      {"math.ceil", exactly([](double x) { return std::ceil(x); })},
      {"math.floor", exactly([](double x) { return std::floor(x); })},
      {"math.roundeven", exactly([](double x) { return std::nearbyint(x); })},
      {"math.trunc", exactly([](double x) { return std::trunc(x); })},
      {"math.copysign",
       exactly([](double x, double y) { return std::copysign(x, y); })},
      {"math.sqrt", exactly([](double x) { return std::sqrt(x); })},
      {"math.cbrt", closely([](double x) { return std::cbrt(x); })},
      {"math.cos", closely([](double x) { return std::cos(x); })},
      {"math.erf", closely([](double x) { return std::erf(x); })},
      {"math.exp", closely([](double x) { return std::exp(x); })},
      {"math.exp2", closely([](double x) { return std::exp2(x); })},
      {"math.expm1", closely([](double x) { return std::expm1(x); })},
      {"math.log", closely([](double x) { return std::log(x); })},
      {"math.log10", closely([](double x) { return std::log10(x); })},
      {"math.log1p", closely([](double x) { return std::log1p(x); })},
      {"math.log2", closely([](double x) { return std::log2(x); })},
      {"math.powf", closely([](double x, double y) { return std::pow(x, y); })},
      {"math.rsqrt", closely([](double x) { return 1.0 / std::sqrt(x); })},
      {"math.sin", closely([](double x) { return std::sin(x); })},
      {"math.tanh", closely([](double x) { return std::tanh(x); })},
  };
  return rows;
}

static bool compareFloats(arith::CmpFPredicate predicate, double x, double y) {
  using Predicate = arith::CmpFPredicate;
  bool isUnordered = std::isnan(x) || std::isnan(y);
  switch (predicate) {
  case Predicate::AlwaysFalse:
    return false;
  case Predicate::OEQ:
    return x == y;
  case Predicate::OGT:
    return x > y;
  case Predicate::OGE:
    return x >= y;
  case Predicate::OLT:
    return x < y;
  case Predicate::OLE:
    return x <= y;
  case Predicate::ONE:
    return !isUnordered && x != y;
  case Predicate::ORD:
    return !isUnordered;
  case Predicate::UEQ:
    return isUnordered || x == y;
  case Predicate::UGT:
    return !(x <= y);
  case Predicate::UGE:
    return !(x < y);
  case Predicate::ULT:
    return !(x >= y);
  case Predicate::ULE:
    return !(x > y);
  case Predicate::UNE:
    return x != y;
  case Predicate::UNO:
    return isUnordered;
  case Predicate::AlwaysTrue:
    return true;
  }
  llvm_unreachable("all predicates are listed");
}

//===----------------------------------------------------------------------===//
// Functions of integers
//===----------------------------------------------------------------------===//

using IntegerFunction = int64_t (*)(int64_t, int64_t);

static const llvm::StringMap<IntegerFunction> &getIntegerRows() {
  static const llvm::StringMap<IntegerFunction> rows = {
      {"arith.addi",
       [](int64_t x, int64_t y) { return int64_t(uint64_t(x) + uint64_t(y)); }},
      {"arith.subi",
       [](int64_t x, int64_t y) { return int64_t(uint64_t(x) - uint64_t(y)); }},
      {"arith.muli",
       [](int64_t x, int64_t y) { return int64_t(uint64_t(x) * uint64_t(y)); }},
      {"arith.andi", [](int64_t x, int64_t y) { return x & y; }},
      {"arith.ori", [](int64_t x, int64_t y) { return x | y; }},
      {"arith.xori", [](int64_t x, int64_t y) { return x ^ y; }},
      {"arith.maxsi", [](int64_t x, int64_t y) { return std::max(x, y); }},
      {"arith.minsi", [](int64_t x, int64_t y) { return std::min(x, y); }},
  };
  return rows;
}

static bool compareIntegers(arith::CmpIPredicate predicate, int64_t x,
                            int64_t y) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return x == y;
  case arith::CmpIPredicate::ne:
    return x != y;
  case arith::CmpIPredicate::slt:
    return x < y;
  case arith::CmpIPredicate::sle:
    return x <= y;
  case arith::CmpIPredicate::sgt:
    return x > y;
  case arith::CmpIPredicate::sge:
    return x >= y;
  case arith::CmpIPredicate::ult:
    return uint64_t(x) < uint64_t(y);
  case arith::CmpIPredicate::ule:
    return uint64_t(x) <= uint64_t(y);
  case arith::CmpIPredicate::ugt:
    return uint64_t(x) > uint64_t(y);
  case arith::CmpIPredicate::uge:
    return uint64_t(x) >= uint64_t(y);
  }
  llvm_unreachable("all predicates are handled");
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Returns a step that stores the result of `compute`, rounded to `type`.
template <typename Compute>
static auto storeReal(unsigned to, Type type, Compute compute) {
  auto isSingle = type.isF32();
  bool isDouble = type.isF64();
  FloatFormat format(cast<FloatType>(type).getFloatSemantics());
  return [=](MutableArrayRef<Number> slots) {
    double value = compute(slots);
    if (isSingle)
      value = static_cast<float>(value);
    else if (!isDouble)
      value = format.round(value);
    slots[to].real = value;
  };
}

template <typename Compute>
static auto storeInteger(unsigned to, Type type, Compute compute) {
  auto integer = cast<IntegerType>(type);
  return [=](MutableArrayRef<Number> slots) {
    slots[to].integer = wrapInteger(compute(slots), integer);
  };
}

FailureOr<Formula::Step> Formula::compileOp(Operation *op) {
  unsigned to = getSlot(op->getResult(0));
  Type type = op->getResult(0).getType();
  SmallVector<unsigned, 3> from;
  for (Value operand : op->getOperands())
    from.push_back(getSlot(operand));
  StringRef name = op->getName().getStringRef();
  using Slots = MutableArrayRef<Number>;

  if (auto row = getRows().find(name); row != getRows().end()) {
    auto [unary, binary, isExact] = row->second;
    exact &= isExact;
    if (unary)
      return Step(
          storeReal(to, type, [=](Slots s) { return unary(s[from[0]].real); }));
    return Step(storeReal(to, type, [=](Slots s) {
      return binary(s[from[0]].real, s[from[1]].real);
    }));
  }
  if (auto row = getIntegerRows().find(name); row != getIntegerRows().end())
    return Step(storeInteger(to, type, [=, f = row->second](Slots s) {
      return f(s[from[0]].integer, s[from[1]].integer);
    }));
  if (auto fma = dyn_cast<math::FmaOp>(op)) {
    if (!type.isF32() && !type.isF64())
      return op->emitError("is evaluated in f32 and f64 only, got ") << type;
    // In f64, a fused multiply-add of f32 would be rounded twice.
    return Step([=, isSingle = type.isF32()](Slots s) {
      double x = s[from[0]].real, y = s[from[1]].real, z = s[from[2]].real;
      s[to].real =
          isSingle ? std::fma(float(x), float(y), float(z)) : std::fma(x, y, z);
    });
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Number number{};
    if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
      number.real = real.getValueAsDouble();
    else if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      number.integer = type.isInteger(1) ? integer.getValue().getZExtValue()
                                         : integer.getValue().getSExtValue();
    return Step([=](Slots s) { s[to] = number; });
  }
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return Step([=, predicate = compare.getPredicate()](Slots s) {
      s[to].integer =
          compareFloats(predicate, s[from[0]].real, s[from[1]].real);
    });
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return Step([=, predicate = compare.getPredicate()](Slots s) {
      s[to].integer =
          compareIntegers(predicate, s[from[0]].integer, s[from[1]].integer);
    });
  if (isa<arith::SelectOp>(op))
    return Step(
        [=](Slots s) { s[to] = s[from[0]].integer ? s[from[1]] : s[from[2]]; });
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return Step(storeReal(to, type, [=](Slots s) {
      return static_cast<double>(s[from[0]].integer);
    }));
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
    return Step(
        storeInteger(to, type, [=](Slots s) { return s[from[0]].integer; }));
  return op->emitError("'") << name << "' is not supported in formulas";
}

FailureOr<Formula> Formula::compile(func::FuncOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("a formula needs a body of one block");
  auto isScalar = [](Type type) { return Tensor::canHold(type); };
  Formula formula;
  auto addSlot = [&](Value value) {
    formula.slotOf[value] = formula.slots.size();
    formula.slots.push_back(Number{});
  };
  llvm::for_each(function.getArguments(), addSlot);
  for (Operation &op : function.front().without_terminator()) {
    if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
        !llvm::all_of(op.getResultTypes(), isScalar) ||
        !llvm::all_of(op.getOperandTypes(), isScalar))
      return op.emitError("'")
             << op.getName() << "' is not supported in formulas";
    addSlot(op.getResult(0));
    FailureOr<Step> step = formula.compileOp(&op);
    if (failed(step))
      return failure();
    formula.steps.push_back(std::move(*step));
  }
  for (Value value : function.front().getTerminator()->getOperands())
    formula.resultSlots.push_back(formula.getSlot(value));
  formula.results.resize(formula.resultSlots.size());
  return formula;
}

ArrayRef<Number> Formula::operator()(ArrayRef<Number> arguments) {
  llvm::copy(arguments, slots.begin());
  for (const Step &step : steps)
    step(slots);
  for (auto [result, slot] : llvm::zip(results, resultSlots))
    result = slots[slot];
  return results;
}
