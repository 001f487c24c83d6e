//===- Attention.cpp - Scaled dot-product attention -----------------------===//
// A simple implementation, with which results of a device are compared.
// Heads are computed in parallel, each converted to f32. Sums are sequential,
// so results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "binade/Container/FloatConversion.h"
#include "binade/Container/Philox.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace binade;
using namespace binade::plan;

namespace {
/// A dense row-major matrix of f32.
struct Matrix {
  std::int64_t columns = 1;
  std::vector<float> elements;

  Matrix(std::int64_t rows, std::int64_t columns)
      : columns(columns), elements(static_cast<std::size_t>(rows * columns)) {}
  std::int64_t getRows() const {
    return static_cast<std::int64_t>(elements.size()) / columns;
  }
  float *operator[](std::int64_t row) {
    return elements.data() + row * columns;
  }
  const float *operator[](std::int64_t row) const {
    return elements.data() + row * columns;
  }
};

/// An operand, with a matrix for each head.
class Operand {
public:
  Operand(const View &view, std::size_t batchAxes, const Memory &memory)
      : address(memory.addressOf(view)), dtype(memory.typeOf(view)),
        batch(view.strides.begin(), view.strides.begin() + batchAxes),
        rowStride(view.strides[batchAxes]) {
    if (view.strides.size() > batchAxes + 1)
      columnStride = view.strides[batchAxes + 1];
  }

  /// Makes all heads of the last batch axis use the same elements.
  void share() { batch.back() = 0; }

  void startAt(std::span<const std::int64_t> iteration) {
    base = address.at(iteration);
  }
  DType getType() const { return dtype; }
  /// Whether elements differ along an axis: a batch axis, rows or columns.
  bool varies(std::size_t axis) const {
    return (axis < batch.size()    ? batch[axis]
            : axis == batch.size() ? rowStride
                                   : columnStride) != 0;
  }

  void read(std::span<const std::int64_t> head, Matrix &to) const {
    for (std::int64_t row = 0; row < to.getRows(); ++row)
      for (std::int64_t column = 0; column < to.columns; ++column)
        to[row][column] = load(find(head, row, column));
  }
  void write(std::span<const std::int64_t> head, const Matrix &from) const {
    for (std::int64_t row = 0; row < from.getRows(); ++row)
      for (std::int64_t column = 0; column < from.columns; ++column)
        store(from[row][column], find(head, row, column));
  }

private:
  std::byte *find(std::span<const std::int64_t> head, std::int64_t row,
                  std::int64_t column) const {
    std::int64_t element = row * rowStride + column * columnStride;
    for (std::size_t axis = 0; axis < batch.size(); ++axis)
      element += head[axis] * batch[axis];
    return base + element * static_cast<std::int64_t>(byteSize(dtype));
  }
  float load(const std::byte *at) const {
    if (dtype == DType::F32) {
      float value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    if (dtype == DType::BOOL)
      return std::to_integer<int>(*at) != 0 ? 1.0f : 0.0f;
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return dtype == DType::BF16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  }
  void store(float value, std::byte *at) const {
    if (dtype == DType::F32) {
      std::memcpy(at, &value, sizeof value);
      return;
    }
    std::uint16_t bits =
        dtype == DType::BF16 ? floatToBF16(value) : floatToF16(value);
    std::memcpy(at, &bits, sizeof bits);
  }

  Address address;
  DType dtype;
  std::vector<std::int64_t> batch; ///< Strides of the batch axes.
  std::int64_t rowStride, columnStride = 1;
  std::byte *base = nullptr;
};

class AttentionOperation : public Operation {
public:
  AttentionOperation(const Attention &attention, const Memory &memory)
      : a(attention), scale(static_cast<float>(attention.scale)) {
    std::size_t tensors = a.gradients ? 9 : 5;
    for (const plan::Operand &tensor : a.listOperands())
      if (operands.size() < tensors)
        operands.emplace_back(tensor.view, a.batch.size(), memory);
    for (const View &bias : a.extras.biases)
      biases.emplace_back(bias, a.batch.size(), memory);
    if (a.extras.mask)
      mask.emplace(*a.extras.mask, a.batch.size(), memory);
    if (a.extras.dropout)
      state = memory.addressOf(a.extras.dropout->state);
    if (a.gradients)
      for (const auto &dbias : a.gradients->dbiases)
        dbiases.emplace_back(dbias.view, a.batch.size(), memory);
    for (Which which : {Key, Value, Dkey, Dvalue})
      if (a.grouped && which < operands.size())
        operands[which].share();
  }

  void run(const ExecutionContext &context) override {
    for (std::vector<Operand> *list : {&operands, &biases, &dbiases})
      for (Operand &operand : *list)
        operand.startAt(context.iteration);
    if (mask)
      mask->startAt(context.iteration);
    if (state)
      std::memcpy(random.data(), state->at(context.iteration), sizeof random);
    std::int64_t heads = a.grouped ? a.batch.back() : 1;
    context.team->parallelFor(
        context.threads, count(a.batch) / heads,
        [&](std::int64_t number, unsigned) {
          if (a.gradients)
            return computeGradients(number * heads, heads);
          for (std::int64_t head = 0; head < heads; ++head)
            compute(number * heads + head);
        });
    for (const Operand &dbias : dbiases)
      context.team->parallelFor(context.threads, count(getBatch(dbias)),
                                [&](std::int64_t number, unsigned) {
                                  computeBiasGradient(dbias, number);
                                });
  }
  std::string getImplementation() const override { return "own"; }

private:
  enum Which { Query, Key, Value, Y, Lse, Dy, Dquery, Dkey, Dvalue };
  using Head = std::span<const std::int64_t>;

  static std::int64_t count(const std::vector<std::int64_t> &sizes) {
    std::int64_t product = 1;
    for (std::int64_t size : sizes)
      product *= size;
    return product;
  }
  static std::vector<std::int64_t>
  split(std::int64_t number, const std::vector<std::int64_t> &batch) {
    std::vector<std::int64_t> head(batch.size());
    for (std::size_t axis = head.size(); axis-- > 0;) {
      head[axis] = number % batch[axis];
      number /= batch[axis];
    }
    return head;
  }
  std::vector<std::int64_t> split(std::int64_t number) const {
    return split(number, a.batch);
  }
  /// Returns the batch axes of the gradient of a bias: those along which it is
  /// summed have size 1.
  std::vector<std::int64_t> getBatch(const Operand &dbias) const {
    std::vector<std::int64_t> batch = a.batch;
    for (std::size_t axis = 0; axis < batch.size(); ++axis)
      if (!dbias.varies(axis))
        batch[axis] = 1;
    return batch;
  }
  Matrix read(Which which, Head head, std::int64_t rows,
              std::int64_t columns) const {
    Matrix matrix(rows, columns);
    operands[which].read(head, matrix);
    return matrix;
  }
  /// Rounds a value to the type of the operands before a multiplication.
  float round(float value) const {
    DType type = operands[Query].getType();
    return type == DType::BF16  ? bf16ToFloat(floatToBF16(value))
           : type == DType::F16 ? f16ToFloat(floatToF16(value))
                                : value;
  }
  static float multiply(const float *left, const float *right,
                        std::int64_t terms) {
    float sum = 0;
    for (std::int64_t i = 0; i < terms; ++i)
      sum = std::fma(left[i], right[i], sum);
    return sum;
  }
  /// Computes to += factor * from.
  static void add(float factor, const float *from, float *to,
                  std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = std::fma(factor, from[i], to[i]);
  }
  std::int64_t countVisible(std::int64_t query) const {
    return a.causal ? query + 1 : a.keys;
  }

  /// The sum of biases, and where the mask is false, of a head.
  struct Extras {
    std::optional<Matrix> bias, mask;
    std::int64_t head; ///< Its number.
  };
  Extras readExtras(std::int64_t number) const;
  struct Score {
    float score, tangent = 0;
    bool isMasked = false;
  };
  /// Returns the score of a query and a key with the product `product`.
  Score finish(float product, const Extras &extras, std::int64_t i,
               std::int64_t j) const;
  /// Returns the factor of a probability: 1 without dropout, and 0 where it is
  /// dropped.
  float drop(const Extras &extras, std::int64_t i, std::int64_t j) const;
  /// The largest score of a row and the sum of exponentials relative to it.
  struct Statistic {
    float maximum, total;
    bool isHidden; ///< Whether all probabilities are 0.
    float getProbability(float score) const {
      return isHidden ? 0 : std::exp(score - maximum) / total;
    }
  };
  Statistic reduce(std::span<const Score> row) const;

  /// What the scores of a head, and their gradients, depend on.
  struct Inputs {
    std::vector<std::int64_t> head;
    Matrix query, key, value;
    Extras extras;
  };
  struct Results {
    Matrix y, lse, dy;
  };
  Inputs readInputs(std::int64_t number) const {
    std::vector<std::int64_t> head = split(number);
    return {head, read(Query, head, a.queries, a.depth),
            read(Key, head, a.keys, a.depth),
            read(Value, head, a.keys, a.width), readExtras(number)};
  }
  Results readResults(Head head) const {
    return {read(Y, head, a.queries, a.width), read(Lse, head, a.queries, 1),
            read(Dy, head, a.queries, a.width)};
  }
  /// Returns the scores of query `i` with the keys that it sees.
  std::vector<Score> computeScores(const Inputs &inputs, std::int64_t i) const;
  struct Gradient {
    Score score;
    float p, factor; ///< The probability, and its factor of dropout.
    float dscore;    ///< The gradient of the score.
  };
  /// Returns the gradients of these scores.
  std::vector<Gradient> computeRow(const Inputs &inputs, const Results &results,
                                   std::int64_t i) const;

  void compute(std::int64_t number) const;
  /// Computes the gradients of `count` heads that share key and value.
  void computeGradients(std::int64_t first, std::int64_t count) const;
  void addGradients(std::int64_t number, Matrix &dkey, Matrix &dvalue) const;
  /// Computes an entry of the batch of the gradient of a bias: the sum over all
  /// heads that share its elements, in their order.
  void computeBiasGradient(const Operand &dbias, std::int64_t number) const;

  Attention a;
  float scale;
  std::vector<Operand> operands, biases, dbiases;
  std::optional<Operand> mask;
  std::optional<Address> state;
  std::array<std::uint64_t, 2> random = {}; ///< Seed and step.
};
} // namespace

AttentionOperation::Extras
AttentionOperation::readExtras(std::int64_t number) const {
  Extras extras{{}, {}, number};
  std::vector<std::int64_t> head = split(number);
  for (const Operand &bias : biases) {
    Matrix own(a.queries, a.keys);
    bias.read(head, own);
    for (std::size_t i = 0; extras.bias && i < own.elements.size(); ++i)
      own.elements[i] += extras.bias->elements[i];
    extras.bias = std::move(own);
  }
  if (mask)
    mask->read(head, extras.mask.emplace(a.queries, a.keys));
  return extras;
}

AttentionOperation::Score AttentionOperation::finish(float product,
                                                     const Extras &extras,
                                                     std::int64_t i,
                                                     std::int64_t j) const {
  Score result{scale * product};
  if (auto softcap = static_cast<float>(a.extras.softcap); softcap > 0) {
    result.tangent = std::tanh(result.score / softcap);
    result.score = softcap * result.tangent;
  }
  if (extras.bias)
    result.score += (*extras.bias)[i][j];
  result.isMasked = extras.mask && (*extras.mask)[i][j] == 0;
  if (result.isMasked)
    result.score = static_cast<float>(a.extras.fill);
  return result;
}

float AttentionOperation::drop(const Extras &extras, std::int64_t i,
                               std::int64_t j) const {
  const auto &dropout = a.extras.dropout;
  if (!dropout)
    return 1;
  auto index =
      static_cast<std::uint64_t>((extras.head * a.queries + i) * a.keys + j);
  PhiloxCounter counter{static_cast<std::uint32_t>(index),
                        static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(dropout->stream),
                        static_cast<std::uint32_t>(random[1])};
  float value = philoxUniform(philox(counter, philoxKey(random[0])).front());
  return value < dropout->ratio ? 0
                                : static_cast<float>(1 / (1 - dropout->ratio));
}

AttentionOperation::Statistic
AttentionOperation::reduce(std::span<const Score> row) const {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float maximum = kNone, total = 0;
  for (const Score &own : row)
    maximum =
        std::isnan(own.score) || own.score > maximum ? own.score : maximum;
  for (const Score &own : row)
    total += std::exp(own.score - maximum);
  return {maximum, total, a.extras.zeroHidden && maximum == kNone};
}

std::vector<AttentionOperation::Score>
AttentionOperation::computeScores(const Inputs &inputs, std::int64_t i) const {
  std::vector<Score> row;
  std::int64_t visible = countVisible(i);
  row.reserve(static_cast<std::size_t>(visible));
  for (std::int64_t j = 0; j < visible; ++j)
    row.push_back(finish(multiply(inputs.query[i], inputs.key[j], a.depth),
                         inputs.extras, i, j));
  return row;
}

void AttentionOperation::compute(std::int64_t number) const {
  Inputs inputs = readInputs(number);
  Matrix y(a.queries, a.width), lse(a.queries, 1);
  for (std::int64_t i = 0; i < a.queries; ++i) {
    std::vector<Score> row = computeScores(inputs, i);
    Statistic statistic = reduce(row);
    *lse[i] = statistic.isHidden
                  ? statistic.maximum
                  : statistic.maximum + std::log(statistic.total);
    if (a.extras.haveExactStatistic())
      statistic = {*lse[i], 1, statistic.isHidden};
    for (std::size_t j = 0; j < row.size(); ++j) {
      auto other = static_cast<std::int64_t>(j);
      float p = statistic.getProbability(row[j].score);
      if (a.extras.zeroNan && std::isnan(p))
        p = 0;
      add(round(p * drop(inputs.extras, i, other)), inputs.value[other], y[i],
          a.width);
    }
  }
  operands[Y].write(inputs.head, y);
  operands[Lse].write(inputs.head, lse);
}

std::vector<AttentionOperation::Gradient>
AttentionOperation::computeRow(const Inputs &inputs, const Results &results,
                               std::int64_t i) const {
  std::vector<Score> row = computeScores(inputs, i);
  Statistic statistic = reduce(row);
  if (a.extras.haveExactStatistic())
    statistic = {*results.lse[i], 1, statistic.isHidden};
  float inner = multiply(results.dy[i], results.y[i], a.width);
  std::vector<Gradient> gradients;
  gradients.reserve(row.size());
  for (const Score &score : row) {
    auto j = static_cast<std::int64_t>(gradients.size());
    float p = statistic.getProbability(score.score);
    float factor = drop(inputs.extras, i, j);
    float dp = factor * multiply(results.dy[i], inputs.value[j], a.width);
    gradients.push_back(
        {score, p, factor, score.isMasked ? 0 : p * (dp - inner)});
  }
  return gradients;
}

void AttentionOperation::computeGradients(std::int64_t first,
                                          std::int64_t count) const {
  Matrix dkey(a.keys, a.depth), dvalue(a.keys, a.width);
  for (std::int64_t head = 0; head < count; ++head)
    addGradients(first + head, dkey, dvalue);
  operands[Dkey].write(split(first), dkey);
  operands[Dvalue].write(split(first), dvalue);
}

void AttentionOperation::addGradients(std::int64_t number, Matrix &dkey,
                                      Matrix &dvalue) const {
  Inputs inputs = readInputs(number);
  Results results = readResults(inputs.head);
  Matrix dquery(a.queries, a.depth);
  for (std::int64_t i = 0; i < a.queries; ++i) {
    std::int64_t j = 0;
    for (const auto &[score, p, factor, dscore] :
         computeRow(inputs, results, i)) {
      float slope = scale * (1 - score.tangent * score.tangent);
      float ds = score.isMasked ? 0 : round(slope * dscore);
      float weight = a.extras.zeroNan && std::isnan(p) ? 0 : p * factor;
      add(round(weight), results.dy[i], dvalue[j], a.width);
      add(ds, inputs.key[j], dquery[i], a.depth);
      add(ds, inputs.query[i], dkey[j], a.depth);
      ++j;
    }
  }
  operands[Dquery].write(inputs.head, dquery);
}

void AttentionOperation::computeBiasGradient(const Operand &dbias,
                                             std::int64_t number) const {
  std::vector<std::int64_t> own = split(number, getBatch(dbias));
  bool perQuery = dbias.varies(own.size()),
       perKey = dbias.varies(own.size() + 1);
  Matrix sum(perQuery ? a.queries : 1, perKey ? a.keys : 1);
  auto isShared = [&](const std::vector<std::int64_t> &head) {
    for (std::size_t axis = 0; axis < own.size(); ++axis)
      if (dbias.varies(axis) && head[axis] != own[axis])
        return false;
    return true;
  };
  for (std::int64_t head = 0; head < count(a.batch); ++head) {
    if (!isShared(split(head)))
      continue;
    Inputs inputs = readInputs(head);
    Results results = readResults(inputs.head);
    for (std::int64_t i = 0; i < a.queries; ++i) {
      std::int64_t j = 0;
      for (const Gradient &gradient : computeRow(inputs, results, i))
        sum[perQuery ? i : 0][perKey ? j++ : 0] += gradient.dscore;
    }
  }
  dbias.write(own, sum);
}

std::unique_ptr<Operation>
binade::createSimpleAttention(const Attention &attention,
                              const Memory &memory) {
  return std::make_unique<AttentionOperation>(attention, memory);
}
