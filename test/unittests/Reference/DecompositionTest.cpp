//===- DecompositionTest.cpp - Decompositions against the reference -------===//
//
// The decomposition of an op, evaluated with every intermediate value rounded
// to its type, is a correct implementation of the op. It must stay within the
// error bound of the reference, and this bound must not be too large to be
// useful.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Binade.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace mlir::binade;

/// Draws a tensor for every argument. Values of rank 1 are positive, as for
/// variances; integers are below `limit`.
static NamedTensors drawInputs(func::FuncOp function, int64_t limit) {
  std::mt19937 generator(11);
  std::normal_distribution<double> normal;
  NamedTensors inputs;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Tensor tensor(cast<RankedTensorType>(type));
    for (double &x : tensor.getFloats()) {
      x = 2.0 * normal(generator);
      x = tensor.getRank() == 1 ? std::fabs(x) + 0.5 : x;
    }
    for (int64_t &x : tensor.getIntegers())
      x = generator() % limit;
    tensor.roundElements();
    inputs["arg" + std::to_string(i)] =
        std::make_shared<Tensor>(std::move(tensor));
  }
  return inputs;
}

/// Decomposes every op once. Does not decompose the resulting ops.
static void decompose(ModuleOp module) {
  SmallVector<KernelOpInterface> ops;
  module.walk([&](KernelOpInterface op) { ops.push_back(op); });
  for (KernelOpInterface op : ops) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    FailureOr<SmallVector<Value>> parts = op.decompose(b);
    ASSERT_TRUE(succeeded(parts));
    op->replaceAllUsesWith(*parts);
    op->erase();
  }
  ASSERT_TRUE(succeeded(verify(module)));
}

/// Expects the decomposition of `@f` to stay within the bounds of the
/// reference, and the bounds to be at most `coarse` times the largest
/// magnitude.
static void checkDecomposition(ModuleOp module, int64_t limit, double coarse) {
  auto function = module.lookupSymbol<func::FuncOp>("f");
  NamedTensors inputs = drawInputs(function, limit);
  FailureOr<Outputs> reference =
      evaluate(module, "f", inputs, {.directory = "", .bounds = true});
  ASSERT_TRUE(succeeded(reference));
  decompose(module);
  FailureOr<Outputs> decomposed = evaluate(module, "f", inputs);
  ASSERT_TRUE(succeeded(decomposed));
  for (const auto &[name, expected] : reference->values) {
    const Tensor &bound = *reference->bounds[name];
    const Tensor &actual = *decomposed->values[name];
    Deviation worst = compare(actual, *expected, &bound);
    EXPECT_LE(worst.ratio, 1.0)
        << name << " at " << worst.index << ": "
        << actual.getNumber(worst.index) << ", reference "
        << expected->getNumber(worst.index) << ", bound " << worst.bound;
    double size = 0.0;
    for (int64_t i = 0, count = expected->getNumElements(); i < count; ++i)
      size = std::fmax(size, std::fabs(expected->getNumber(i)));
    EXPECT_LE(*llvm::max_element(bound.getFloats()), coarse * size)
        << "the bound of " << name << " says nothing";
  }
}

namespace {
/// An op and its types. FLOAT is replaced by each tested format.
/// Integers are drawn below `limit`.
struct Example {
  const char *op, *attributes, *operands, *results;
  int64_t limit = 4;
};

class Decomposition : public ::testing::TestWithParam<Example> {
protected:
  /// Prints `func.func @f(operands) -> (results)` that contains the op.
  std::string print(StringRef format) {
    const Example &example = GetParam();
    SmallVector<StringRef> operands, results;
    StringRef(example.operands).split(operands, ", ");
    StringRef(example.results).split(results, ", ");
    std::string arguments, names, returned;
    for (auto [i, type] : llvm::enumerate(operands)) {
      names += (i ? ", %a" : "%a") + std::to_string(i);
      arguments += (i ? ", %a" : "%a") + std::to_string(i) + ": " + type.str();
    }
    for (size_t i = 0; i < results.size(); ++i)
      returned += (i ? ", %r#" : "%r#") + std::to_string(i);
    std::string text =
        llvm::formatv(R"mlir(
          func.func @f({0}) -> ({1}) {{
            %r:{2} = binade.{3} {4} {{{5}} : ({6}) -> ({1})
            return {7} : {1}
          })mlir",
                      arguments, example.results, results.size(), example.op,
                      names, example.attributes, example.operands, returned);
    for (size_t at; (at = text.find("FLOAT")) != std::string::npos;)
      text.replace(at, 5, format);
    return text;
  }
};
} // namespace

TEST_P(Decomposition, StaysWithinTheBound) {
  for (auto [format, coarse] :
       {std::pair("f32", 0x1p-14), {"bf16", 0x1p-3}, {"f16", 0x1p-3}}) {
    SCOPED_TRACE(format);
    MLIRContext context;
    context.loadDialect<BinadeDialect>();
    auto module = parseSourceString<ModuleOp>(print(format), &context);
    ASSERT_TRUE(module) << print(format);
    checkDecomposition(*module, GetParam().limit, coarse);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Decomposition,
    ::testing::Values(
        Example{"softmax", "", "tensor<9x40xFLOAT>", "tensor<9x40xFLOAT>"},
        Example{"softmax_grad", "", "tensor<9x40xFLOAT>, tensor<9x40xFLOAT>",
                "tensor<9x40xFLOAT>"},
        Example{"log_softmax", "", "tensor<9x40xFLOAT>", "tensor<9x40xFLOAT>"},
        Example{"log_softmax_grad", "",
                "tensor<9x40xFLOAT>, tensor<9x40xFLOAT>", "tensor<9x40xFLOAT>"},
        Example{"layer_norm", "epsilon = 1.0e-5 : f64",
                "tensor<9x40xFLOAT>, tensor<40xf32>, tensor<40xf32>",
                "tensor<9x40xFLOAT>, tensor<9xf32>, tensor<9xf32>"},
        Example{"layer_norm_grad", "",
                "tensor<9x40xFLOAT>, tensor<9x40xFLOAT>, tensor<40xf32>, "
                "tensor<9xf32>, tensor<9xf32>",
                "tensor<9x40xFLOAT>"},
        Example{"layer_norm_param_grad", "",
                "tensor<9x40xFLOAT>, tensor<9x40xFLOAT>, tensor<9xf32>, "
                "tensor<9xf32>",
                "tensor<40xf32>, tensor<40xf32>"},
        Example{"batch_norm_statistics", "axis = 1 : i64",
                "tensor<6x3x5xFLOAT>", "tensor<3xf32>, tensor<3xf32>"},
        Example{"batch_norm", "axis = 1 : i64, epsilon = 1.0e-5 : f64",
                "tensor<6x3x5xFLOAT>, tensor<3xf32>, tensor<3xf32>, "
                "tensor<3xf32>, tensor<3xf32>",
                "tensor<6x3x5xFLOAT>"},
        Example{"batch_norm_param_grad",
                "axis = 2 : i64, epsilon = 1.0e-5 : f64",
                "tensor<6x5x3xFLOAT>, tensor<6x5x3xFLOAT>, tensor<3xf32>, "
                "tensor<3xf32>",
                "tensor<3xf32>, tensor<3xf32>"},
        Example{"batch_norm_grad",
                "axis = 1 : i64, training, epsilon = 1.0e-5 : f64",
                "tensor<6x3x5xFLOAT>, tensor<6x3x5xFLOAT>, tensor<3xf32>, "
                "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>",
                "tensor<6x3x5xFLOAT>"},
        Example{
            "attention", "scale = 0.25 : f64, causal",
            "tensor<2x8x16xFLOAT>, tensor<2x8x16xFLOAT>, tensor<2x8x6xFLOAT>",
            "tensor<2x8x6xFLOAT>, tensor<2x8xf32>"},
        Example{"cross_entropy", "ignore_index = 3 : i64",
                "tensor<9x40xFLOAT>, tensor<9xi64>",
                "tensor<9xf32>, tensor<9xf32>, tensor<9xf32>"},
        Example{
            "cross_entropy_grad", "ignore_index = 3 : i64",
            "tensor<9xf32>, tensor<9x40xFLOAT>, tensor<9xi64>, tensor<9xf32>, "
            "tensor<9xf32>",
            "tensor<9x40xFLOAT>"},
        Example{"label_weight", "ignore_index = 3 : i64", "tensor<50xi64>",
                "tensor<f32>"},
        Example{"reduce_mean", "axes = array<i64: 1>", "tensor<9x40xFLOAT>",
                "tensor<9xFLOAT>"},
        Example{"dropout", "ratio = 0.7 : f64, stream = 1 : i64",
                "tensor<9x40xFLOAT>, tensor<2xi64>", "tensor<9x40xFLOAT>"},
        Example{"update_scale",
                "growth = 2.0 : f64, backoff = 0.5 : f64, interval = 3 : i64",
                "tensor<f32>, tensor<i32>, tensor<i1>",
                "tensor<f32>, tensor<i32>"},
        Example{"unscale_factor", "", "tensor<f32>", "tensor<f32>"}),
    [](const auto &info) { return std::string(info.param.op); });

/// The gradient of attention needs results of the forward op: with unrelated
/// random inputs, the recomputed probabilities would not sum to 1.
TEST(AttentionGradDecomposition, StaysWithinTheBound) {
  MLIRContext context;
  context.loadDialect<BinadeDialect>();
  auto module = parseSourceString<ModuleOp>(
      R"mlir(
    func.func @f(%q: tensor<2x8x16xf32>, %k: tensor<2x8x16xf32>,
                 %v: tensor<2x8x6xf32>, %dy: tensor<2x8x6xf32>)
        -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x6xf32>) {
      %y, %lse = binade.attention %q, %k, %v {scale = 0.25 : f64, causal}
        : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x6xf32>)
          -> (tensor<2x8x6xf32>, tensor<2x8xf32>)
      %g:3 = binade.attention_grad %dy, %q, %k, %v, %y, %lse
          {scale = 0.25 : f64, causal}
        : (tensor<2x8x6xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>,
           tensor<2x8x6xf32>, tensor<2x8x6xf32>, tensor<2x8xf32>)
          -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x6xf32>)
      return %g#0, %g#1, %g#2
        : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x6xf32>
    })mlir",
      &context);
  ASSERT_TRUE(module);
  checkDecomposition(*module, 4, 0x1p-12);
}
