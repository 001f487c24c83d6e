//===- FusedAttention.cpp - Attention by one kernel per head --------------===//
// Threads take heads, or blocks of queries of a head if there are few heads.
// The sums of an element belong to one thread and have a fixed order, so that
// results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

#include "../Contractions/Contraction.h"
#include "../Execution/KernelObject.h"
#include "HeadOperand.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace binade;
using namespace binade::attention;
using plan::View;

namespace {
class FusedAttention : public Operation {
public:
  FusedAttention(const plan::Attention &a, const Memory &memory,
                 unsigned threads);

  void run(const ExecutionContext &context) override;
  std::uint64_t getScratchBytes() const override {
    return static_cast<std::uint64_t>(threads * privateBytes);
  }
  void setScratch(std::byte *bytes) override { scratch = bytes; }
  std::string getImplementation() const override {
    return "own " + std::string(kernels->name);
  }

private:
  enum Which { Query, Key, Value, Y, Lse, Dy, Dquery, Dkey, Dvalue };

  Rows getRows(Which which, std::int64_t number) const {
    return operands[which].getRows(number, batch);
  }
  /// The operands of a head; `scores` has the biases, then the mask.
  struct HeadOperands {
    Head head;
    std::vector<ScoreOperand> scores;
  };
  HeadOperands getHead(std::int64_t number) const;
  void startAt(std::span<const std::int64_t> iteration);
  std::byte *getPrivateMemory(unsigned thread) const {
    return scratch + thread * privateBytes;
  }
  /// Computes the queries [first, end) of the heads of a group, which share
  /// keys.
  void computeQueries(std::int64_t group, std::int64_t first, std::int64_t end,
                      std::byte *memory) const;
  /// The gradient of a bias: a sum over the heads that share its elements.
  struct BiasGradient {
    HeadOperand operand;
    /// The sizes of the batch axes along which the bias varies, and of those
    /// over which its gradient is summed; 1 for the other axes.
    std::vector<std::int64_t> ownSizes, summedSizes;
    bool areQueriesSummed = false, areKeysSummed = false;
    /// The number of queries of a part, which one task computes.
    std::int64_t rows = 1;
  };
  void registerBiasGradient(const View &view, const Memory &memory);
  /// Computes the gradients of query, key and value of a group, and adds those
  /// of scores to the gradient of `bias` unless it is null.
  void computeGradients(std::int64_t group, const BiasGradient *bias,
                        std::byte *memory) const;

  /// Returns the number of sets of heads that share elements of `bias`, if a
  /// thread that computes a whole set can accumulate the gradient of the bias,
  /// in the order of `computeBiasGradient`, and if all threads have a set;
  /// otherwise 0. The gradient has to be f32, and the bias not broadcast over
  /// queries or keys.
  std::int64_t countHeadSets(const BiasGradient &bias, unsigned threads) const;
  /// Computes all gradients of the heads of a set, with that of `bias`.
  void computeHeadSet(const BiasGradient &bias, std::int64_t set,
                      std::byte *memory) const;
  void runGradients(const ExecutionContext &context) const;
  /// Computes a part of the gradient of a bias from recomputed gradients of
  /// scores.
  void computeBiasGradient(const BiasGradient &bias, std::int64_t part,
                           std::byte *memory) const;
  std::int64_t countParts(const BiasGradient &bias) const {
    return (shape.queries + bias.rows - 1) / bias.rows *
           countHeads(bias.ownSizes);
  }

  Shape shape;
  const Kernels *kernels;
  bool hasGradients;
  std::vector<std::int64_t> batch;
  /// Heads that share keys and values, and the number of such groups.
  std::int64_t sharers, groups;
  std::int64_t threads, privateBytes;
  std::vector<HeadOperand> operands, scores;
  std::vector<BiasGradient> biasGradients;
  std::optional<Address> randomState;
  RandomState random;
  std::byte *scratch = nullptr;
};
} // namespace

static Dropout getDropout(const plan::AttentionExtras::Dropout &dropout) {
  // Random values are multiples of 2^-24, the upper bits of random words.
  double values = std::ceil(dropout.ratio * 0x1p24);
  Dropout result;
  result.largestDropped =
      static_cast<std::uint32_t>((static_cast<std::uint64_t>(values) << 8) - 1);
  result.scale = static_cast<float>(1 / (1 - dropout.ratio));
  result.stream = static_cast<std::uint32_t>(dropout.stream);
  return result;
}

FusedAttention::FusedAttention(const plan::Attention &a, const Memory &memory,
                               unsigned threads)
    : hasGradients(a.gradients.has_value()), batch(a.batch),
      sharers(a.grouped ? a.batch.back() : 1), threads(threads) {
  shape.dtype = memory.typeOf(a.query);
  shape.queries = a.queries;
  shape.keys = a.keys;
  shape.depth = a.depth;
  shape.width = a.width;
  shape.scale = static_cast<float>(a.scale);
  shape.causal = a.causal;
  shape.biases = static_cast<std::int64_t>(a.extras.biases.size());
  shape.hasMask = a.extras.mask.has_value();
  shape.fill = static_cast<float>(a.extras.fill);
  shape.zeroHidden = a.extras.zeroHidden;
  shape.zeroNan = a.extras.zeroNan;
  shape.hasExactStatistic = a.extras.haveExactStatistic();
  shape.softcap = static_cast<float>(a.extras.softcap);
  if (const auto &dropout = a.extras.dropout; dropout && dropout->ratio > 0) {
    shape.hasDropout = true;
    shape.dropout = getDropout(*dropout);
    randomState = memory.addressOf(dropout->state);
  }
  kernels = &getKernels(getHighestLevel(), shape.dtype);
  privateBytes = hasGradients ? kernels->countBackwardBytes(shape)
                              : kernels->countForwardBytes(shape);
  groups = countHeads(batch) / sharers;
  std::size_t tensors = hasGradients ? 9 : 5;
  for (const plan::Operand &tensor : a.listOperands())
    if (operands.size() < tensors)
      operands.emplace_back(tensor.view, batch.size(), memory);
  for (const View &bias : a.extras.biases)
    scores.emplace_back(bias, batch.size(), memory);
  if (a.extras.mask)
    scores.emplace_back(*a.extras.mask, batch.size(), memory);
  for (Which which : {Key, Value, Dkey, Dvalue})
    if (a.grouped && which < operands.size())
      operands[which].share();
  if (hasGradients)
    for (const auto &dbias : a.gradients->dbiases)
      registerBiasGradient(dbias.view, memory);
}

void FusedAttention::registerBiasGradient(const View &view,
                                          const Memory &memory) {
  privateBytes = std::max(privateBytes, kernels->countBiasBytes(shape));
  BiasGradient bias{{view, batch.size(), memory}, batch, batch};
  for (std::size_t axis = 0; axis < batch.size(); ++axis)
    (bias.operand.variesAlong(axis) ? bias.summedSizes : bias.ownSizes)[axis] =
        1;
  bias.areQueriesSummed = !bias.operand.variesByQuery();
  bias.areKeysSummed = !bias.operand.variesByKey();
  bias.rows = bias.areQueriesSummed ? shape.queries : kMaxBiasRows;
  biasGradients.push_back(std::move(bias));
}

FusedAttention::HeadOperands
FusedAttention::getHead(std::int64_t number) const {
  HeadOperands result;
  Head &head = result.head;
  head.query = getRows(Query, number);
  head.key = getRows(Key, number);
  head.value = getRows(Value, number);
  head.y = getRows(Y, number);
  Rows lse = getRows(Lse, number);
  head.lse = reinterpret_cast<float *>(lse.data);
  head.lseStride = lse.stride;
  if (hasGradients) {
    head.dy = getRows(Dy, number);
    head.dquery = getRows(Dquery, number);
  }
  for (const HeadOperand &operand : scores)
    result.scores.push_back(operand.getScores(number, batch));
  head.biases = result.scores.data();
  if (shape.hasMask)
    head.mask = &result.scores.back();
  head.random = random;
  head.random.firstIndex =
      static_cast<std::uint64_t>(number * shape.queries * shape.keys);
  return result;
}

void FusedAttention::computeQueries(std::int64_t group, std::int64_t first,
                                    std::int64_t end, std::byte *memory) const {
  kernels->prepareKeys(shape, getHead(group * sharers).head, memory);
  for (std::int64_t head = 0; head < sharers; ++head)
    kernels->computeRows(shape, getHead(group * sharers + head).head, first,
                         end - first, memory);
}

void FusedAttention::computeGradients(std::int64_t group,
                                      const BiasGradient *bias,
                                      std::byte *memory) const {
  kernels->clearGradients(shape, memory);
  for (std::int64_t i = 0; i < sharers; ++i) {
    std::int64_t number = group * sharers + i;
    HeadOperands operands = getHead(number);
    if (bias)
      operands.head.dbias = bias->operand.getRows(number, batch);
    kernels->addGradients(shape, operands.head, memory);
  }
  kernels->writeGradients(shape, getRows(Dkey, group * sharers),
                          getRows(Dvalue, group * sharers), memory);
}

/// Converts an index in a batch of shape `sizes`, each of which is 1 or that of
/// `batch`, to the index of a head in `batch`.
static std::int64_t findHead(std::int64_t number,
                             const std::vector<std::int64_t> &sizes,
                             const std::vector<std::int64_t> &batch) {
  std::int64_t head = 0, step = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    head += number % sizes[axis] * step;
    number /= sizes[axis];
    step *= batch[axis];
  }
  return head;
}

std::int64_t FusedAttention::countHeadSets(const BiasGradient &bias,
                                           unsigned threads) const {
  if (bias.areQueriesSummed || bias.areKeysSummed ||
      bias.operand.getType() != DType::F32)
    return 0;
  std::int64_t sets = countHeads(bias.ownSizes);
  if (sharers > 1)
    sets /= bias.ownSizes.back();
  return sets >= std::min<std::int64_t>(threads, groups) ? sets : 0;
}

void FusedAttention::computeHeadSet(const BiasGradient &bias, std::int64_t set,
                                    std::byte *memory) const {
  std::vector<std::int64_t> own = bias.ownSizes, summed = bias.summedSizes;
  if (sharers > 1)
    own.back() = summed.back() = 1; // The heads of a group.
  std::int64_t first = findHead(set, own, batch);
  for (std::int64_t i = 0; i < sharers; ++i) {
    Rows rows = bias.operand.getRows(first + i, batch);
    auto *row = reinterpret_cast<float *>(rows.data);
    for (std::int64_t query = 0; query < shape.queries; ++query)
      std::fill_n(row + query * rows.stride, shape.keys, 0.0f);
  }
  for (std::int64_t i = 0; i < countHeads(summed); ++i)
    computeGradients((first + findHead(i, summed, batch)) / sharers, &bias,
                     memory);
}

void FusedAttention::computeBiasGradient(const BiasGradient &bias,
                                         std::int64_t part,
                                         std::byte *memory) const {
  std::int64_t parts = (shape.queries + bias.rows - 1) / bias.rows,
               first = part % parts * bias.rows,
               count = std::min(bias.rows, shape.queries - first),
               own = findHead(part / parts, bias.ownSizes, batch);
  kernels->clearBiasGradient(shape, memory);
  for (std::int64_t i = 0; i < countHeads(bias.summedSizes); ++i)
    kernels->addToBiasGradient(
        shape, getHead(own + findHead(i, bias.summedSizes, batch)).head, first,
        count, bias.areQueriesSummed, memory);
  Rows to = bias.operand.getRows(own, batch);
  to.data += first * to.stride * static_cast<std::int64_t>(byteSize(to.dtype));
  kernels->writeBiasGradient(shape, to, bias.areQueriesSummed ? 1 : count,
                             bias.areKeysSummed, memory);
}

void FusedAttention::startAt(std::span<const std::int64_t> iteration) {
  for (std::vector<HeadOperand> *list : {&operands, &scores})
    for (HeadOperand &operand : *list)
      operand.startAt(iteration);
  for (BiasGradient &bias : biasGradients)
    bias.operand.startAt(iteration);
  if (!randomState)
    return;
  std::array<std::uint64_t, 2> state;
  std::memcpy(state.data(), randomState->at(iteration), sizeof state);
  random.seed = state[0];
  random.step = static_cast<std::uint32_t>(state[1]);
}

void FusedAttention::runGradients(const ExecutionContext &context) const {
  // The bias whose gradient is computed with those of query, key and value.
  const BiasGradient *fused = nullptr;
  std::int64_t tasks = groups;
  for (const BiasGradient &bias : biasGradients)
    if (std::int64_t count = countHeadSets(bias, context.threads);
        count > 0 && !fused) {
      fused = &bias;
      tasks = count;
    }
  context.team->parallelFor(
      context.threads, tasks, [&](std::int64_t task, unsigned thread) {
        if (fused)
          computeHeadSet(*fused, task, getPrivateMemory(thread));
        else
          computeGradients(task, nullptr, getPrivateMemory(thread));
      });
  for (const BiasGradient &bias : biasGradients)
    if (&bias != fused)
      context.team->parallelFor(context.threads, countParts(bias),
                                [&](std::int64_t task, unsigned thread) {
                                  computeBiasGradient(bias, task,
                                                      getPrivateMemory(thread));
                                });
}

void FusedAttention::run(const ExecutionContext &context) {
  startAt(context.iteration);
  if (hasGradients)
    return runGradients(context);
  // The queries of a head are divided into parts, which prepare its keys again.
  // A part has a multiple of the queries that the kernels compute together, and
  // so many of them that this is worthwhile.
  constexpr std::int64_t kMinQueries = 128, kTasksPerThread = 4;
  std::int64_t maxParts = (shape.queries + kMinQueries - 1) / kMinQueries;
  std::int64_t wanted = kTasksPerThread * context.threads / groups + 1;
  std::int64_t parts = context.threads == 1 ? 1 : std::min(maxParts, wanted);
  std::int64_t each = (maxParts + parts - 1) / parts * kMinQueries;
  parts = (shape.queries + each - 1) / each;
  context.team->parallelFor(
      context.threads, groups * parts, [&](std::int64_t task, unsigned thread) {
        std::int64_t first = task % parts * each;
        computeQueries(task / parts, first,
                       std::min(first + each, shape.queries),
                       getPrivateMemory(thread));
      });
}

/// Whether the kernels support `a`: matrices with dense rows of f32, bf16 or
/// f16, of which those that are multiplied have one format.
static bool isSupported(const plan::Attention &a, const Memory &memory) {
  if (a.queries * a.keys * a.depth * a.width == 0 ||
      std::count(a.batch.begin(), a.batch.end(), 0) > 0)
    return false;
  DType dtype = memory.typeOf(a.query);
  auto isOperand = [&](const View &view) {
    return memory.typeOf(view) == dtype;
  };
  auto isMatrix = [&](const View &view) {
    DType own = memory.typeOf(view);
    return view.strides.back() == 1 &&
           (own == DType::F32 || own == DType::BF16 || own == DType::F16);
  };
  std::vector<View> matrices = {a.query, a.key, a.value, a.y};
  if (a.gradients) {
    const auto &g = *a.gradients;
    matrices.insert(matrices.end(), {g.dy, g.dquery, g.dkey, g.dvalue});
    auto hasDenseKeys = [](const auto &dbias) {
      return dbias.view.strides.back() == 0 || dbias.view.strides.back() == 1;
    };
    if (!isOperand(g.dy) ||
        !std::all_of(g.dbiases.begin(), g.dbiases.end(), hasDenseKeys))
      return false;
  }
  return isOperand(a.key) && isOperand(a.value) &&
         memory.typeOf(a.lse) == DType::F32 &&
         std::all_of(matrices.begin(), matrices.end(), isMatrix);
}

std::unique_ptr<Operation>
binade::createFusedAttention(const plan::Attention &attention,
                             const Memory &memory, unsigned threads) {
  if (supportedIsaLevels().empty() || !isSupported(attention, memory))
    return nullptr;
  return std::make_unique<FusedAttention>(attention, memory, threads);
}
