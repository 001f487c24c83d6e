//===- ParameterStorage.cpp - Storage of parameters in 16 bits ------------===//

#include "ParameterStorage.h"
#include "../Casts/RandomRounding.h"
#include "binade/IR/RoundingError.h"

using namespace mlir;
using namespace mlir::binade;

ParameterStorage::ParameterStorage(Emitter &emitter, OptimizerUpdateOp op)
    : emitter(emitter), b(emitter.builder()), master(op.getMaster()),
      format(cast<FloatType>(getElementTypeOrSelf(op.getParameter()))) {}

Type ParameterStorage::like(Value x, Type element) {
  auto vector = dyn_cast<VectorType>(x.getType());
  return vector ? Type(vector.clone(element)) : element;
}

Value ParameterStorage::decode(Value parameter, Value companion) {
  switch (master) {
  case Master::F32:
    return companion;
  case Master::SplitRound:
  case Master::SplitTrunc:
    return joinHalves(parameter, companion);
  case Master::Split8Bit: {
    Value high = emitter.widen(parameter);
    Value code =
        arith::ExtSIOp::create(b, like(high, b.getI32Type()), companion);
    return addRoundingError(b, high, code);
  }
  default:
    return emitter.widen(parameter);
  }
}

std::pair<Value, Value>
ParameterStorage::encode(Value before, Value after, Value companion,
                         std::optional<FloatLanes> random) {
  switch (master) {
  case Master::None:
    return {after, {}};
  case Master::F32:
    return {after, after};
  case Master::SplitRound:
  case Master::SplitTrunc: {
    Value word =
        arith::BitcastOp::create(b, like(after, b.getI32Type()), after);
    Value low = arith::TruncIOp::create(b, like(word, b.getI16Type()), word);
    if (master == Master::SplitRound)
      word = arith::AddIOp::create(b, word, splat(b, word, 0x8000));
    return {takeUpperHalf(word), low};
  }
  case Master::Split8Bit: {
    auto [rounded, code] = splitRoundingError(b, after);
    Value word = arith::BitcastOp::create(b, code.getType(), rounded);
    return {takeUpperHalf(word),
            arith::TruncIOp::create(b, like(code, b.getI8Type()), code)};
  }
  case Master::Stochastic:
    return {roundRandomly({b, after}, format, *random).value, {}};
  case Master::Kahan:
    return addCompensated(before, after, companion);
  case Master::Residual:
    return addWithResidual(before, after, companion);
  }
  llvm_unreachable("all kinds of master are handled");
}

/// Adds the halves. With rounding to nearest, `high` may have been rounded up,
/// so that the low half is signed.
Value ParameterStorage::joinHalves(Value high, Value low) {
  Type word = like(high, b.getI32Type());
  high = arith::BitcastOp::create(b, like(high, b.getI16Type()), high);
  high = arith::ExtUIOp::create(b, word, high);
  high = arith::ShLIOp::create(b, high, splat(b, high, 16));
  low = master == Master::SplitRound
            ? arith::ExtSIOp::create(b, word, low).getResult()
            : arith::ExtUIOp::create(b, word, low).getResult();
  Value joined = arith::AddIOp::create(b, high, low);
  return arith::BitcastOp::create(b, like(joined, b.getF32Type()), joined);
}

Value ParameterStorage::takeUpperHalf(Value word) {
  Value upper = arith::ShRUIOp::create(b, word, splat(b, word, 16));
  upper = arith::TruncIOp::create(b, like(upper, b.getI16Type()), upper);
  return arith::BitcastOp::create(b, like(upper, format), upper);
}

/// Kahan's compensated sum: each line is computed in f32, then rounded, and
/// must not be reordered.
std::pair<Value, Value>
ParameterStorage::addCompensated(Value before, Value after, Value lost) {
  auto subtract = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(b, x, y);
  };
  auto round = [&](Value x) {
    return emitter.widen(emitter.narrow(x, format));
  };
  Value y = round(subtract(subtract(after, before), emitter.widen(lost)));
  Value sum = round(arith::AddFOp::create(b, before, y));
  Value gained = round(subtract(sum, before));
  return {sum, subtract(gained, y)};
}

/// Adds the change to the parameter, and its rounding error to the residual:
/// each line is computed in f32, then rounded, and must not be reordered.
std::pair<Value, Value>
ParameterStorage::addWithResidual(Value before, Value after, Value residual) {
  auto round = [&](Value x) {
    return emitter.widen(emitter.narrow(x, format));
  };
  auto add = [&](Value x, Value y) {
    return round(arith::AddFOp::create(b, x, y));
  };
  auto subtract = [&](Value x, Value y) {
    return round(arith::SubFOp::create(b, x, y));
  };
  Value change = subtract(after, before);
  Value sum = add(before, change);
  Value lost = subtract(change, subtract(sum, before));
  Value rest = add(emitter.widen(residual), lost);
  Value whole = add(sum, rest);
  return {whole, subtract(rest, subtract(whole, sum))};
}
