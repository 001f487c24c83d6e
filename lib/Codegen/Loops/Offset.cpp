//===- Offset.cpp - Symbolic offsets of elements --------------------------===//

#include "Offset.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

//===----------------------------------------------------------------------===//
// Offset
//===----------------------------------------------------------------------===//

int64_t Offset::maximum() const {
  int64_t sum = constant;
  for (auto [variable, coefficient] : terms)
    sum += coefficient * (variable->extent - 1);
  return sum;
}

unsigned Offset::depth() const {
  unsigned depth = 0;
  for (auto [variable, coefficient] : terms)
    depth = std::max(depth, variable->depth);
  return depth;
}

bool Offset::variesOverLanes() const {
  return llvm::any_of(terms,
                      [](auto term) { return term.first->variesOverLanes; });
}

int64_t Offset::coefficientOf(const Variable *variable) const {
  for (auto [term, coefficient] : terms)
    if (term == variable)
      return coefficient;
  return 0;
}

/// Replaces divisor * (of / divisor) + (of % divisor) by `of`, so that a view
/// of a view costs nothing.
static bool rejoin(Offset &sum) {
  using Kind = Variable::Kind;
  for (auto [quotient, outer] : sum.terms)
    for (auto [remainder, inner] : sum.terms)
      if (quotient->kind == Kind::Quotient &&
          remainder->kind == Kind::Remainder && quotient->of == remainder->of &&
          quotient->by == remainder->by && outer == inner * quotient->by) {
        Offset rest;
        rest.constant = sum.constant;
        for (auto term : sum.terms)
          if (term.first != quotient && term.first != remainder)
            rest.terms.push_back(term);
        sum = rest + quotient->of * inner;
        return true;
      }
  return false;
}

Offset Offset::operator+(const Offset &other) const {
  Offset sum;
  sum.constant = constant + other.constant;
  auto l = terms.begin(), r = other.terms.begin();
  while (l != terms.end() || r != other.terms.end()) {
    bool left = r == other.terms.end() ||
                (l != terms.end() && l->first->number <= r->first->number);
    bool right = l == terms.end() || (r != other.terms.end() &&
                                      r->first->number <= l->first->number);
    const Variable *variable = left ? l->first : r->first;
    int64_t coefficient = (left ? l->second : 0) + (right ? r->second : 0);
    if (coefficient != 0)
      sum.terms.push_back({variable, coefficient});
    l += left;
    r += right;
  }
  while (rejoin(sum))
    ;
  return sum;
}

Offset Offset::operator*(int64_t factor) const {
  if (factor == 0)
    return Offset();
  Offset product = *this;
  product.constant *= factor;
  for (auto &term : product.terms)
    term.second *= factor;
  return product;
}

bool Offset::operator==(const Offset &other) const {
  return constant == other.constant && terms == other.terms;
}

bool Offset::operator<(const Offset &other) const {
  if (constant != other.constant)
    return constant < other.constant;
  return std::lexicographical_compare(
      terms.begin(), terms.end(), other.terms.begin(), other.terms.end(),
      [](auto &l, auto &r) {
        return std::pair(l.first->number, l.second) <
               std::pair(r.first->number, r.second);
      });
}

Offset Offset::operator-(const Offset &other) const {
  return *this + other * -1;
}

bool Offset::isNegative() const {
  return constant < 0 ||
         llvm::any_of(terms, [](auto term) { return term.second < 0; });
}

//===----------------------------------------------------------------------===//
// OffsetSpace
//===----------------------------------------------------------------------===//

Offset OffsetSpace::add(Variable variable) {
  if (variable.extent <= 1)
    return Offset();
  variable.number = variables.size();
  variables.push_back(variable);
  Offset offset;
  offset.terms.push_back({&variables.back(), 1});
  return offset;
}

Offset OffsetSpace::counter(Value value, int64_t extent, unsigned depth,
                            int64_t step) {
  return add({0, Variable::Kind::Counter, extent, depth, false, value, step});
}

Offset OffsetSpace::lanes(int64_t count) {
  if (count == 1)
    return Offset();
  const Variable *&variable = laneVariables[count];
  if (!variable) {
    variables.push_back({static_cast<unsigned>(variables.size()),
                         Variable::Kind::Lane, count, 0, true});
    variable = &variables.back();
  }
  Offset offset;
  offset.terms.push_back({variable, 1});
  return offset;
}

Offset OffsetSpace::loaded(Value value, int64_t extent, unsigned depth,
                           bool perLane) {
  return add({0, Variable::Kind::Loaded, extent, depth, perLane, value});
}

Offset OffsetSpace::derived(Variable::Kind kind, const Offset &of, int64_t by,
                            int64_t extent, unsigned depth) {
  if (extent <= 1)
    return Offset();
  const Variable *&variable = known[{kind, of, by, depth}];
  if (!variable) {
    variables.push_back({static_cast<unsigned>(variables.size()), kind, extent,
                         depth, of.variesOverLanes(), Value(), 1, of, by});
    variable = &variables.back();
  }
  Offset offset;
  offset.terms.push_back({variable, 1});
  return offset;
}

Offset OffsetSpace::shifted(const Offset &of, int64_t by, int64_t extent,
                            unsigned depth) {
  return derived(Variable::Kind::Shifted, of, by, extent,
                 std::max(depth, of.depth()));
}

OffsetSpace::Split OffsetSpace::split(const Offset &offset,
                                      int64_t divisor) const {
  // The terms with the largest coefficients form `first`, the others
  // `second`; try the coarsest split first.
  SmallVector<int64_t> coefficients;
  for (auto [variable, coefficient] : offset.terms)
    coefficients.push_back(coefficient);
  llvm::sort(coefficients, std::greater<>());
  coefficients.erase(llvm::unique(coefficients), coefficients.end());
  Split best = {1, offset, Offset()};
  auto consider = [&](int64_t smallest) {
    int64_t unit = divisor;
    for (auto [variable, coefficient] : offset.terms)
      if (coefficient >= smallest)
        unit = std::gcd(unit, coefficient);
    Offset first(offset.constant / unit), second(offset.constant % unit);
    for (auto [variable, coefficient] : offset.terms) {
      if (coefficient >= smallest)
        first.terms.push_back({variable, coefficient / unit});
      else
        second.terms.push_back({variable, coefficient});
    }
    if (unit > best.unit && second.maximum() < unit)
      best = {unit, first, second};
  };
  consider(INT64_MAX);
  for (int64_t coefficient : coefficients)
    consider(coefficient);
  return best;
}

OffsetSpace::Division OffsetSpace::divide(const Offset &offset,
                                          int64_t divisor) {
  if (divisor == 1)
    return {offset, Offset()};
  // Terms that are multiples of the divisor need no variable.
  Offset multiples(offset.constant / divisor), rest(offset.constant % divisor);
  for (auto [variable, coefficient] : offset.terms) {
    if (coefficient % divisor == 0)
      multiples.terms.push_back({variable, coefficient / divisor});
    else
      rest.terms.push_back({variable, coefficient});
  }
  if (rest.maximum() < divisor)
    return {multiples, rest};
  for (auto [variable, coefficient] : rest.terms)
    if (variable->variesOverLanes)
      cuts.push_back(divisor / std::gcd(divisor, coefficient));
  Split parts = split(rest, divisor);
  int64_t by = divisor / parts.unit;
  unsigned depth = parts.first.depth();
  Offset quotient = derived(Variable::Kind::Quotient, parts.first, by,
                            parts.first.maximum() / by + 1, depth);
  Offset remainder =
      derived(Variable::Kind::Remainder, parts.first, by, by, depth);
  return {multiples + quotient, remainder * parts.unit + parts.second};
}
