//===- RandomNumbers.cpp - Random numbers of several lanes ----------------===//
//
// A counter of Philox gives four words. Where the lanes of a vector are all
// elements of some counters, each counter is drawn from once.
//
//===----------------------------------------------------------------------===//

#include "RandomNumbers.h"
#include "Positions.h"
#include "binade/IR/Build.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

static constexpr int64_t kWords = 4;

static bool drawsAllWords(Operation &op) {
  auto draw = dyn_cast<RandomUniformOp>(op);
  return draw && draw.getPerCounter() == kWords;
}

int64_t mlir::binade::chooseVectorsPerIteration(func::FuncOp kernel) {
  return llvm::any_of(kernel.front(), drawsAllWords) ? 2 : 1;
}

/// Returns a divisor of the position of the first lane.
static int64_t getAlignment(const Offset &position) {
  int64_t divisor = position.constant;
  for (auto [variable, coefficient] : position.terms)
    if (!variable->variesOverLanes)
      divisor = std::gcd(divisor, coefficient);
  return divisor;
}

/// Returns the elements of four vectors in turn, or of four numbers.
static Value interleave(ImplicitLocOpBuilder &b, ArrayRef<Value> parts) {
  if (!isa<VectorType>(parts[0].getType()))
    return vector::FromElementsOp::create(
        b, VectorType::get({kWords}, parts[0].getType()), parts);
  Value even = vector::InterleaveOp::create(b, parts[0], parts[2]);
  Value odd = vector::InterleaveOp::create(b, parts[1], parts[3]);
  return vector::InterleaveOp::create(b, even, odd);
}

/// Returns the random numbers of `count` counters, of which `first` is the
/// least: four per counter.
static Value drawAll(ImplicitLocOpBuilder &b, RandomUniformOp draw, Value first,
                     int64_t count, Value seed, Value step) {
  auto widen = [&](Value number) -> Value {
    if (count == 1)
      return number;
    auto type = VectorType::get({count}, number.getType());
    return vector::BroadcastOp::create(b, type, number);
  };
  IntLanes counter(b, widen(first));
  if (count > 1) {
    SmallVector<int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    auto type = cast<VectorType>(counter.value.getType());
    Value lanes = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
    counter = counter + IntLanes(b, lanes);
  }
  SmallVector<Value> words;
  for (Value word : buildRandomWords(b, counter.value,
                                     counter.constant(draw.getStream()).value,
                                     widen(step), widen(seed)))
    words.push_back((IntLanes(b, word) >> 8).resize(32).value);
  return (toFloat(IntLanes(b, interleave(b, words))) * 0x1p-24).value;
}

std::optional<Element> mlir::binade::drawTogether(Emitter &e, Operation *op,
                                                  const Offset &offset) {
  if (!drawsAllWords(*op) || e.lanes() % kWords != 0)
    return std::nullopt;
  auto draw = cast<RandomUniformOp>(op);
  auto iota = draw.getIndex().getDefiningOp<IotaOp>();
  if (!iota)
    return std::nullopt;
  Offset position = getPosition(e.offsets(), iota, offset);
  Element seed = e.pull(draw.getSeed(), offset),
          step = e.pull(draw.getStep(), offset);
  if (getLaneStride(position) != 1 || getAlignment(position) % kWords != 0 ||
      isa<VectorType>(seed.value.getType()) ||
      isa<VectorType>(step.value.getType()))
    return std::nullopt;
  Offset next = offset + Offset(e.lanes());
  bool isPair =
      e.adjacentVectors() == 2 &&
      getPosition(e.offsets(), iota, next) == position + Offset(e.lanes());
  ImplicitLocOpBuilder &b = e.builder();
  Value first =
      arith::IndexCastOp::create(b, b.getI64Type(), e.number(position));
  int64_t count = e.lanes() / kWords * (isPair ? 2 : 1);
  Value numbers = drawAll(b, draw, (IntLanes(b, first) >> 2).value, count,
                          seed.value, step.value);
  if (!isPair)
    return Element{numbers, e.depth()};
  auto slice = [&](int64_t from) -> Value {
    return vector::ExtractStridedSliceOp::create(
        b, numbers, ArrayRef(from), ArrayRef(e.lanes()), ArrayRef<int64_t>(1));
  };
  e.define(draw.getY(), next, slice(e.lanes()));
  return Element{slice(0), e.depth()};
}
