//===- AttentionExtras.cpp - Masks, biases, soft caps and dropout ---------===//
//
// Elements of biases and masks are loaded from memory into the registers of the
// threads whose scores they belong to, each once per tile. Dropout draws the
// random value of each score from its index among all scores of all heads, as
// the separate op does, so that the backward pass draws the same ones.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

/// Return the offsets of score `i` of a thread from the first one.
static int64_t getRow(int64_t set, int64_t i) {
  return set * AttentionBlock::kMatmulRows + i / 2 % 2 * AttentionBlock::kBelow;
}
static int64_t getColumn(int64_t chunk, int64_t i) {
  return chunk * AttentionBlock::kChunk + i / 4 * AttentionBlock::kBelow +
         i % 2;
}

static Value splatInteger(ImplicitLocOpBuilder &b, Value scalar) {
  return vector::BroadcastOp::create(
      b, VectorType::get({AttentionBlock::kScores}, scalar.getType()), scalar);
}

static Value toInteger(ImplicitLocOpBuilder &b, Value index, Type type) {
  return arith::IndexCastOp::create(b, type, index);
}

Value AttentionBlock::findColumn() const {
  return at.add(at.scale(current, tileRows), at.scale(member, 2));
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value AttentionBlock::loadScores(size_t index, int64_t set,
                                 int64_t chunk) const {
  const Operand &operand = operands[index];
  Gather from(at, operand, memory[index], starts[index], getRows(Query),
              getRows(Key));
  bool areKeysColumns = shape.hasQueries;
  bool variesByQuery = operand.entries.front().stride != 0,
       variesByKey = operand.terms.front().stride != 0;
  bool variesByRow = areKeysColumns ? variesByQuery : variesByKey,
       variesByColumn = areKeysColumns ? variesByKey : variesByQuery;
  // Columns 2 i and 2 i + 1 both exist or none does.
  int64_t width = areKeysColumns && attention.keys % 2 == 0
                      ? operand.getWidth(Operand::Terms, 2)
                      : 1;
  Value firstOwn =
      at.add(at.add(firstRow, at.scale(warp, kMatmulRows * shape.sets)), group);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < kScores; ++i) {
    // An earlier score may have the same element, or have loaded it.
    int64_t same = i;
    if (!variesByRow)
      same &= ~int64_t(2);
    if (!variesByColumn)
      same &= ~int64_t(5);
    if (same != i) {
      elements.push_back(elements[same]);
      continue;
    }
    if (width == 2 && i % 2 == 1) {
      elements.push_back(
          vector::ExtractOp::create(b, elements.back(), int64_t(1)));
      elements[i - 1] =
          vector::ExtractOp::create(b, elements[i - 1], int64_t(0));
      continue;
    }
    Value row = at.add(firstOwn, getRow(set, i)),
          column = at.add(findColumn(), getColumn(chunk, i));
    if (!areKeysColumns)
      std::swap(row, column);
    elements.push_back(from.load(
        from.find(from.findEntry(row), from.findTerm(column)), width));
  }
  auto type = VectorType::get({kScores}, elements.front().getType());
  return vector::FromElementsOp::create(b, type, elements);
}

Value AttentionBlock::hideQueries(Value scores, int64_t chunk) const {
  Extent queries = getRows(Query);
  if (shape.hasQueries || queries.padded == queries.size)
    return scores;
  auto type = VectorType::get({kScores}, b.getI32Type());
  SmallVector<int32_t> limits;
  for (int64_t i = 0; i < kScores; ++i)
    limits.push_back(
        static_cast<int32_t>(queries.size - 1 - getColumn(chunk, i)));
  Value exist = arith::CmpIOp::create(
      b, arith::CmpIPredicate::sle,
      splatInteger(b, toInteger(b, findColumn(), b.getI32Type())),
      arith::ConstantOp::create(
          b, DenseElementsAttr::get(type, ArrayRef<int32_t>(limits))));
  return arith::SelectOp::create(b, exist, scores, splat(-INFINITY, kScores));
}

AttentionBlock::Scores AttentionBlock::finishScores(Value products, int64_t set,
                                                    int64_t chunk) const {
  const GpuAttention::Extras &extras = attention.extras;
  Scores own;
  if (double cap = extras.softcap; cap != 0) {
    own.tangents =
        math::TanhOp::create(b, scale(products, attention.scale / cap));
    own.scores = scale(own.tangents, cap);
  }
  Value bias;
  for (size_t number = 0; number < extras.biases.size(); ++number) {
    Value more =
        convert(b, loadScores(indexOfBias(number), set, chunk), b.getF32Type());
    bias = bias ? add(bias, more) : more;
  }
  if (!own.scores)
    own.scores = bias ? fma(products, splat(attention.scale, kScores), bias)
                      : scale(products, attention.scale);
  else if (bias)
    own.scores = add(own.scores, bias);
  if (extras.mask) {
    Value bytes = loadScores(indexOfBias(extras.biases.size()), set, chunk);
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(bytes.getType()));
    own.visible =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bytes, zero);
    own.scores = arith::SelectOp::create(b, own.visible, own.scores,
                                         splat(extras.fill, kScores));
  }
  own.scores = hideQueries(own.scores, chunk);
  return own;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

namespace {
/// A 32-bit word of each score, or one that all scores share.
class Word {
public:
  Word(ImplicitLocOpBuilder &b, Value value) : builder(&b), value(value) {}

  static Word constant(ImplicitLocOpBuilder &b, uint32_t value) {
    return {b, arith::ConstantOp::create(
                   b, b.getI32IntegerAttr(static_cast<int32_t>(value)))};
  }
  bool isShared() const { return !isa<VectorType>(value.getType()); }
  Value spread() const {
    return isShared() ? splatInteger(*builder, value) : value;
  }

  Word operator^(const Word &other) const {
    ImplicitLocOpBuilder &b = *builder;
    if (isShared() && other.isShared())
      return {b, arith::XOrIOp::create(b, value, other.value)};
    return {b, arith::XOrIOp::create(b, spread(), other.spread())};
  }
  Word operator+(uint32_t addend) const {
    ImplicitLocOpBuilder &b = *builder;
    return {b, arith::AddIOp::create(b, value, constant(b, addend).value)};
  }
  /// Returns the low and the high word of the product.
  std::pair<Word, Word> multiply(uint32_t factor) const {
    ImplicitLocOpBuilder &b = *builder;
    Type wide = b.getI64Type();
    TypedAttr factors = b.getI64IntegerAttr(factor),
              shifts = b.getI64IntegerAttr(32);
    if (auto type = dyn_cast<VectorType>(value.getType())) {
      auto all = type.clone(wide);
      factors = DenseElementsAttr::get(all, cast<Attribute>(factors));
      shifts = DenseElementsAttr::get(all, cast<Attribute>(shifts));
      wide = all;
    }
    Value product =
        arith::MulIOp::create(b, arith::ExtUIOp::create(b, wide, value),
                              arith::ConstantOp::create(b, factors));
    Value high = arith::ShRUIOp::create(b, product,
                                        arith::ConstantOp::create(b, shifts));
    auto narrow = [&](Value x) -> Word {
      return {b, arith::TruncIOp::create(b, value.getType(), x)};
    };
    return {narrow(product), narrow(high)};
  }

private:
  ImplicitLocOpBuilder *builder;
  Value value;
};
} // namespace

/// Returns the first word that Philox4x32-10 draws. What scores do not differ
/// in is computed once: that is about half of the first two rounds.
static Value drawWord(std::array<Word, 4> counter, std::array<Word, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    auto [low0, high0] = c0.multiply(0xD2511F53);
    auto [low1, high1] = c2.multiply(0xCD9E8D57);
    // Shared words are combined first.
    c0 = high1 ^ (c1 ^ k0);
    c2 = high0 ^ (c3 ^ k1);
    c1 = low1;
    c3 = low0;
    k0 = k0 + 0x9E3779B9;
    k1 = k1 + 0xBB67AE85;
  }
  return c0.spread();
}

void AttentionBlock::loadRandomState() {
  size_t index = indexOfBias(attention.extras.biases.size()) +
                 attention.extras.mask.has_value();
  auto load = [&](int64_t i) -> Value {
    return memref::LoadOp::create(b, memory[index], at.constant(i));
  };
  auto narrow = [&](Value x) -> Value {
    return arith::TruncIOp::create(b, b.getI32Type(), x);
  };
  Value whole = load(0),
        shift = arith::ConstantOp::create(b, b.getI64IntegerAttr(32));
  seed = {narrow(whole), narrow(arith::ShRUIOp::create(b, whole, shift))};
  step = narrow(load(1));
}

Value AttentionBlock::offsetScores(
    Value base, int64_t set, int64_t chunk,
    function_ref<int64_t(int64_t, int64_t)> offset) const {
  Type type = base.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  SmallVector<APInt> offsets;
  for (int64_t i = 0; i < kScores; ++i)
    offsets.emplace_back(bits, offset(getRow(set, i), getColumn(chunk, i)),
                         /*isSigned=*/true, /*implicitTrunc=*/true);
  auto all = VectorType::get({kScores}, type);
  return arith::AddIOp::create(
      b, splatInteger(b, base),
      arith::ConstantOp::create(b, DenseElementsAttr::get(all, offsets)));
}

std::pair<Value, Value> AttentionBlock::countScores(int64_t set,
                                                    int64_t chunk) const {
  int64_t ofHead = attention.queries * attention.keys;
  bool isSmall = ofHead * llvm::product_of(attention.batch) <= int64_t(1) << 32;
  Type type = isSmall ? b.getI32Type() : b.getI64Type();
  auto scaled = [&](Value index, int64_t factor) -> Value {
    Value constant = arith::ConstantOp::create(
        b, IntegerAttr::get(
               type, APInt(type.getIntOrFloatBitWidth(), factor, false, true)));
    return arith::MulIOp::create(b, toInteger(b, index, type), constant);
  };
  int64_t perRow = shape.hasQueries ? attention.keys : 1,
          perColumn = shape.hasQueries ? 1 : attention.keys;
  Value base = arith::AddIOp::create(b, scaled(head, ofHead),
                                     scaled(findOwnRow(0), perRow));
  base = arith::AddIOp::create(b, base, scaled(findColumn(), perColumn));
  Value indices =
      offsetScores(base, set, chunk, [&](int64_t row, int64_t column) {
        return row * perRow + column * perColumn;
      });
  if (isSmall)
    return {indices, arith::ConstantOp::create(b, b.getI32IntegerAttr(0))};
  auto words = VectorType::get({kScores}, b.getI32Type());
  Value shift = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(indices.getType()),
                                cast<Attribute>(b.getI64IntegerAttr(32))));
  Value high = arith::ShRUIOp::create(b, indices, shift);
  return {arith::TruncIOp::create(b, words, indices),
          arith::TruncIOp::create(b, words, high)};
}

Value AttentionBlock::drawKept(int64_t set, int64_t chunk) const {
  const std::optional<GpuAttention::Dropout> &dropout =
      attention.extras.dropout;
  if (!dropout)
    return Value();
  // An element is kept if the upper 24 bits of its word, as a multiple of
  // 2^-24, are at least the ratio.
  auto least = static_cast<uint64_t>(std::ceil(dropout->ratio * 0x1.0p24)) << 8;
  auto flags = VectorType::get({kScores}, b.getI1Type());
  if (least > UINT32_MAX)
    return arith::ConstantOp::create(b, DenseElementsAttr::get(flags, false));
  auto [low, high] = countScores(set, chunk);
  Value word =
      drawWord({Word(b, low), Word(b, high),
                Word::constant(b, static_cast<uint32_t>(dropout->stream)),
                Word(b, step)},
               {Word(b, seed[0]), Word(b, seed[1])});
  return arith::CmpIOp::create(
      b, arith::CmpIPredicate::uge, word,
      Word::constant(b, static_cast<uint32_t>(least)).spread());
}

Value AttentionBlock::drop(Value x, Value kept) const {
  return kept ? arith::SelectOp::create(b, kept, x, splat(0, kScores))
                    .getResult()
              : x;
}

double AttentionBlock::getKeptFactor() const {
  if (!attention.extras.dropout)
    return 1;
  double ratio = attention.extras.dropout->ratio;
  return ratio < 1 ? 1 / (1 - ratio) : 0;
}

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

Value AttentionBlock::isAnyRowBeyond(Which which, double limit) const {
  Gather from = gather(which);
  SmallVector<Value> rows;
  for (int64_t i = 0; i < countOwnRows(); i += kWarp) {
    Value row = at.add(firstRow, at.add(matrices.lane, i));
    rows.push_back(from.load(
        from.find(from.findEntry(row), from.findTerm(at.constant(0))), 1));
  }
  auto type =
      VectorType::get({static_cast<int64_t>(rows.size())}, b.getF32Type());
  Value all = vector::FromElementsOp::create(b, type, rows);
  auto count = static_cast<int64_t>(rows.size());
  Value size = math::AbsFOp::create(b, all);
  Value isLarge = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, size,
                                        splat(limit, count));
  Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size,
                                         splat(INFINITY, count));
  return isAny(arith::AndIOp::create(b, isLarge, isFinite).getResult());
}
