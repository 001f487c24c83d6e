//===- ConstantChecker.cpp - Constants that formats exclude ---------------===//

#include "binade/Precision/ConstantChecker.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Masks.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

static bool hasWideRange(FloatType format) {
  return APFloat::semanticsMaxExponent(format.getFloatSemantics()) >=
         APFloat::semanticsMaxExponent(APFloat::IEEEsingle());
}

ConstantChecker::ConstantChecker(const Policy &policy)
    : formats(ArrayRef(getFormatChoices(policy)).drop_front()) {
  // A format with the range of f32 can represent stored weights.
  if (!llvm::all_of(formats, hasWideRange))
    directory = policy.directory;
}

/// Returns the value from which `value` was moved, cast or saved.
static Value getStored(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    bool isSame = isa<SaveOp, CastOp>(op) || isMovement(op);
    if (!isSame || op->getNumOperands() != 1)
      break;
    value = op->getOperand(0);
  }
  return value;
}

const std::optional<StoredNumbers> &ConstantChecker::read(Value value) {
  static const std::optional<StoredNumbers> kNone;
  if (!isa<BlockArgument>(value) && !value.getDefiningOp<ConstantOp>())
    return kNone;
  auto [entry, isNew] = known.try_emplace(value);
  if (isNew)
    entry->second = readStored(value, directory);
  return entry->second;
}

static std::string describeStored(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return describe(value);
  StringRef name = getNodeName(op);
  return name.empty() ? "a constant" : ("constant '" + name + "'").str();
}

static bool isSingularAtZero(OpOperand &use) {
  auto op = dyn_cast<PrecisionOpInterface>(use.getOwner());
  return op && op.isSingularAtZero(use.getOperandNumber());
}

/// Returns a text about an element of `constant` that the operand `use` needs
/// and `format` cannot represent; empty if there is none.
static std::string explain(Value constant, const StoredNumbers &numbers,
                           FloatType format, OpOperand &use) {
  std::string reason =
      explainUnsuitable(numbers, format, isSingularAtZero(use),
                        [&](double number) { return isMask(use, number); });
  return reason.empty() ? reason : describeStored(constant) + " " + reason;
}

/// Whether rounding `number` to `format` changes the meaning of the operand
/// `use`: a large value becomes infinite, or a small divisor becomes 0.
static bool loses(OpOperand &use, double number, FloatType format) {
  StoredNumbers one;
  one.add(number);
  bool isLarge = std::abs(number) > 1.0;
  return (isLarge || isSingularAtZero(use)) &&
         !explainUnsuitable(one, format, /*readsEach=*/true, [&](double mask) {
            return isMask(use, mask);
          }).empty();
}

void ConstantChecker::visit(Operation *op) {
  if (!formats.empty())
    propagated.visit(op);
}

SmallVector<UnsuitableFormat, 1> ConstantChecker::find(OpOperand &operand) {
  SmallVector<UnsuitableFormat, 1> found;
  auto add = [&](FloatType format, const std::string &text) {
    bool isKnown = llvm::any_of(found, [&](const UnsuitableFormat &one) {
      return one.format == format;
    });
    if (!text.empty() && !isKnown)
      found.push_back(
          {format, StringAttr::get(format.getContext(), text).getValue()});
  };
  if (formats.empty())
    return found;
  Value value = getStored(operand.get());
  if (const std::optional<StoredNumbers> &numbers = read(value)) {
    for (FloatType format : formats)
      add(format, explain(value, *numbers, format, operand));
    return found;
  }
  for (const PropagatedConstant &carried : propagated.find(operand.get())) {
    const std::optional<StoredNumbers> &numbers = read(carried.constant);
    if (!numbers)
      continue;
    for (FloatType format : formats) {
      std::string text =
          explain(carried.constant, *numbers, format, *carried.use);
      bool isLost = llvm::any_of(
          ArrayRef({numbers->most, numbers->least}), [&](double number) {
            return number != 0.0 &&
                   loses(operand, carried.make(number), format);
          });
      if (isLost)
        add(format, text);
    }
  }
  return found;
}
