//===- Normalized.cpp - Matching of normalizations ------------------------===//

#include "Normalized.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

/// The maximum number of ops to look through between the root and a result;
/// known decompositions have fewer.
static constexpr unsigned kMaxSteps = 48;

/// The maximum number of terms of an expanded product; normalizations have
/// three.
static constexpr size_t kMaxTerms = 6;

static int64_t countElements(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= shape[axis];
  return count;
}

/// Whether `op` is a sum, a product, or moves their operands.
static bool isArithmetic(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp, NegOp, ReciprocalOp, ReshapeOp,
             BroadcastOp, TransposeOp, GatherOp>(op);
}

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

Value Normalized::takeReshaped(Value value) {
  while (auto reshape = composite.takeShared<ReshapeOp>(value))
    value = reshape.getX();
  return value;
}

Value Normalized::takeSum(Value value, ArrayRef<int64_t> &over) {
  auto sum = composite.takeShared<ReduceSumOp>(takeReshaped(value));
  if (!sum)
    return {};
  over = sum.getAxes();
  return sum.getX();
}

/// Returns the operand of a mean, or of a sum divided by the number of its
/// terms; null for other values.
Value Normalized::takeMean(Value value, ArrayRef<int64_t> &over) {
  if (auto mean = composite.takeShared<ReduceMeanOp>(value)) {
    over = mean.getAxes();
    return mean.getX();
  }
  Composite before = composite;
  auto accept = [&](Value sum, Value count, bool isInverse) {
    Value x = takeSum(sum, over);
    double expected =
        x ? static_cast<double>(countElements(getTensor(x).getShape(), over))
          : 0.0;
    return x && isSplat(count, isInverse ? 1.0 / expected : expected) ? x
                                                                      : Value();
  };
  Value x;
  if (auto quotient = composite.takeShared<DivOp>(value)) {
    x = accept(quotient.getLhs(), quotient.getRhs(), false);
  } else if (auto product = composite.takeShared<MulOp>(value)) {
    x = accept(product.getLhs(), product.getRhs(), true);
    if (!x)
      x = accept(product.getRhs(), product.getLhs(), true);
  }
  if (!x)
    composite = std::move(before);
  return x;
}

/// Whether `view` is the mean of x over the axes, with one value per group.
bool Normalized::isOwnMean(const View &view) {
  Composite before = composite;
  ArrayRef<int64_t> over;
  Value of = takeMean(view.value, over);
  if (of && view.strides == groups && over == ArrayRef(axes) &&
      getTensor(of).getShape() == ArrayRef(frame) &&
      traceWhole(of, frame) == x) {
    if (!llvm::is_contained(means, view.value))
      means.push_back(view.value);
    return true;
  }
  composite = std::move(before);
  return false;
}

/// Matches x - mean(x). The first match defines x.
bool Normalized::matchCentered(Value value) {
  auto difference = composite.takeShared<SubOp>(takeReshaped(value));
  if (!difference || getNumElements(difference) != getNumElements(value))
    return false;
  View minuend = traceWhole(difference.getLhs(), frame);
  if (!source) {
    source = difference.getLhs();
    x = minuend;
  }
  SmallVector<Operation *> passed;
  View mean = trace({difference.getRhs(), getRowMajor(frame)}, frame, passed);
  return minuend == x && composite.takeAll(passed) && isOwnMean(mean);
}

/// Matches the value whose mean square is the variance: x - mean(x), or x.
bool Normalized::matchDeviation(Value value) {
  if (subtractsMean)
    return matchCentered(value);
  View from = traceWhole(value, frame);
  if (!source) {
    source = value;
    x = from;
  }
  return from == x;
}

bool Normalized::matchSquare(Value square) {
  square = takeReshaped(square);
  if (auto pow = composite.takeShared<PowOp>(square))
    return isSplat(pow.getRhs(), 2.0) && matchDeviation(pow.getLhs());
  auto product = composite.takeShared<MulOp>(square);
  return product && matchDeviation(product.getLhs()) &&
         matchDeviation(product.getRhs());
}

/// Matches variance + epsilon, the operand of the root.
bool Normalized::matchStatistics() {
  auto sum = composite.takeShared<AddOp>(takeReshaped(root->getOperand(0)));
  if (!sum)
    return false;
  Value variance = sum.getLhs();
  std::optional<APFloat> number = getSplat(sum.getRhs());
  if (!number) {
    variance = sum.getRhs();
    number = getSplat(sum.getLhs());
  }
  if (!number)
    return false;
  bool losesInfo;
  number->convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  epsilon = number->convertToDouble();

  variance = takeReshaped(variance);
  ArrayRef<int64_t> over;
  Value square = takeMean(variance, over);
  if (!square)
    return false;
  variances.push_back(variance);
  axes.assign(over.begin(), over.end());
  frame.assign(getTensor(square).getShape());
  SmallVector<int64_t> kept(frame);
  for (int64_t axis : axes)
    kept[axis] = 1;
  groups = getRowMajor(kept);
  return matchSquare(square);
}

//===----------------------------------------------------------------------===//
// Expansion into terms
//===----------------------------------------------------------------------===//

bool Normalized::isOther(const Term &term) {
  return llvm::all_of(term.factors, [](const Factor &factor) {
    return factor.kind == Factor::Other;
  });
}

Normalized::Sum Normalized::makeOther(const View &view) const {
  View from = trace(view, frame);
  if (isSplat(from.value, 1.0))
    return {Term{}};
  return {Term{false, {Factor{Factor::Other, from}}}};
}

std::optional<Normalized::Sum> Normalized::multiply(const Sum &lhs,
                                                    const Sum &rhs) {
  if (lhs.size() * rhs.size() > kMaxTerms)
    return std::nullopt;
  Sum product;
  for (const Term &one : lhs)
    for (const Term &other : rhs) {
      Term &term = product.emplace_back(one);
      term.isNegative ^= other.isNegative;
      llvm::append_range(term.factors, other.factors);
    }
  return product;
}

std::optional<Normalized::Sum> Normalized::invert(Sum sum) {
  if (sum.size() != 1)
    return std::nullopt;
  for (Factor &factor : sum.front().factors)
    factor.isInverse ^= true;
  return sum;
}

std::optional<Normalized::Sum> Normalized::expandOp(Operation *op,
                                                    const View &view) {
  auto expandOperand = [&](unsigned index) {
    return expand({op->getOperand(index), view.strides});
  };
  if (isa<NegOp, ReciprocalOp>(op)) {
    Sum sum = expandOperand(0);
    if (isa<ReciprocalOp>(op))
      return invert(std::move(sum));
    for (Term &term : sum)
      term.isNegative ^= true;
    return sum;
  }
  if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
    return std::nullopt;
  Sum lhs = expandOperand(0), rhs = expandOperand(1);
  if (isa<MulOp>(op))
    return multiply(lhs, rhs);
  if (isa<DivOp>(op)) {
    std::optional<Sum> inverse = invert(std::move(rhs));
    return inverse ? multiply(lhs, *inverse) : std::nullopt;
  }
  for (Term &term : rhs) {
    term.isNegative ^= isa<SubOp>(op);
    lhs.push_back(std::move(term));
  }
  return lhs.size() <= kMaxTerms ? std::optional(lhs) : std::nullopt;
}

/// Expands `view` into terms, each a product of x, its mean, the root and other
/// values. Values that do not depend on the statistics are not expanded.
Normalized::Sum Normalized::expand(const View &view) {
  SmallVector<Operation *> passed;
  View from = trace(view, frame, passed);
  Composite before = composite;
  if (from == x)
    return {Term{false, {Factor{Factor::X, {}}}}};
  Operation *op = from.value.getDefiningOp();
  if (!op || ++steps > kMaxSteps || !composite.takeAll(passed))
    return makeOther(view);
  if (op == root && from.strides == groups)
    return {Term{false, {Factor{Factor::Root, {}, isa<PowOp>(op)}}}};
  if (subtractsMean && isOwnMean(from))
    return {Term{false, {Factor{Factor::Mean, {}}}}};
  std::optional<Sum> sum;
  if (isArithmetic(op) && composite.takeAll(op))
    sum = expandOp(op, from);
  if (sum && !llvm::all_of(*sum, isOther))
    return *sum;
  composite = std::move(before);
  return makeOther(view);
}

/// Matches x / root scale - mean / root scale + bias, or only the first term.
bool Normalized::matchSum(const Sum &sum) {
  const Term *ofX = nullptr, *ofMean = nullptr;
  for (const Term &term : sum) {
    bool isOfX = term.factors.size() && !isOther(term) && !term.isNegative;
    const Term *&place = isOfX ? ofX : ofMean;
    if (isOther(term)) {
      if (bias.value || term.isNegative || term.factors.size() != 1 ||
          term.factors.front().isInverse)
        return false;
      bias = term.factors.front().view;
    } else if (place) {
      return false;
    } else {
      place = &term;
    }
  }
  if (!ofX || subtractsMean != bool(ofMean) || (bias.value && !subtractsMean))
    return false;
  auto take = [&](const Term &term, Factor::Kind kind) {
    SmallVector<Factor> rest(term.factors);
    for (const Factor &factor :
         {Factor{kind, {}}, Factor{Factor::Root, {}, true}}) {
      auto *found = llvm::find(rest, factor);
      if (found == rest.end())
        return std::optional<SmallVector<Factor>>();
      rest.erase(found);
    }
    return std::optional(rest);
  };
  std::optional<SmallVector<Factor>> rest = take(*ofX, Factor::X);
  if (!rest || rest->size() > 1 ||
      (ofMean && rest != take(*ofMean, Factor::Mean)))
    return false;
  if (!rest->empty()) {
    const Factor &factor = rest->front();
    if (factor.kind != Factor::Other || factor.isInverse)
      return false;
    scale = factor.view;
  }
  return true;
}

bool Normalized::match() {
  if (auto pow = dyn_cast<PowOp>(root); pow && !isSplat(pow.getRhs(), -0.5))
    return false;
  return composite.takeAll(root) && matchStatistics() &&
         getNumElements(result->getResult(0)) == getNumElements(getX()) &&
         matchSum(expand({result->getResult(0), getRowMajor(frame)}));
}

//===----------------------------------------------------------------------===//
// Results and statistics
//===----------------------------------------------------------------------===//

SmallVector<Operation *> Normalized::findResults(Operation *root) {
  SmallVector<Operation *> found{root};
  for (size_t next = 0; next < found.size() && found.size() < kMaxSteps; ++next)
    for (Operation *user : found[next]->getUsers())
      if (isArithmetic(user) && user->getBlock() == root->getBlock() &&
          !llvm::is_contained(found, user))
        found.push_back(user);
  llvm::erase_if(found, [](Operation *op) {
    return !isa<AddOp, SubOp, MulOp, DivOp>(op);
  });
  // Sort the last op first, so that the largest composite is tried first.
  llvm::sort(found,
             [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  return found;
}

SmallVector<Value> Normalized::withReshapes(ArrayRef<Value> values) const {
  SmallVector<Value> alike(values);
  for (size_t next = 0; next < alike.size(); ++next)
    for (Operation *user : alike[next].getUsers())
      if (isa<ReshapeOp>(user) && composite.contains(user))
        alike.push_back(user->getResult(0));
  return alike;
}
