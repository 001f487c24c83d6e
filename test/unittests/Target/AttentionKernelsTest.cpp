//===- AttentionKernelsTest.cpp - GPU kernels of attention ----------------===//
//
// Compares the kernels with the reference, within its error bounds.
//
//===----------------------------------------------------------------------===//

#include "RecordKernelsTest.h"
#include "binade/IR/Binade.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;

namespace {
struct Case {
  GpuAttention attention;
  std::string why;
};

std::ostream &operator<<(std::ostream &stream, const Case &c) {
  return stream << c.why;
}

enum Which { Query, Key, Values, Y, Lse, Dy, Dquery, Dkey, Dvalue };

class Attention : public RecordKernelsTest,
                  public ::testing::WithParamInterface<Case> {
protected:
  Attention() { context.loadDialect<BinadeDialect, func::FuncDialect>(); }

  const GpuAttention &a = GetParam().attention;

  static bool areKeys(size_t which) {
    return which == Key || which == Values || which == Dkey || which == Dvalue;
  }
  int64_t getRows(size_t which) const {
    return areKeys(which) ? a.keys : a.queries;
  }
  std::vector<int64_t> getBatch(size_t which) const {
    std::vector<int64_t> batch = a.batch;
    if (a.grouped && areKeys(which))
      batch.back() = 1;
    return batch;
  }
  int64_t getColumns(size_t which) const {
    if (which == Lse)
      return 1;
    bool isDeep =
        which == Query || which == Key || which == Dquery || which == Dkey;
    return isDeep ? a.depth : a.width;
  }
  RankedTensorType getType(size_t which) {
    SmallVector<int64_t> shape;
    llvm::append_range(shape, getBatch(which));
    shape.push_back(getRows(which));
    if (which != Lse)
      shape.push_back(getColumns(which));
    return RankedTensorType::get(
        shape, getElementType(&context, a.tensors[which].dtype));
  }

  /// Returns the position in memory of each element of a tensor.
  std::vector<int64_t> listPlaces(size_t which) const;
  std::vector<char> place(size_t which, const Tensor &tensor);
  TensorRef take(size_t which, const std::vector<char> &bytes);
  TensorRef drawTensor(size_t which);
  Outputs evaluateOp(ArrayRef<size_t> operands, ArrayRef<size_t> results,
                     ArrayRef<TensorRef> values);
  void expectNear(size_t which, const std::vector<char> &bytes,
                  const Outputs &expected, size_t number);
};

/// Attention without gradients, of several queries with different scores.
class QueriesOfAttention : public Attention {};
} // namespace

std::vector<int64_t> Attention::listPlaces(size_t which) const {
  const GpuAttention::Tensor &tensor = a.tensors[which];
  std::vector<int64_t> places = {0};
  auto spread = [&](int64_t size, int64_t stride) {
    std::vector<int64_t> all;
    for (int64_t place : places)
      for (int64_t i = 0; i < size; ++i)
        all.push_back(place + i * stride);
    places = std::move(all);
  };
  for (auto [size, stride] : llvm::zip(getBatch(which), tensor.batch))
    spread(size, stride);
  spread(getRows(which), tensor.rows);
  spread(getColumns(which), 1);
  return places;
}

/// Stores the elements in memory; the gaps between them are NaN.
std::vector<char> Attention::place(size_t which, const Tensor &tensor) {
  std::vector<int64_t> places = listPlaces(which);
  size_t size = byteSize(a.tensors[which].dtype);
  std::vector<char> dense = tensor.toBytes(),
                    bytes((*llvm::max_element(places) + 1) * size, '\xff');
  for (auto [i, at] : llvm::enumerate(places))
    std::copy_n(dense.begin() + i * size, size, bytes.begin() + at * size);
  return bytes;
}

TensorRef Attention::take(size_t which, const std::vector<char> &bytes) {
  std::vector<double> numbers = read(bytes, a.tensors[which].dtype);
  Tensor tensor(getType(which));
  for (auto [i, at] : llvm::enumerate(listPlaces(which)))
    tensor[i] = numbers[at];
  return std::make_shared<Tensor>(std::move(tensor));
}

TensorRef Attention::drawTensor(size_t which) {
  Tensor tensor(getType(which));
  std::normal_distribution<double> normal;
  for (double &x : tensor.getFloats())
    x = normal(generator);
  tensor.roundElements();
  return std::make_shared<Tensor>(std::move(tensor));
}

Outputs Attention::evaluateOp(ArrayRef<size_t> operands,
                              ArrayRef<size_t> results,
                              ArrayRef<TensorRef> values) {
  std::string text, arguments, types, returned, names;
  auto print = [](Type type) {
    std::string printed;
    llvm::raw_string_ostream(printed) << type;
    return printed;
  };
  auto append = [](std::string &list, const std::string &more) {
    list += (list.empty() ? "" : ", ") + more;
  };
  for (auto [i, which] : llvm::enumerate(operands)) {
    std::string type = print(getType(which)), name = "%a" + std::to_string(i);
    append(arguments, name + ": " + type);
    append(names, name);
    append(types, type);
  }
  std::string made;
  for (auto [i, which] : llvm::enumerate(results)) {
    append(returned, print(getType(which)));
    append(made, "%r" + std::to_string(i));
  }
  llvm::raw_string_ostream(text)
      << "func.func @f(" << arguments << ") -> (" << returned << ") {\n  "
      << made << " = binade.attention"
      << (a.areGradients() && results.size() == 3 ? "_grad " : " ") << names
      << " {scale = " << llvm::format("%.17e", a.scale) << " : f64"
      << (a.causal ? ", causal" : "") << "} : (" << types << ") -> ("
      << returned << ")\n  return " << made << " : " << returned << "\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  NamedTensors inputs;
  for (auto [i, value] : llvm::enumerate(values))
    inputs["arg" + std::to_string(i)] = value;
  EvaluationOptions options;
  options.bounds = true;
  FailureOr<Outputs> outputs = evaluate(*module, "f", inputs, options);
  EXPECT_TRUE(succeeded(outputs));
  return *outputs;
}

void Attention::expectNear(size_t which, const std::vector<char> &bytes,
                           const Outputs &expected, size_t number) {
  std::string name = "result" + std::to_string(number);
  const Tensor &wanted = *expected.values.at(name);
  TensorRef value = take(which, bytes);
  Deviation deviation = compare(*value, wanted, expected.bounds.at(name).get());
  EXPECT_LE(deviation.ratio, 1.0)
      << name << " is " << (*value)[deviation.index] << " at "
      << deviation.index << ", expected " << wanted[deviation.index] << " +- "
      << deviation.bound;
}

TEST_P(Attention, IsWithinTheBoundsOfTheReference) {
  std::vector<TensorRef> tensors;
  for (size_t which : {Query, Key, Values})
    tensors.push_back(drawTensor(which));
  Outputs forward = evaluateOp({Query, Key, Values}, {Y, Lse}, tensors);
  tensors.push_back(forward.values["result0"]);
  tensors.push_back(forward.values["result1"]);
  std::vector<std::vector<char>> memories;
  for (auto [which, tensor] : llvm::enumerate(tensors))
    memories.push_back(place(which, *tensor));
  if (!a.areGradients()) {
    for (size_t which : {Y, Lse})
      llvm::fill(memories[which], '\xff');
  } else {
    tensors.push_back(drawTensor(Dy));
    memories.push_back(place(Dy, *tensors[Dy]));
    for (size_t which : {Dquery, Dkey, Dvalue})
      memories.push_back(place(which, Tensor(getType(which))));
    for (size_t which : {Dquery, Dkey, Dvalue})
      llvm::fill(memories[which], '\xff');
    memories.emplace_back(getWorkspaceBytes(a));
  }
  run(compileGpuAttentions(UnknownLoc::get(&context), a, CudaOptions()),
      memories);
  if (HasFatalFailure())
    return;
  if (!a.areGradients()) {
    expectNear(Y, memories[Y], forward, 0);
    expectNear(Lse, memories[Lse], forward, 1);
    return;
  }
  Outputs backward =
      evaluateOp({Dy, Query, Key, Values, Y, Lse}, {Dquery, Dkey, Dvalue},
                 {tensors[Dy], tensors[Query], tensors[Key], tensors[Values],
                  tensors[Y], tensors[Lse]});
  for (size_t number = 0; number < 3; ++number)
    expectNear(Dquery + number, memories[Dquery + number], backward, number);
}

/// Scores that are not finite: the results of their queries are those of the
/// reference, and so are the results of all other queries.
TEST_P(QueriesOfAttention, ComputesQueriesThatAreNotFinite) {
  std::vector<TensorRef> tensors;
  for (size_t which : {Query, Key, Values}) {
    auto tensor = std::make_shared<Tensor>(*drawTensor(which));
    // Of the first column, keys are positive.
    for (int64_t i = 0; i < tensor->getNumElements(); i += a.depth)
      if (which == Key)
        (*tensor)[i] = std::fabs((*tensor)[i]) + 1;
    for (int64_t row = 0; which == Query && row < 3; ++row)
      (*tensor)[row * a.depth] =
          ArrayRef{-INFINITY, INFINITY, NAN}[static_cast<size_t>(row)];
    tensor->roundElements();
    tensors.push_back(tensor);
  }
  Outputs forward = evaluateOp({Query, Key, Values}, {Y, Lse}, tensors);
  std::vector<std::vector<char>> memories;
  for (auto [which, tensor] : llvm::enumerate(tensors))
    memories.push_back(place(which, *tensor));
  for (size_t which : {Y, Lse})
    memories.push_back(place(which, Tensor(getType(which))));
  run(compileGpuAttentions(UnknownLoc::get(&context), a, CudaOptions()),
      memories);
  if (HasFatalFailure())
    return;
  TensorRef lse = take(Lse, memories[Lse]), y = take(Y, memories[Y]);
  for (int64_t row = 0; row < a.queries; ++row) {
    EXPECT_EQ(std::isnan((*lse)[row]), row < 3) << row;
    EXPECT_EQ(std::isnan((*y)[row * a.width]), row < 3) << row;
  }
  expectNear(Y, memories[Y], forward, 0);
  expectNear(Lse, memories[Lse], forward, 1);
}

namespace {
struct Shape {
  std::vector<int64_t> batch;
  int64_t queries, keys, depth, width;
  bool causal = false, grouped = false;
  std::optional<double> scale = std::nullopt;
};
} // namespace

/// Builds a dense case, or one with interleaved heads and padded rows.
static Case build(const Shape &shape, DType format, DType result, bool backward,
                  int64_t apart, std::string why) {
  GpuAttention a;
  a.format = format;
  a.batch = shape.batch;
  a.queries = shape.queries;
  a.keys = shape.keys;
  a.depth = shape.depth;
  a.width = shape.width;
  a.causal = shape.causal;
  a.grouped = shape.grouped;
  a.scale =
      shape.scale.value_or(1 / std::sqrt(static_cast<double>(shape.depth)));
  auto add = [&](DType dtype, int64_t rows, int64_t columns, bool isStrided,
                 bool areKeys = false) {
    GpuAttention::Tensor tensor{dtype, {}, columns, 16};
    std::vector<int64_t> batch = a.batch;
    bool isShared = a.grouped && areKeys;
    if (isShared)
      batch.back() = 1;
    int64_t stride = rows * columns;
    if (isStrided && !a.batch.empty()) {
      // Heads are the last axis of the batch.
      tensor.rows = batch.back() * columns + apart;
      stride = tensor.rows * rows;
      tensor.batch.assign(a.batch.size(), columns);
      for (size_t axis = a.batch.size() - 1; axis-- > 0;) {
        tensor.batch[axis] = stride;
        stride *= a.batch[axis];
      }
      int64_t bytes = static_cast<int64_t>(byteSize(dtype));
      tensor.alignment = std::gcd<int64_t>(16, apart * bytes);
    } else {
      tensor.batch.assign(a.batch.size(), 0);
      for (size_t axis = a.batch.size(); axis-- > 0;) {
        tensor.batch[axis] = stride;
        stride *= batch[axis];
      }
    }
    if (isShared)
      tensor.batch.back() = 0;
    a.tensors.push_back(tensor);
  };
  bool isStrided = apart >= 0;
  add(format, a.queries, a.depth, isStrided);
  add(format, a.keys, a.depth, isStrided, /*areKeys=*/true);
  add(format, a.keys, a.width, isStrided, /*areKeys=*/true);
  add(result, a.queries, a.width, isStrided);
  add(DType::F32, a.queries, 1, false);
  if (backward) {
    add(format, a.queries, a.width, isStrided);
    add(result, a.queries, a.depth, isStrided);
    add(result, a.keys, a.depth, isStrided, /*areKeys=*/true);
    add(result, a.keys, a.width, isStrided, /*areKeys=*/true);
  }
  return {std::move(a), (backward ? "gradients, " : "") + std::move(why)};
}

static std::vector<Case> getCases() {
  constexpr DType bf16 = DType::BF16, f16 = DType::F16, f32 = DType::F32;
  std::vector<Case> all;
  for (bool backward : {false, true}) {
    auto add = [&](const Shape &shape, DType format, DType result,
                   std::string why, int64_t apart = -1) {
      all.push_back(build(shape, format, result, backward, apart, why));
    };
    add({{}, 64, 64, 16, 16}, bf16, bf16, "one tile");
    add({{}, 64, 64, 64, 64, true}, f16, f16, "one tile, causal");
    add({{2}, 128, 192, 32, 48}, bf16, bf16, "whole tiles");
    add({{2}, 160, 160, 32, 16, true}, bf16, bf16, "causal, half a tile");
    add({{1, 2}, 70, 75, 16, 32}, f16, f32, "rests");
    add({{2, 1}, 67, 67, 48, 32, true}, f16, f32, "causal with a rest");
    add({{}, 1, 1, 16, 16, true}, bf16, bf16, "one score");
    add({{}, 3, 200, 16, 16}, bf16, bf16, "few queries");
    add({{}, 200, 3, 16, 16}, bf16, bf16, "few keys");
    add({{}, 65, 65, 128, 128, true}, bf16, bf16, "wide heads");
    add({{}, 70, 66, 112, 80}, bf16, f16, "columns that do not divide threads");
    add({{2, 3}, 66, 66, 32, 16, true}, bf16, bf16, "interleaved heads", 0);
    add({{2, 2}, 65, 33, 16, 32}, bf16, bf16, "padded rows", 8);
    add({{3}, 20, 40, 32, 16}, f16, f32, "nothing aligned", 3);
    add({{3}, 70, 70, 16, 32, true, true}, bf16, bf16, "shared keys");
    add({{2, 4}, 40, 75, 32, 16, false, true}, f16, f16,
        "shared keys, interleaved heads", 8);
    add({{2}, 300, 300, 64, 64, true}, bf16, bf16, "several blocks, causal");
    add({{2}, 200, 150, 64, 48}, bf16, bf16, "several blocks");
    add({{}, 140, 140, 16, 64, true, false, -2}, f16, f16, "negative scale");
    add({{}, 70, 90, 16, 16, false, false, 0}, bf16, bf16, "scale of 0");
    add({{}, 70, 70, 16, 16, true, false, 0}, bf16, bf16, "scale of 0, causal");
    add({{}, 150, 300, 64, 16, false, false, 4}, bf16, bf16, "large scores");
    add({{}, 70, 300, 128, 16, false, false, 2}, f16, f16,
        "large scores, wide heads");
  }
  return all;
}

static std::vector<Case> drawCases(int count) {
  std::mt19937 generator(31);
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  constexpr DType kTypes[] = {DType::BF16, DType::F16, DType::F32};
  std::vector<Case> all;
  for (int number = 0; number < count; ++number) {
    Shape shape{{draw(1, 2), draw(1, 2)},
                draw(1, 150),
                draw(1, 150),
                16 * draw(1, 4),
                16 * draw(1, 4)};
    shape.causal = draw(0, 1) != 0;
    shape.grouped = number % 4 == 0;
    if (shape.causal)
      shape.keys = shape.queries;
    all.push_back(build(shape, kTypes[draw(0, 1)], kTypes[draw(0, 2)],
                        draw(0, 1) != 0, draw(-1, 1) * 4,
                        "drawn " + std::to_string(number)));
  }
  return all;
}

static std::vector<Case> selectQueries(std::vector<Case> all) {
  std::erase_if(all, [](const Case &c) {
    const GpuAttention &a = c.attention;
    return a.areGradients() || a.queries < 4 || a.scale == 0;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, ::testing::ValuesIn(getCases()));
INSTANTIATE_TEST_SUITE_P(Drawn, Attention, ::testing::ValuesIn(drawCases(16)));
INSTANTIATE_TEST_SUITE_P(Kernels, QueriesOfAttention,
                         ::testing::ValuesIn(selectQueries(getCases())));
INSTANTIATE_TEST_SUITE_P(Drawn, QueriesOfAttention,
                         ::testing::ValuesIn(selectQueries(drawCases(16))));
