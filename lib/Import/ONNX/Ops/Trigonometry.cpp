//===- Trigonometry.cpp - Circular and hyperbolic functions ---------------===//
//
// Built from sin, cos, atan, exp, log, expm1 and log1p by formulas without
// cancellation, and without overflow unless the result overflows.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"
#include "Arithmetic.h"
#include <numbers>

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

LogicalResult mlir::binade::importer::importTan(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    return a.div(SinOp::create(a.b, a.x), CosOp::create(a.b, a.x));
  });
}

// Where a derivative is infinite, it comes from the root of a sum: in a
// product, a factor of 0 times that infinity would give NaN.

/// Builds 2 atan(x / (1 + sqrt(1 - x) sqrt(1 + x))).
LogicalResult mlir::binade::importer::importAsin(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    Value one = a.splat(1.0);
    Value root = a.mul(a.sqrt(a.sub(one, a.x)), a.sqrt(a.add(one, a.x)));
    return a.mul(AtanOp::create(a.b, a.div(a.x, a.add(root, 1.0))), 2.0);
  });
}

/// Builds t = 2 atan(sqrt(1 - |x|) / sqrt(1 + |x|)), or pi - t if x is
/// negative.
LogicalResult mlir::binade::importer::importAcos(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    Value size = a.size(), one = a.splat(1.0);
    Value ratio = a.div(a.sqrt(a.sub(one, size)), a.sqrt(a.add(one, size)));
    Value angle = a.mul(AtanOp::create(a.b, ratio), 2.0);
    Value isNegative = a.compare(a.x, Comparison::Less, 0.0);
    Value other = a.sub(a.splat(std::numbers::pi), angle);
    return a.select(isNegative, other, angle);
  });
}

/// Returns e^|x| / 2 and e^-|x| / 2, computed as (t / 2) t and (1 / 2) / t / t
/// with t = e^(|x| / 2), which are finite where the result is.
static std::pair<Value, Value> buildHalves(Arithmetic &a) {
  Value t = ExpOp::create(a.b, a.mul(a.size(), 0.5));
  Value rising = a.mul(a.mul(t, 0.5), t);
  return {rising, a.div(a.div(a.splat(0.5), t), t)};
}

LogicalResult mlir::binade::importer::importCosh(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    auto [rising, falling] = buildHalves(a);
    return a.add(rising, falling);
  });
}

/// Near 0, computes (e + e / (e + 1)) / 2 with e = e^x - 1.
LogicalResult mlir::binade::importer::importSinh(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    auto [rising, falling] = buildHalves(a);
    Value far = a.withSign(a.sub(rising, falling));
    Value isNear = a.compare(a.size(), Comparison::LessEqual, 1.0);
    Value bounded = a.min(a.max(a.x, -1.0), 1.0);
    Value e = Expm1Op::create(a.b, bounded);
    Value near = a.mul(a.add(e, a.div(e, a.add(e, 1.0))), 0.5);
    return a.select(isNear, near, far);
  });
}

/// Builds log(x) + log(2), for x so large that x^2 + 1 rounds to x^2.
static Value buildLogOfTwice(Arithmetic &a, Value x) {
  return a.add(LogOp::create(a.b, x), 0.69314718055994531);
}
static constexpr double kLarge = 0x1p+28;

/// Builds sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))).
LogicalResult mlir::binade::importer::importAsinh(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    Value size = a.size();
    Value isLarge = a.compare(size, Comparison::Greater, kLarge);
    // Clamp, so that the side that is not selected stays finite.
    Value small = a.min(size, kLarge);
    Value square = a.mul(small, small);
    Value root = a.add(a.sqrt(a.add(square, 1.0)), 1.0);
    Value near = Log1pOp::create(a.b, a.add(small, a.div(square, root)));
    Value far = buildLogOfTwice(a, a.max(size, 1.0));
    return a.withSign(a.select(isLarge, far, near));
  });
}

/// Builds log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1.
LogicalResult mlir::binade::importer::importAcosh(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    Value isLarge = a.compare(a.x, Comparison::Greater, kLarge);
    Value t = a.add(a.min(a.x, kLarge), -1.0);
    Value root = a.mul(a.sqrt(t), a.sqrt(a.add(t, 2.0)));
    Value near = Log1pOp::create(a.b, a.add(t, root));
    return a.select(isLarge, buildLogOfTwice(a, a.max(a.x, 1.0)), near);
  });
}

/// Builds (log1p(x) - log1p(-x)) / 2, which has no cancellation: the logarithms
/// have opposite signs.
LogicalResult mlir::binade::importer::importAtanh(Node &node) {
  return importFunction(node, [](Arithmetic &a) {
    Value minus = NegOp::create(a.b, a.x);
    Value difference =
        a.sub(Log1pOp::create(a.b, a.x), Log1pOp::create(a.b, minus));
    return a.mul(difference, 0.5);
  });
}
