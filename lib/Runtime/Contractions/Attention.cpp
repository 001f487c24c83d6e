//===- Attention.cpp - Scaled dot-product attention -----------------------===//
// Heads are computed in parallel, each converted to f32. Sums are sequential,
// so results do not depend on the number of threads.
//===----------------------------------------------------------------------===//

#include "../Execution/Operation.h"
#include "binade/Container/FloatConversion.h"
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
        rowStride(view.strides[batchAxes]) {}

  /// Makes all heads of the last batch axis use the same elements.
  void share() { batch.back() = 0; }

  void startAt(std::span<const std::int64_t> iteration) {
    base = address.at(iteration);
  }
  DType getType() const { return dtype; }

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
    std::int64_t element = row * rowStride + column;
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
  std::int64_t rowStride;
  std::byte *base = nullptr;
};

class AttentionOperation : public Operation {
public:
  AttentionOperation(const Attention &attention, const Memory &memory)
      : a(attention), scale(static_cast<float>(attention.scale)) {
    for (const plan::Operand &tensor : a.listOperands())
      if (tensor.isTensor())
        operands.emplace_back(tensor.view, a.batch.size(), memory);
    for (Which which : {Key, Value, Dkey, Dvalue})
      if (a.grouped && which < operands.size())
        operands[which].share();
  }

  void run(const ExecutionContext &context) override {
    for (Operand &operand : operands)
      operand.startAt(context.iteration);
    std::int64_t groups = 1, heads = a.grouped ? a.batch.back() : 1;
    for (std::int64_t size : a.batch)
      groups *= size;
    groups /= heads;
    context.team->parallelFor(
        context.threads, groups, [&](std::int64_t number, unsigned) {
          if (a.gradients)
            return computeGradients(number * heads, heads);
          for (std::int64_t head = 0; head < heads; ++head)
            compute(split(number * heads + head));
        });
  }
  std::string getImplementation() const override { return "own"; }

private:
  enum Which { Query, Key, Value, Y, Lse, Dy, Dquery, Dkey, Dvalue };
  using Head = std::span<const std::int64_t>;

  std::vector<std::int64_t> split(std::int64_t number) const {
    std::vector<std::int64_t> head(a.batch.size());
    for (std::size_t axis = head.size(); axis-- > 0;) {
      head[axis] = number % a.batch[axis];
      number /= a.batch[axis];
    }
    return head;
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

  void compute(Head head) const;
  /// Computes the gradients of `count` heads that share key and value.
  void computeGradients(std::int64_t first, std::int64_t count) const;
  void addGradients(Head head, Matrix &dkey, Matrix &dvalue) const;

  Attention a;
  float scale;
  std::vector<Operand> operands;
};
} // namespace

void AttentionOperation::compute(Head head) const {
  Matrix query = read(Query, head, a.queries, a.depth),
         key = read(Key, head, a.keys, a.depth),
         value = read(Value, head, a.keys, a.width);
  Matrix y(a.queries, a.width), lse(a.queries, 1);
  std::vector<float> scores(static_cast<std::size_t>(a.keys));
  for (std::int64_t i = 0; i < a.queries; ++i) {
    std::span<float> row(scores.data(),
                         static_cast<std::size_t>(countVisible(i)));
    float maximum = -std::numeric_limits<float>::infinity(), total = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      auto other = static_cast<std::int64_t>(j);
      row[j] = scale * multiply(query[i], key[other], a.depth);
      maximum = std::isnan(row[j]) || row[j] > maximum ? row[j] : maximum;
    }
    for (float score : row)
      total += std::exp(score - maximum);
    *lse[i] = maximum + std::log(total);
    for (std::size_t j = 0; j < row.size(); ++j)
      add(round(std::exp(row[j] - *lse[i])),
          value[static_cast<std::int64_t>(j)], y[i], a.width);
  }
  operands[Y].write(head, y);
  operands[Lse].write(head, lse);
}

void AttentionOperation::computeGradients(std::int64_t first,
                                          std::int64_t count) const {
  Matrix dkey(a.keys, a.depth), dvalue(a.keys, a.width);
  for (std::int64_t head = 0; head < count; ++head)
    addGradients(split(first + head), dkey, dvalue);
  operands[Dkey].write(split(first), dkey);
  operands[Dvalue].write(split(first), dvalue);
}

void AttentionOperation::addGradients(Head head, Matrix &dkey,
                                      Matrix &dvalue) const {
  Matrix query = read(Query, head, a.queries, a.depth),
         key = read(Key, head, a.keys, a.depth),
         value = read(Value, head, a.keys, a.width),
         y = read(Y, head, a.queries, a.width),
         lse = read(Lse, head, a.queries, 1),
         dy = read(Dy, head, a.queries, a.width);
  Matrix dquery(a.queries, a.depth);
  for (std::int64_t i = 0; i < a.queries; ++i) {
    float inner = multiply(dy[i], y[i], a.width);
    for (std::int64_t j = 0; j < countVisible(i); ++j) {
      float score = scale * multiply(query[i], key[j], a.depth);
      float p = std::exp(score - *lse[i]);
      float dp = multiply(dy[i], value[j], a.width);
      float ds = round(scale * (p * (dp - inner)));
      add(round(p), dy[i], dvalue[j], a.width);
      add(ds, key[j], dquery[i], a.depth);
      add(ds, query[i], dkey[j], a.depth);
    }
  }
  operands[Dquery].write(head, dquery);
}

std::unique_ptr<Operation> binade::createOperation(const Attention &attention,
                                                   const Memory &memory) {
  return std::make_unique<AttentionOperation>(attention, memory);
}
