//===- Arithmetic.cpp - Arithmetic on single lanes ------------------------===//

#include "Arithmetic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

unsigned mlir::binade::getBitWidth(Type element) {
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

unsigned mlir::binade::getByteWidth(Type element) {
  return llvm::divideCeil(getBitWidth(element), 8);
}

static uint64_t truncate(uint64_t bits, unsigned width) {
  return width == 64 ? bits : bits & ((uint64_t(1) << width) - 1);
}

static int64_t extendSign(uint64_t bits, unsigned width) {
  return static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}

uint64_t mlir::binade::getBits(Attribute number) {
  if (auto integer = dyn_cast<IntegerAttr>(number))
    return truncate(integer.getValue().getZExtValue(),
                    getBitWidth(integer.getType()));
  return cast<FloatAttr>(number).getValue().bitcastToAPInt().getZExtValue();
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

static APFloat toFloat(uint64_t bits, FloatType type) {
  return APFloat(type.getFloatSemantics(), APInt(type.getWidth(), bits));
}

static uint64_t toBits(const APFloat &number) {
  return number.bitcastToAPInt().getZExtValue();
}

double mlir::binade::toDouble(uint64_t bits, FloatType type) {
  return toFloat(bits, type).convertToDouble();
}

/// Rounds `number` to a narrower format. As on a device, NaN has all bits set
/// but the sign, which PTX calls canonical.
static uint64_t round(APFloat number, FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  bool isExact;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &isExact);
  bool hasNegativeZero = APFloat::getZero(semantics, true).isNegative();
  if (number.isNaN() && type.getWidth() <= 16 && hasNegativeZero)
    return llvm::maskTrailingOnes<uint64_t>(type.getWidth() - 1);
  return toBits(number);
}

/// Returns `compute` on elements of `type` in native arithmetic; null for types
/// without native arithmetic.
template <typename Function>
static LaneFunction overFloats(Type type, Function compute) {
  if (type.isF32())
    return [compute](const uint64_t *x) -> uint64_t {
      auto get = [&](unsigned i) {
        return llvm::bit_cast<float>(static_cast<uint32_t>(x[i]));
      };
      return llvm::bit_cast<uint32_t>(static_cast<float>(compute(get)));
    };
  if (type.isF64())
    return [compute](const uint64_t *x) -> uint64_t {
      auto get = [&](unsigned i) { return llvm::bit_cast<double>(x[i]); };
      return llvm::bit_cast<uint64_t>(static_cast<double>(compute(get)));
    };
  return {};
}

namespace {
/// IEEE 754's maximum and minimum: -0 is less than 0, and NaN is propagated.
struct Maximum {
  template <typename T> T operator()(T x, T y) const {
    if (std::isnan(x) || std::isnan(y))
      return std::numeric_limits<T>::quiet_NaN();
    if (x == y)
      return std::signbit(x) ? y : x;
    return x > y ? x : y;
  }
};
struct Minimum {
  template <typename T> T operator()(T x, T y) const {
    return -Maximum()(-x, -y);
  }
};
} // namespace

/// Returns a value that ex2.approx.ftz.f32 may return: subnormal results are 0,
/// and others may be wrong by two units in the last place, here by a number of
/// units that the operand determines.
static float approximateExp2(float x) {
  auto y = static_cast<float>(std::exp2(static_cast<double>(x)));
  if (y < std::numeric_limits<float>::min())
    return 0.0f;
  if (!std::isfinite(y) || std::fabs(x) < std::numeric_limits<float>::min())
    return y;
  constexpr uint32_t kMixed = 0x9e3779b1; // 2^32 divided by the golden ratio.
  uint32_t mixed = llvm::bit_cast<uint32_t>(x) * kMixed;
  return llvm::bit_cast<float>(llvm::bit_cast<uint32_t>(y) + (mixed >> 16) % 5 -
                               2);
}

static LaneFunction getFloatFunction(Operation *op, Type type) {
  auto binary = [&](auto compute) {
    return overFloats(type,
                      [compute](auto get) { return compute(get(0), get(1)); });
  };
  auto unary = [&](auto compute) {
    return overFloats(type, [compute](auto get) { return compute(get(0)); });
  };
  return TypeSwitch<Operation *, LaneFunction>(op)
      .Case<arith::AddFOp>(
          [&](auto) { return binary([](auto x, auto y) { return x + y; }); })
      .Case<arith::SubFOp>(
          [&](auto) { return binary([](auto x, auto y) { return x - y; }); })
      .Case<arith::MulFOp>(
          [&](auto) { return binary([](auto x, auto y) { return x * y; }); })
      .Case<arith::DivFOp>(
          [&](auto) { return binary([](auto x, auto y) { return x / y; }); })
      .Case<arith::MaximumFOp>([&](auto) { return binary(Maximum()); })
      .Case<arith::MinimumFOp>([&](auto) { return binary(Minimum()); })
      .Case<arith::MaxNumFOp>([&](auto) {
        return binary([](auto x, auto y) { return std::fmax(x, y); });
      })
      .Case<arith::MinNumFOp>([&](auto) {
        return binary([](auto x, auto y) { return std::fmin(x, y); });
      })
      .Case<math::CopySignOp>([&](auto) {
        return binary([](auto x, auto y) { return std::copysign(x, y); });
      })
      .Case<arith::NegFOp>(
          [&](auto) { return unary([](auto x) { return -x; }); })
      .Case<math::AbsFOp>(
          [&](auto) { return unary([](auto x) { return std::fabs(x); }); })
      .Case<math::SqrtOp>(
          [&](auto) { return unary([](auto x) { return std::sqrt(x); }); })
      .Case<math::FloorOp>(
          [&](auto) { return unary([](auto x) { return std::floor(x); }); })
      .Case<math::CeilOp>(
          [&](auto) { return unary([](auto x) { return std::ceil(x); }); })
      .Case<math::RoundEvenOp>(
          [&](auto) { return unary([](auto x) { return std::nearbyint(x); }); })
      .Case<math::Exp2Op>([&](auto exp2) -> LaneFunction {
        if (!type.isF32() || !arith::bitEnumContainsAll(
                                 exp2.getFastmath(), arith::FastMathFlags::afn))
          return {};
        return overFloats(type,
                          [](auto get) { return approximateExp2(get(0)); });
      })
      .Case<math::FmaOp>([&](auto) {
        return overFloats(
            type, [](auto get) { return std::fma(get(0), get(1), get(2)); });
      })
      .Default([](auto) { return LaneFunction(); });
}

/// Returns a comparison of floats; null for formats without arithmetic.
static LaneFunction compareFloats(arith::CmpFPredicate predicate, Type type) {
  auto holds = [predicate](auto x, auto y) -> bool {
    using P = arith::CmpFPredicate;
    bool isUnordered = std::isnan(x) || std::isnan(y);
    switch (predicate) {
    case P::AlwaysFalse:
      return false;
    case P::AlwaysTrue:
      return true;
    case P::ORD:
      return !isUnordered;
    case P::UNO:
      return isUnordered;
    case P::OEQ:
      return x == y;
    case P::UEQ:
      return isUnordered || x == y;
    case P::ONE:
      return !isUnordered && x != y;
    case P::UNE:
      return isUnordered || x != y;
    case P::OLT:
      return x < y;
    case P::ULT:
      return isUnordered || x < y;
    case P::OLE:
      return x <= y;
    case P::ULE:
      return isUnordered || x <= y;
    case P::OGT:
      return x > y;
    case P::UGT:
      return isUnordered || x > y;
    case P::OGE:
      return x >= y;
    case P::UGE:
      return isUnordered || x >= y;
    }
    llvm_unreachable("all predicates are handled");
  };
  if (type.isF32())
    return [holds](const uint64_t *x) -> uint64_t {
      return holds(llvm::bit_cast<float>(static_cast<uint32_t>(x[0])),
                   llvm::bit_cast<float>(static_cast<uint32_t>(x[1])));
    };
  if (type.isF64())
    return [holds](const uint64_t *x) -> uint64_t {
      return holds(llvm::bit_cast<double>(x[0]), llvm::bit_cast<double>(x[1]));
    };
  return {};
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static LaneFunction getIntegerFunction(Operation *op, Type type) {
  unsigned width = getBitWidth(type);
  auto binary = [&](auto compute) -> LaneFunction {
    return [compute, width](const uint64_t *x) {
      return truncate(compute(x[0], x[1]), width);
    };
  };
  auto ofSigned = [&](auto compute) -> LaneFunction {
    return [compute, width](const uint64_t *x) {
      return truncate(static_cast<uint64_t>(compute(extendSign(x[0], width),
                                                    extendSign(x[1], width))),
                      width);
    };
  };
  // Shifts by the width or more, and division by 0, are undefined; the result
  // is 0.
  auto shift = [&](auto compute) -> LaneFunction {
    return [compute, width](const uint64_t *x) -> uint64_t {
      return x[1] >= width ? 0 : truncate(compute(x[0], x[1]), width);
    };
  };
  using U = uint64_t;
  using S = int64_t;
  return TypeSwitch<Operation *, LaneFunction>(op)
      .Case<arith::AddIOp>([&](auto) { return binary(std::plus<U>()); })
      .Case<arith::SubIOp>([&](auto) { return binary(std::minus<U>()); })
      .Case<arith::MulIOp>([&](auto) { return binary(std::multiplies<U>()); })
      .Case<arith::AndIOp>([&](auto) { return binary(std::bit_and<U>()); })
      .Case<arith::OrIOp>([&](auto) { return binary(std::bit_or<U>()); })
      .Case<arith::XOrIOp>([&](auto) { return binary(std::bit_xor<U>()); })
      .Case<arith::DivUIOp>([&](auto) {
        return binary([](U x, U y) { return y == 0 ? 0 : x / y; });
      })
      .Case<arith::RemUIOp>([&](auto) {
        return binary([](U x, U y) { return y == 0 ? 0 : x % y; });
      })
      .Case<arith::DivSIOp>([&](auto) {
        return ofSigned([](S x, S y) { return y == 0 ? 0 : x / y; });
      })
      .Case<arith::RemSIOp>([&](auto) {
        return ofSigned([](S x, S y) { return y == 0 ? 0 : x % y; });
      })
      .Case<arith::MaxUIOp>(
          [&](auto) { return binary([](U x, U y) { return std::max(x, y); }); })
      .Case<arith::MinUIOp>(
          [&](auto) { return binary([](U x, U y) { return std::min(x, y); }); })
      .Case<arith::MaxSIOp>([&](auto) {
        return ofSigned([](S x, S y) { return std::max(x, y); });
      })
      .Case<arith::MinSIOp>([&](auto) {
        return ofSigned([](S x, S y) { return std::min(x, y); });
      })
      .Case<arith::ShLIOp>(
          [&](auto) { return shift([](U x, U y) { return x << y; }); })
      .Case<arith::ShRUIOp>(
          [&](auto) { return shift([](U x, U y) { return x >> y; }); })
      .Case<arith::ShRSIOp>([&](auto) {
        return shift([width](U x, U y) {
          return static_cast<U>(extendSign(x, width) >> y);
        });
      })
      .Case<math::CtPopOp>([&](auto) {
        return
            [](const uint64_t *x) -> uint64_t { return llvm::popcount(x[0]); };
      })
      .Case<math::CountTrailingZerosOp>([&](auto) {
        return [width](const uint64_t *x) -> uint64_t {
          return std::min<uint64_t>(llvm::countr_zero(x[0]), width);
        };
      })
      .Default([](auto) { return LaneFunction(); });
}

static LaneFunction compareIntegers(arith::CmpIPredicate predicate,
                                    unsigned width) {
  return [predicate, width](const uint64_t *x) -> uint64_t {
    using P = arith::CmpIPredicate;
    uint64_t u = x[0], v = x[1];
    int64_t s = extendSign(u, width), t = extendSign(v, width);
    switch (predicate) {
    case P::eq:
      return u == v;
    case P::ne:
      return u != v;
    case P::slt:
      return s < t;
    case P::sle:
      return s <= t;
    case P::sgt:
      return s > t;
    case P::sge:
      return s >= t;
    case P::ult:
      return u < v;
    case P::ule:
      return u <= v;
    case P::ugt:
      return u > v;
    case P::uge:
      return u >= v;
    }
    llvm_unreachable("all predicates are handled");
  };
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// Returns a conversion between the element types `from` and `to`.
static LaneFunction getConversion(Operation *op, Type from, Type to) {
  unsigned before = getBitWidth(from), after = getBitWidth(to);
  auto asFloat = dyn_cast<FloatType>(from),
       toFloatType = dyn_cast<FloatType>(to);
  return TypeSwitch<Operation *, LaneFunction>(op)
      .Case<arith::BitcastOp, arith::ExtUIOp, arith::IndexCastUIOp>(
          [](auto) -> LaneFunction {
            return [](const uint64_t *x) { return x[0]; };
          })
      .Case<arith::TruncIOp>([&](auto) -> LaneFunction {
        return [after](const uint64_t *x) { return truncate(x[0], after); };
      })
      .Case<arith::ExtSIOp, arith::IndexCastOp>([&](auto) -> LaneFunction {
        return [before, after](const uint64_t *x) {
          return truncate(static_cast<uint64_t>(extendSign(x[0], before)),
                          after);
        };
      })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) -> LaneFunction {
        return [asFloat, toFloatType](const uint64_t *x) {
          return round(toFloat(x[0], asFloat), toFloatType);
        };
      })
      .Case<arith::UIToFPOp, arith::SIToFPOp>([&](auto) -> LaneFunction {
        bool isSigned = isa<arith::SIToFPOp>(op);
        return [before, toFloatType, isSigned](const uint64_t *x) {
          APFloat number(toFloatType.getFloatSemantics());
          number.convertFromAPInt(APInt(before, x[0]), isSigned,
                                  APFloat::rmNearestTiesToEven);
          return toBits(number);
        };
      })
      .Case<arith::FPToUIOp, arith::FPToSIOp>([&](auto) -> LaneFunction {
        bool isSigned = isa<arith::FPToSIOp>(op);
        return [asFloat, after, isSigned](const uint64_t *x) {
          APSInt integer(after, !isSigned);
          bool isExact;
          toFloat(x[0], asFloat)
              .convertToInteger(integer, APFloat::rmTowardZero, &isExact);
          return integer.getZExtValue();
        };
      })
      .Default([](auto) { return LaneFunction(); });
}

LaneFunction mlir::binade::getLaneFunction(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return {};
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  if (!from.isIntOrIndexOrFloat() || !to.isIntOrIndexOrFloat())
    return {};
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return compareFloats(compare.getPredicate(), from);
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compareIntegers(compare.getPredicate(), getBitWidth(from));
  if (isa<arith::SelectOp>(op))
    return [](const uint64_t *x) { return x[0] ? x[1] : x[2]; };
  if (LaneFunction convert = getConversion(op, from, to))
    return convert;
  return isa<FloatType>(from) ? getFloatFunction(op, from)
                              : getIntegerFunction(op, from);
}

LaneFunction mlir::binade::getCombiner(Attribute attribute, Type element) {
  using K = vector::CombiningKind;
  unsigned width = getBitWidth(element);
  auto ofFloats = [&](auto compute) {
    return overFloats(element,
                      [compute](auto get) { return compute(get(0), get(1)); });
  };
  auto ofIntegers = [&](auto compute) -> LaneFunction {
    return [compute, width](const uint64_t *x) {
      return truncate(compute(x[0], x[1]), width);
    };
  };
  bool isFloat = isa<FloatType>(element);
  switch (cast<vector::CombiningKindAttr>(attribute).getValue()) {
  case K::ADD:
    return isFloat ? ofFloats([](auto x, auto y) { return x + y; })
                   : ofIntegers(std::plus<uint64_t>());
  case K::MAXUI:
    return ofIntegers([](uint64_t x, uint64_t y) { return std::max(x, y); });
  case K::MINUI:
    return ofIntegers([](uint64_t x, uint64_t y) { return std::min(x, y); });
  case K::MAXSI:
    return ofIntegers([width](uint64_t x, uint64_t y) {
      return std::max(llvm::SignExtend64(x, width),
                      llvm::SignExtend64(y, width));
    });
  case K::MINSI:
    return ofIntegers([width](uint64_t x, uint64_t y) {
      return std::min(llvm::SignExtend64(x, width),
                      llvm::SignExtend64(y, width));
    });
  case K::AND:
    return ofIntegers(std::bit_and<uint64_t>());
  case K::OR:
    return ofIntegers(std::bit_or<uint64_t>());
  case K::MAXIMUMF:
    return ofFloats(Maximum());
  case K::MINIMUMF:
    return ofFloats(Minimum());
  default:
    return {};
  }
}
