//===- FusedAttention.cpp - Attention by one kernel per head --------------===//
// Threads take heads, or blocks of queries of a head if there are few heads.
// The sums of an element belong to one thread and have a fixed order, so that
// results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

#include "../Contractions/Contraction.h"
#include "../Execution/KernelObject.h"
#include "Kernels.h"
#include <algorithm>

using namespace binade;
using namespace binade::attention;
using plan::View;

namespace {
/// An operand with a matrix for each head.
class HeadOperand {
public:
  HeadOperand(const View &view, std::size_t batchAxes, const Memory &memory)
      : address(memory.addressOf(view)), dtype(memory.typeOf(view)),
        batch(view.strides.begin(), view.strides.begin() + batchAxes),
        stride(view.strides[batchAxes]),
        columnStride(view.strides.size() > batchAxes + 1
                         ? view.strides[batchAxes + 1]
                         : 1) {}

  /// Makes all heads of the last batch axis use the same elements.
  void share() { batch.back() = 0; }
  void startAt(std::span<const std::int64_t> iteration) {
    base = address.at(iteration);
  }
  Rows getRows(std::int64_t number,
               const std::vector<std::int64_t> &sizes) const {
    return {find(number, sizes), dtype, stride};
  }
  ScoreOperand getScores(std::int64_t number,
                         const std::vector<std::int64_t> &sizes) const {
    return {find(number, sizes), dtype, stride, columnStride};
  }

private:
  std::byte *find(std::int64_t number,
                  const std::vector<std::int64_t> &sizes) const {
    std::int64_t element = 0;
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      element += number % sizes[axis] * batch[axis];
      number /= sizes[axis];
    }
    return base + element * static_cast<std::int64_t>(byteSize(dtype));
  }

  Address address;
  DType dtype;
  std::vector<std::int64_t> batch; ///< Strides of the batch axes.
  std::int64_t stride, columnStride;
  std::byte *base = nullptr;
};

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
  std::byte *getPrivateMemory(unsigned thread) const {
    return scratch + thread * privateBytes;
  }
  /// Computes the queries [first, end) of the heads of a group, which share
  /// keys.
  void computeQueries(std::int64_t group, std::int64_t first, std::int64_t end,
                      std::byte *memory) const;
  void computeGradients(std::int64_t group, std::byte *memory) const;

  Shape shape;
  const Kernels *kernels;
  bool hasGradients;
  std::vector<std::int64_t> batch;
  /// Heads that share keys and values, and the number of such groups.
  std::int64_t sharers, groups;
  std::int64_t threads, privateBytes;
  std::vector<HeadOperand> operands, scores;
  std::byte *scratch = nullptr;
};
} // namespace

FusedAttention::FusedAttention(const plan::Attention &a, const Memory &memory,
                               unsigned threads)
    : hasGradients(a.gradients.has_value()), batch(a.batch),
      sharers(a.grouped ? a.batch.back() : 1), groups(1), threads(threads) {
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
  kernels = &getKernels(getHighestLevel(), shape.dtype);
  privateBytes = hasGradients ? kernels->countBackwardBytes(shape)
                              : kernels->countForwardBytes(shape);
  for (std::int64_t size : batch)
    groups *= size;
  groups /= sharers;
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
                                      std::byte *memory) const {
  kernels->clearGradients(shape, memory);
  for (std::int64_t head = 0; head < sharers; ++head)
    kernels->addGradients(shape, getHead(group * sharers + head).head, memory);
  kernels->writeGradients(shape, getRows(Dkey, group * sharers),
                          getRows(Dvalue, group * sharers), memory);
}

void FusedAttention::run(const ExecutionContext &context) {
  for (std::vector<HeadOperand> *list : {&operands, &scores})
    for (HeadOperand &operand : *list)
      operand.startAt(context.iteration);
  if (hasGradients)
    return context.team->parallelFor(
        context.threads, groups, [&](std::int64_t group, unsigned thread) {
          computeGradients(group, getPrivateMemory(thread));
        });
  // A part has a multiple of the queries that the kernels compute together, and
  // enough of them to prepare the keys again.
  constexpr std::int64_t kLeast = 128, kTasksPerThread = 4;
  std::int64_t most = (shape.queries + kLeast - 1) / kLeast;
  std::int64_t wanted = kTasksPerThread * context.threads / groups + 1;
  std::int64_t parts = context.threads == 1 ? 1 : std::min(most, wanted);
  std::int64_t each = (most + parts - 1) / parts * kLeast;
  parts = (shape.queries + each - 1) / each;
  context.team->parallelFor(
      context.threads, groups * parts, [&](std::int64_t task, unsigned thread) {
        std::int64_t first = task % parts * each;
        computeQueries(task / parts, first,
                       std::min(first + each, shape.queries),
                       getPrivateMemory(thread));
      });
}

/// Whether the kernels compute `a`: without soft cap, dropout and gradients of
/// biases, and with dense rows of f32, bf16 or f16.
static bool isSupported(const plan::Attention &a, const Memory &memory) {
  if (a.extras.softcap > 0 || a.extras.dropout ||
      a.queries * a.keys * a.depth * a.width == 0 ||
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
    if (!isOperand(g.dy) || !g.dbiases.empty())
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
