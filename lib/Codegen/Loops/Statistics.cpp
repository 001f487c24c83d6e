//===- Statistics.cpp - Statistics of a tensor ----------------------------===//
//
// A work item computes the statistics of a block of elements and stores them in
// its part of the workspace; `finish` combines the blocks. All is computed from
// the bits of magnitudes: counts and maxima of integers do not depend on the
// order.
//
//===----------------------------------------------------------------------===//

#include "../Lanes.h"
#include "ExponentHistogram.h"
#include "Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::binade;

namespace {

/// Operations on i32, scalars or vectors.
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

/// A statistic that has one word per block.
struct Word {
  Statistic member;
  /// The value for a tensor without elements.
  int32_t neutral;
  vector::CombiningKind combine;
  /// Returns the contribution of each magnitude.
  Value (*measure)(ImplicitLocOpBuilder &, Value magnitudes);
  /// Whether words are added, as i64.
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
           words.compare(arith::CmpIPredicate::uge, x, kInfinityBits),
           x.getType());
     },
     true},
};

/// Emits a kernel that computes the statistics of one tensor.
class StatisticsKernel {
public:
  StatisticsKernel(const KernelSource &source, StatisticsOp op)
      : source(source), op(op), elements(getTensor(op.getX()).getNumElements()),
        shape(source.shape) {
    if (shape) {
      perItem = llvm::alignTo(std::max(perItem, elements / kMaxItems), perItem);
      shape = shape->fit(source.chooseLanes(elements), perItem, 1);
    }
    extent = std::max<int64_t>(llvm::divideCeil(elements, perItem), 1);
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
                  source.symbol + ".items", buffers, 2, shape);
    items.forItems(extent, [&](const Offset &item) { emitItem(items, item); });
    Emitter finish(source.function, source.formulas, source.into,
                   source.symbol + ".finish", buffers, 1,
                   shape ? std::optional(shape->ofRows()) : std::nullopt);
    // On a GPU each block of threads computes one bin.
    finish.forAll(shape && histogram ? kExponents : 1, [&](const Offset &bin) {
      for (unsigned word = 0; word < words.size(); ++word)
        finishWord(finish, word, bin);
      if (histogram && shape)
        finishBin(finish, bin);
      else if (histogram)
        forBins(finish, [&](const Offset &bin) { finishBin(finish, bin); });
    });
    setInPlace(items, info, &finish);
    if (failed(items.status()) || failed(finish.status()))
      return failure();
    return info;
  }

private:
  static constexpr int64_t kExponents = StatisticsOp::kExponents;

  /// The words of all blocks for one statistic, then those of the next;
  /// histograms at the end.
  Value viewWords(Emitter &e, unsigned word) {
    return e.viewWorkspace(4 * word * extent, extent, e.builder().getI32Type());
  }
  Value viewHistograms(Emitter &e) {
    return e.viewWorkspace(4 * words.size() * extent, extent * kExponents,
                           e.builder().getI32Type());
  }

  void emitItem(Emitter &e, const Offset &block) {
    ImplicitLocOpBuilder &b = e.builder();
    auto lanes = VectorType::get({e.wholeLanes()}, b.getI32Type());
    // Threads of a GPU count in shared memory.
    Value shared, begin = e.number(block * perItem);
    std::optional<ExponentHistogram> exponents;
    if (histogram && !e.isOnGpu())
      exponents.emplace(e, std::min(perItem, elements));
    else if (histogram)
      shared = startShared(e);
    SmallVector<Value> partials;
    for (auto [word, result] : words)
      partials.push_back(Words(b).constant(lanes, word->neutral));
    partials = e.columnBlock(
        begin, perItem, elements, partials,
        [&](const Offset &offset, ValueRange carried) {
          e.setPlaces(offset, std::nullopt);
          Value magnitudes = pullMagnitudes(e, offset);
          if (exponents)
            exponents->keep(magnitudes,
                            arith::SubIOp::create(b, e.number(offset), begin));
          else if (histogram)
            countExponents(e, shared, magnitudes);
          SmallVector<Value> next;
          for (auto [word, partial] : llvm::zip(words, carried))
            next.push_back(accumulate(b, *word.first, partial,
                                      word.first->measure(b, magnitudes)));
          return next;
        });
    for (unsigned index = 0; index < words.size(); ++index) {
      const Word &word = *words[index].first;
      Value own = vector::ReductionOp::create(b, word.combine, partials[index]);
      e.storeOnce(viewWords(e, index), combineThreads(e, word, own), block);
    }
    if (exponents)
      exponents->store(countElements(e, begin), viewHistograms(e),
                       block * kExponents);
    else if (histogram)
      storeShared(e, shared, block);
  }

  /// Returns the number of elements of the work item that starts at `begin`.
  Value countElements(Emitter &e, Value begin) {
    ImplicitLocOpBuilder &b = e.builder();
    Value left = arith::SubIOp::create(b, e.index(elements), begin);
    return arith::MinUIOp::create(b, left, e.index(perItem));
  }

  Value startShared(Emitter &e) {
    ImplicitLocOpBuilder &b = e.builder();
    Value shared = e.allocate(kExponents, b.getI32Type());
    forBins(e, [&](const Offset &bin) {
      auto zeros = VectorType::get({e.lanes()}, b.getI32Type());
      e.storeOnce(shared, Words(b).constant(zeros, 0), bin);
    });
    e.endPass();
    return shared;
  }

  void storeShared(Emitter &e, Value shared, const Offset &block) {
    e.endPass();
    forBins(e, [&](const Offset &bin) {
      e.storeOnce(viewHistograms(e), e.loadNow(shared, bin),
                  block * kExponents + bin);
    });
  }

  void forBins(Emitter &e, llvm::function_ref<void(const Offset &)> body) {
    e.columns(kExponents, {}, [&](const Offset &bin, ValueRange) {
      body(bin);
      return SmallVector<Value>();
    });
  }

  static Value combineThreads(Emitter &e, const Word &word, Value own) {
    return e.combineThreads(own, [&](Value x, Value y) {
      return combine(e.builder(), word, x, y);
    });
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

  /// Counts lane by lane, because several lanes may have the same exponent.
  static void countExponents(Emitter &e, Value shared, Value magnitudes) {
    ImplicitLocOpBuilder &b = e.builder();
    Type words = magnitudes.getType();
    Value exponents = arith::ShRUIOp::create(
        b, magnitudes, Words(b).constant(words, kFractionBits));
    Value one = Words(b).constant(b.getI32Type(), 1);
    int64_t lanes = cast<VectorType>(words).getDimSize(0);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value exponent = vector::ExtractOp::create(b, exponents, lane);
      e.addTo(shared,
              arith::IndexCastUIOp::create(b, b.getIndexType(), exponent), one);
    }
  }

  /// Several blocks of threads compute the same word; the one of bin 0 stores
  /// it.
  void finishWord(Emitter &e, unsigned index, const Offset &bin) {
    ImplicitLocOpBuilder &b = e.builder();
    auto [word, result] = words[index];
    Value memory = viewWords(e, index);
    Type type = word->isCount ? b.getI64Type() : b.getI32Type();
    Value start =
        arith::ConstantOp::create(b, b.getIntegerAttr(type, word->neutral));
    Value total =
        e.rows(e.index(0), e.index(extent), extent, start,
               [&, word = word](const Offset &block, ValueRange now) {
                 Value own = widen(b, e.loadNow(memory, block), type);
                 return SmallVector<Value>{combine(b, *word, now[0], own)};
               })
            .front();
    total = combineThreads(e, *word, total);
    // Without a nonzero magnitude, the smallest one is infinity.
    if (word->member == Statistic::Smallest)
      total = arith::MinUIOp::create(
          b, total, Words(b).constant(b.getI32Type(), kInfinityBits));
    if (!word->isCount)
      total = arith::BitcastOp::create(b, b.getF32Type(), total);
    auto store = [&, result = result] {
      e.storeResult(result, total, Offset());
      return SmallVector<Value>();
    };
    if (bin.terms.empty())
      store();
    else
      e.conditional(arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          e.number(bin), e.index(0)),
                    {}, store);
  }

  static Value widen(ImplicitLocOpBuilder &b, Value word, Type type) {
    if (word.getType() == type)
      return word;
    return arith::ExtUIOp::create(b, type, word);
  }

  void finishBin(Emitter &e, const Offset &bin) {
    ImplicitLocOpBuilder &b = e.builder();
    Type wide = b.getI64Type();
    if (bin.variesOverLanes())
      wide = VectorType::get({e.lanes()}, wide);
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(wide));
    Value total =
        e.rows(e.index(0), e.index(extent), extent, zeros,
               [&](const Offset &block, ValueRange now) {
                 Value own =
                     e.loadNow(viewHistograms(e), block * kExponents + bin);
                 return SmallVector<Value>{
                     arith::AddIOp::create(b, now[0], widen(b, own, wide))};
               })
            .front();
    total = e.combineThreads(total, [&](Value x, Value y) -> Value {
      return arith::AddIOp::create(b, x, y);
    });
    e.storeResult(*histogram, total, bin);
  }

  const KernelSource &source;
  StatisticsOp op;
  int64_t elements;
  std::optional<GpuShape> shape;
  int64_t perItem = kTaskElements, extent = 0;
  /// Each with the result that it computes.
  SmallVector<std::pair<const Word *, unsigned>> words;
  std::optional<unsigned> histogram;
};
} // namespace

FailureOr<KernelInfo> mlir::binade::emitStatistics(const KernelSource &source) {
  func::FuncOp function = source.function;
  auto ops = function.front().getOps<StatisticsOp>();
  if (!llvm::hasSingleElement(ops))
    return function.emitError("kernel '@")
           << source.symbol << "' must contain exactly one binade.statistics";
  return StatisticsKernel(source, *ops.begin()).emit();
}
