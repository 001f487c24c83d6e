//===- Statistics.cpp - what the elements of a tensor are like ------------===//
//
// An item counts a block of elements in words of its own in the workspace;
// `finish` puts the blocks together. Everything is done on the bits of
// magnitudes: counts and maxima of integers do not depend on any order.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr int64_t kMantissaBits = 23;

/// Integers, each one number or a vector of them.
class Words {
public:
  explicit Words(ImplicitLocOpBuilder &b) : b(b) {}

  Value constant(Type like, int32_t value) {
    Attribute word = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(like))
      word = DenseElementsAttr::get(vector, word);
    return arith::ConstantOp::create(b, cast<TypedAttr>(word));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, int32_t with) {
    return arith::CmpIOp::create(b, predicate, x, constant(x.getType(), with));
  }
  Value count(Value truth, Type words) {
    return arith::ExtUIOp::create(b, words, truth);
  }

private:
  ImplicitLocOpBuilder &b;
};

/// A statistic that is one word per block.
struct Word {
  Statistic member;
  /// What a magnitude of 0 elements would be.
  int32_t neutral;
  vector::CombiningKind combine;
  /// What each magnitude is worth.
  Value (*measure)(ImplicitLocOpBuilder &, Value magnitudes);
  /// Whether words are added up, as i64.
  bool isCount;
};

const Word kWords[] = {
    {Statistic::Amax, 0, vector::CombiningKind::MAXUI,
     [](ImplicitLocOpBuilder &, Value x) { return x; }, false},
    {Statistic::Smallest, kMagnitude, vector::CombiningKind::MINUI,
     [](ImplicitLocOpBuilder &b, Value x) -> Value {
       Words words(b);
       return arith::SelectOp::create(
           b, words.compare(arith::CmpIPredicate::eq, x, 0),
           words.constant(x.getType(), kMagnitude), x);
     },
     false},
    {Statistic::Zeros, 0, vector::CombiningKind::ADD,
     [](ImplicitLocOpBuilder &b, Value x) {
       Words words(b);
       return words.count(words.compare(arith::CmpIPredicate::eq, x, 0),
                          x.getType());
     },
     true},
    {Statistic::NonFinite, 0, vector::CombiningKind::ADD,
     [](ImplicitLocOpBuilder &b, Value x) {
       Words words(b);
       return words.count(
           words.compare(arith::CmpIPredicate::uge, x, kInfinity), x.getType());
     },
     true},
};

class StatisticsKernel {
public:
  StatisticsKernel(const KernelSource &source, StatisticsOp op)
      : source(source), op(op), elements(getTensor(op.getX()).getNumElements()),
        extent(
            std::max<int64_t>(llvm::divideCeil(elements, kTaskElements), 1)) {
    SmallVector<Statistic> members = op.getMembers();
    for (auto [index, result] : llvm::enumerate(source.getResults())) {
      Statistic member = members[cast<OpResult>(result).getResultNumber()];
      if (member == Statistic::Exponents)
        histogram = index;
      for (const Word &word : kWords)
        if (word.member == member)
          words.push_back({&word, static_cast<unsigned>(index)});
    }
  }

  FailureOr<KernelInfo> emit() {
    KernelInfo info;
    info.symbol = source.symbol;
    info.extent = extent;
    info.hasFinish = true;
    info.workspaceBytes =
        4 * extent * (words.size() + (histogram ? kExponents : 0));
    SmallVector<Type> buffers = source.getBuffers(info.workspaceBytes);
    Emitter items(source.function, source.formulas, source.into,
                  source.symbol + ".items", buffers, 2);
    items.forItems(extent, [&](const Offset &item) { emitItem(items, item); });
    Emitter finish(source.function, source.formulas, source.into,
                   source.symbol + ".finish", buffers, 1);
    for (unsigned word = 0; word < words.size(); ++word)
      finishWord(finish, word);
    if (histogram)
      finishHistogram(finish);
    setInPlace(items, info, &finish);
    if (failed(items.status()) || failed(finish.status()))
      return failure();
    return info;
  }

private:
  static constexpr int64_t kExponents = StatisticsOp::kExponents;

  /// Words of all blocks, then the next statistic's; histograms at the end.
  Value viewWords(Emitter &e, unsigned word) {
    return e.viewWorkspace(4 * word * extent, extent, e.builder().getI32Type());
  }
  Value viewHistograms(Emitter &e) {
    return e.viewWorkspace(4 * words.size() * extent, extent * kExponents,
                           e.builder().getI32Type());
  }

  void emitItem(Emitter &e, const Offset &block) {
    ImplicitLocOpBuilder &b = e.builder();
    auto lanes = VectorType::get({kLanes}, b.getI32Type());
    Value histograms = histogram ? viewHistograms(e) : Value();
    if (histogram)
      e.columns(kExponents, {}, [&](const Offset &bin, ValueRange) {
        e.storeLanes(histograms, Words(b).constant(lanes, 0),
                     block * kExponents + bin);
        return SmallVector<Value>();
      });
    SmallVector<Value> partials;
    for (auto [word, result] : words)
      partials.push_back(Words(b).constant(lanes, word->neutral));
    Value first = histogram ? e.number(block * kExponents) : Value();
    partials = e.columnBlock(
        e.number(block * kTaskElements), kTaskElements, elements, partials,
        [&](const Offset &offset, ValueRange carried) {
          e.setPlaces(offset, std::nullopt);
          Value magnitudes = pullMagnitudes(e, offset);
          if (histogram)
            countExponents(b, histograms, first, magnitudes);
          SmallVector<Value> next;
          for (auto [word, partial] : llvm::zip(words, carried))
            next.push_back(accumulate(b, *word.first, partial,
                                      word.first->measure(b, magnitudes)));
          return next;
        });
    for (unsigned index = 0; index < words.size(); ++index) {
      const Word &word = *words[index].first;
      e.store(viewWords(e, index),
              vector::ReductionOp::create(b, word.combine, partials[index]),
              block);
    }
  }

  Value pullMagnitudes(Emitter &e, const Offset &offset) {
    ImplicitLocOpBuilder &b = e.builder();
    Value x = e.pullLanes(op.getX(), offset);
    Type words = cast<VectorType>(x.getType()).clone(b.getI32Type());
    return arith::AndIOp::create(b, arith::BitcastOp::create(b, words, x),
                                 Words(b).constant(words, kMagnitude));
  }

  static Value accumulate(ImplicitLocOpBuilder &b, const Word &word,
                          Value partial, Value measured) {
    if (measured.getType() != partial.getType())
      measured = vector::InsertStridedSliceOp::create(
          b, measured, Words(b).constant(partial.getType(), word.neutral),
          ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
    return combine(b, word, partial, measured);
  }

  static Value combine(ImplicitLocOpBuilder &b, const Word &word, Value a,
                       Value c) {
    return vector::makeArithReduction(b, b.getLoc(), word.combine, a, c);
  }

  /// Lane by lane: two may have one exponent.
  static void countExponents(ImplicitLocOpBuilder &b, Value histograms,
                             Value first, Value magnitudes) {
    Type words = magnitudes.getType();
    Value exponents = arith::ShRUIOp::create(
        b, magnitudes, Words(b).constant(words, kMantissaBits));
    Value one = Words(b).constant(b.getI32Type(), 1);
    for (int64_t lane = 0, e = cast<VectorType>(words).getDimSize(0); lane < e;
         ++lane) {
      Value exponent = vector::ExtractOp::create(b, exponents, lane);
      Value bin = arith::AddIOp::create(
          b, first,
          arith::IndexCastUIOp::create(b, b.getIndexType(), exponent)
              .getResult());
      Value count = memref::LoadOp::create(b, histograms, bin);
      memref::StoreOp::create(b, arith::AddIOp::create(b, count, one),
                              histograms, bin);
    }
  }

  /// The sum or the like of `start` and what `get` says of each block.
  Value overBlocks(Emitter &e, Value start,
                   llvm::function_ref<Value(Value now, Offset block)> next) {
    return e
        .loop(e.index(0), e.index(extent), 1, start,
              [&](Value item, ValueRange now) {
                Offset block = e.offsets().counter(item, extent, e.depth());
                return SmallVector<Value>{next(now.front(), block)};
              })
        .front();
  }

  void finishWord(Emitter &e, unsigned index) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [word, result] = words[index];
    Value memory = viewWords(e, index);
    Value total;
    if (word->isCount) {
      total = addUp(e, b.getI64Type(), [&](const Offset &block) {
        return e.loadNow(memory, block);
      });
    } else {
      Value start = Words(b).constant(b.getI32Type(), word->neutral);
      total = overBlocks(e, start, [&, word = word](Value now, Offset block) {
        return combine(b, *word, now, e.loadNow(memory, block));
      });
      // No magnitude: as far from 0 as can be.
      if (word->member == Statistic::Smallest)
        total = arith::MinUIOp::create(
            b, total, Words(b).constant(b.getI32Type(), kInfinity));
      total = arith::BitcastOp::create(b, b.getF32Type(), total);
    }
    e.storeResult(result, total, Offset());
  }

  /// The i64 sum over all blocks of the i32 that `get` gives.
  Value addUp(Emitter &e, Type wide,
              llvm::function_ref<Value(const Offset &block)> get) {
    ImplicitLocOpBuilder &b = e.builder();
    Attribute zero = b.getI64IntegerAttr(0);
    if (auto vector = dyn_cast<VectorType>(wide))
      zero = DenseElementsAttr::get(vector, zero);
    Value start = arith::ConstantOp::create(b, cast<TypedAttr>(zero));
    return overBlocks(e, start, [&](Value now, Offset block) -> Value {
      return arith::AddIOp::create(
          b, now, arith::ExtUIOp::create(b, wide, get(block)).getResult());
    });
  }

  void finishHistogram(Emitter &e) {
    ImplicitLocOpBuilder &b = e.builder();
    Value memory = viewHistograms(e);
    e.columns(kExponents, {}, [&](const Offset &bin, ValueRange) {
      Value total = addUp(e, VectorType::get({kLanes}, b.getI64Type()),
                          [&](const Offset &block) {
                            return e.loadNow(memory, block * kExponents + bin);
                          });
      e.storeResult(*histogram, total, bin);
      return SmallVector<Value>();
    });
  }

  const KernelSource &source;
  StatisticsOp op;
  int64_t elements, extent;
  /// With the result that each becomes.
  SmallVector<std::pair<const Word *, unsigned>> words;
  std::optional<unsigned> histogram;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitStatistics(const KernelSource &source) {
  func::FuncOp function = source.function;
  auto ops = function.front().getOps<StatisticsOp>();
  if (!llvm::hasSingleElement(ops))
    return function.emitError("kernel '@")
           << source.symbol << "' counts more than one tensor";
  return StatisticsKernel(source, *ops.begin()).emit();
}
