//===- AttentionExtrasTest.cpp - Masks, biases, soft caps and dropout -----===//
//
// Compares GPU kernels with the reference, within its error bounds. What
// dropout drops is exact.
//
//===----------------------------------------------------------------------===//

#include "AttentionExtrasCases.h"
#include "RecordKernelsTest.h"
#include "binade/IR/Binade.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::DType;
using Sizes = std::vector<int64_t>;

namespace {
/// A tensor of the op, and what the kernel reads or writes.
struct Argument {
  TensorRef tensor;
  std::vector<char> bytes;
};

class AttentionExtras : public RecordKernelsTest,
                        public ::testing::WithParamInterface<ExtrasCase> {
protected:
  AttentionExtras() {
    context.loadDialect<BinadeDialect, func::FuncDialect>();
    a.format = DType::BF16;
    a.batch = c.batch;
    a.queries = c.queries;
    a.keys = c.keys;
    a.depth = c.depth;
    a.width = c.width;
    a.scale = c.scale;
    a.causal = c.causal;
    a.grouped = c.grouped;
    a.extras.softcap = c.softcap;
    a.extras.fill = c.fill;
    a.extras.zeroHidden = c.zeroHidden;
    a.extras.zeroNan = c.zeroNan;
    if (c.ratio != 0)
      a.extras.dropout = {c.ratio, kStream};
  }

  static constexpr int64_t kStream = 7;

  Sizes getShape(bool areKeys, int64_t columns) const {
    Sizes shape = c.batch;
    if (c.grouped && areKeys)
      shape.back() = 1;
    shape.insert(shape.end(), {areKeys ? c.keys : c.queries, columns});
    return shape;
  }
  /// Returns the strides of a dense tensor, 0 along axes of size 1.
  static GpuAttention::Tensor describe(const Sizes &shape, DType dtype) {
    GpuAttention::Tensor tensor{dtype, shape, 1, 16, 1};
    Sizes strides(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis])
      strides[axis] = shape[axis] == 1 ? 0 : stride;
    tensor.batch.assign(strides.begin(), strides.end() - 2);
    tensor.rows = strides[shape.size() - 2];
    tensor.columns = strides.back();
    return tensor;
  }
  GpuAttention::Tensor describeRows(const Sizes &shape, DType dtype) const {
    GpuAttention::Tensor tensor = describe(shape, dtype);
    tensor.rows = shape.back();
    tensor.columns = 1;
    return tensor;
  }

  Argument add(const Sizes &shape, Type element,
               llvm::function_ref<void(Tensor &)> fill) {
    Tensor tensor(RankedTensorType::get(shape, element));
    fill(tensor);
    tensor.roundElements();
    std::vector<char> bytes = tensor.toBytes();
    return {std::make_shared<Tensor>(std::move(tensor)), std::move(bytes)};
  }
  Argument draw(const Sizes &shape, DType dtype) {
    return add(shape, getElementType(&context, dtype), [&](Tensor &tensor) {
      std::normal_distribution<double> normal;
      for (double &x : tensor.getFloats())
        x = normal(generator);
    });
  }
  std::vector<Argument> drawExtras();
  /// Evaluates an op on tensors by the reference.
  Outputs evaluateOp(bool areGradients, ArrayRef<TensorRef> operands,
                     ArrayRef<Type> results);
  void expectNear(const Outputs &expected, unsigned number,
                  const std::vector<char> &bytes);

  const ExtrasCase &c = GetParam();
  GpuAttention a;
};
} // namespace

std::vector<Argument> AttentionExtras::drawExtras() {
  std::vector<Argument> extras;
  for (const Sizes &shape : c.biases) {
    a.extras.biases.push_back(describe(shape, c.bias));
    Argument &bias = extras.emplace_back(draw(shape, c.bias));
    if (!c.hugeBias || shape[shape.size() - 2] == 1)
      continue;
    Tensor huge = *bias.tensor;
    std::fill_n(huge.getFloats().begin() + shape.back(), shape.back(),
                *c.hugeBias);
    huge.roundElements();
    bias = {std::make_shared<Tensor>(huge), huge.toBytes()};
  }
  if (!c.mask.empty()) {
    a.extras.mask = describe(c.mask, DType::BOOL);
    extras.push_back(add(c.mask, IntegerType::get(&context, 1), [&](Tensor &t) {
      std::bernoulli_distribution isVisible(0.7);
      for (int64_t &x : t.getIntegers())
        x = isVisible(generator);
      // The first row is hidden.
      std::fill_n(t.getIntegers().begin(), c.mask.back(), 0);
    }));
  }
  if (c.ratio != 0)
    extras.push_back(add({2}, IntegerType::get(&context, 64), [](Tensor &t) {
      t.getIntegers()[0] = 0x123456789abcdef;
      t.getIntegers()[1] = 41;
    }));
  return extras;
}

Outputs AttentionExtras::evaluateOp(bool areGradients,
                                    ArrayRef<TensorRef> operands,
                                    ArrayRef<Type> results) {
  ImplicitLocOpBuilder b(UnknownLoc::get(&context), &context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  auto types = llvm::map_to_vector(operands, [](const TensorRef &tensor) {
    return Type(tensor->getType());
  });
  auto function =
      func::FuncOp::create(b, "f", b.getFunctionType(types, results));
  b.setInsertionPointToStart(function.addEntryBlock());
  SmallVector<int32_t> segments(areGradients ? 6 : 3, 1);
  for (size_t count :
       {c.biases.size(), size_t(!c.mask.empty()), size_t(c.ratio != 0)})
    segments.push_back(static_cast<int32_t>(count));
  NamedAttrList attributes;
  attributes.set("operandSegmentSizes", b.getDenseI32ArrayAttr(segments));
  attributes.set("scale", b.getF64FloatAttr(c.scale));
  attributes.set("softcap", b.getF64FloatAttr(c.softcap));
  attributes.set("fill", b.getF64FloatAttr(c.fill));
  attributes.set("ratio", b.getF64FloatAttr(c.ratio));
  attributes.set("stream", b.getI64IntegerAttr(c.ratio != 0 ? kStream : 0));
  for (auto [name, isSet] :
       {std::pair("causal", c.causal), std::pair("zero_hidden", c.zeroHidden),
        std::pair("zero_nan", c.zeroNan)})
    if (isSet)
      attributes.set(name, b.getUnitAttr());
  ValueRange values = function.getArguments();
  // Gradients of all biases are results of the op.
  SmallVector<Type> all(results);
  if (areGradients)
    all.append(types.begin() + 3 + results.size(),
               types.begin() + 6 + c.biases.size());
  Operation *op =
      areGradients
          ? AttentionGradOp::create(b, all, values, attributes).getOperation()
          : AttentionOp::create(b, all, values, attributes).getOperation();
  func::ReturnOp::create(b, op->getResults().take_front(results.size()));
  EXPECT_TRUE(succeeded(mlir::verify(*module)));
  NamedTensors inputs;
  for (auto [i, operand] : llvm::enumerate(operands))
    inputs["arg" + std::to_string(i)] = operand;
  EvaluationOptions options;
  options.bounds = true;
  FailureOr<Outputs> outputs = evaluate(*module, "f", inputs, options);
  EXPECT_TRUE(succeeded(outputs));
  return *outputs;
}

void AttentionExtras::expectNear(const Outputs &expected, unsigned number,
                                 const std::vector<char> &bytes) {
  std::string name = "result" + std::to_string(number);
  const Tensor &wanted = *expected.values.at(name);
  Tensor found = *Tensor::fromBytes(wanted.getType(), bytes);
  Deviation deviation = compare(found, wanted, expected.bounds.at(name).get());
  EXPECT_LE(deviation.ratio, 1.0)
      << name << " is " << found[deviation.index] << " at " << deviation.index
      << ", expected " << wanted[deviation.index] << " +- " << deviation.bound;
}

TEST_P(AttentionExtras, AreWithinTheBoundsOfTheReference) {
  Sizes ofQuery = getShape(false, c.depth), ofKey = getShape(true, c.depth),
        ofValue = getShape(true, c.width), ofY = getShape(false, c.width),
        ofLse = c.batch;
  ofLse.push_back(c.queries);
  std::vector<Argument> all;
  for (const Sizes &shape : {ofQuery, ofKey, ofValue, ofY}) {
    a.tensors.push_back(describeRows(shape, DType::BF16));
    all.push_back(draw(shape, DType::BF16));
  }
  Sizes columns = ofLse;
  columns.push_back(1);
  a.tensors.push_back(describeRows(columns, DType::F32));
  all.push_back(draw(ofLse, DType::F32));
  std::vector<Argument> extras = drawExtras(), dbiases;
  auto getTensors = [&](ArrayRef<Argument> arguments) {
    std::vector<TensorRef> tensors;
    for (const Argument &argument : arguments)
      tensors.push_back(argument.tensor);
    for (const Argument &extra : extras)
      tensors.push_back(extra.tensor);
    return tensors;
  };
  auto compute = [&](std::vector<Argument> &own) {
    std::vector<std::vector<char>> memories;
    for (const Argument &argument : own)
      memories.push_back(argument.bytes);
    for (const Argument &extra : extras)
      memories.push_back(extra.bytes);
    size_t firstBias = memories.size();
    for (Argument &dbias : dbiases)
      memories.push_back(dbias.bytes);
    if (a.areGradients())
      memories.emplace_back(getWorkspaceBytes(a), '\xff');
    run(compileGpuAttentions(UnknownLoc::get(&context), a, CudaOptions()),
        memories);
    for (size_t i = 0; i < own.size(); ++i)
      own[i].bytes = memories[i];
    for (auto [i, dbias] : llvm::enumerate(dbiases))
      dbias.bytes = memories[firstBias + i];
  };
  auto getTypes = [](ArrayRef<Argument> arguments) {
    return llvm::map_to_vector(arguments, [](const Argument &argument) -> Type {
      return argument.tensor->getType();
    });
  };
  Outputs forward = evaluateOp(false, getTensors(ArrayRef(all).take_front(3)),
                               getTypes(ArrayRef(all).drop_front(3)));
  compute(all);
  if (HasFatalFailure())
    return;
  for (unsigned number : {0u, 1u}) {
    expectNear(forward, number, all[3 + number].bytes);
    TensorRef exact = forward.values["result" + std::to_string(number)];
    all[3 + number] = {exact, exact->toBytes()};
  }
  for (const Sizes &shape : {ofY, ofQuery, ofKey, ofValue}) {
    a.tensors.push_back(describeRows(shape, DType::BF16));
    all.push_back(draw(shape, DType::BF16));
  }
  std::vector<Argument> operands = {all[5]};
  operands.insert(operands.end(), all.begin(), all.begin() + 5);
  SmallVector<Type> types = getTypes(ArrayRef(all).drop_front(6));
  for (size_t i = 0; c.needsBiasGradients && i < c.biases.size(); ++i) {
    a.biasGradients.push_back({i, describe(c.biases[i], c.bias)});
    dbiases.push_back(draw(c.biases[i], c.bias));
    types.push_back(dbiases.back().tensor->getType());
  }
  Outputs backward = evaluateOp(true, getTensors(operands), types);
  compute(all);
  if (HasFatalFailure())
    return;
  for (unsigned number : {0u, 1u, 2u})
    expectNear(backward, number, all[6 + number].bytes);
  for (auto [number, dbias] : llvm::enumerate(dbiases))
    expectNear(backward, 3 + static_cast<unsigned>(number), dbias.bytes);
}

INSTANTIATE_TEST_SUITE_P(Dropout, AttentionExtras,
                         ::testing::ValuesIn(getDropoutCases()));
INSTANTIATE_TEST_SUITE_P(Masks, AttentionExtras,
                         ::testing::ValuesIn(getMaskCases()));
INSTANTIATE_TEST_SUITE_P(Biases, AttentionExtras,
                         ::testing::ValuesIn(getBiasCases()));
INSTANTIATE_TEST_SUITE_P(BiasGradients, AttentionExtras,
                         ::testing::ValuesIn(getBiasGradientCases()));
