//===- ReductionKernelsTest.cpp - Column and full reductions --------------===//

#include "KernelTest.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Numbers of rows and columns, with enough rows for several partial results.
class Matrix : public KernelTest,
               public ::testing::WithParamInterface<std::pair<int, int>> {
protected:
  std::string with(std::string text, StringRef element = "f32") {
    auto replace = [&](StringRef what, const std::string &by) {
      for (size_t at; (at = text.find(what.str())) != std::string::npos;)
        text.replace(at, what.size(), by);
    };
    replace("$R", std::to_string(GetParam().first));
    replace("$C", std::to_string(GetParam().second));
    replace("$T", element.str());
    return text;
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(
    Kernels, Matrix,
    ::testing::Values(std::pair(1, 1), std::pair(5, 3), std::pair(700, 8),
                      std::pair(129, 17), std::pair(300, 100),
                      std::pair(257, 257), std::pair(70, 2100)));

TEST_P(Matrix, ColumnSums) {
  for (StringRef element : {"f32", "bf16"})
    check(with(R"mlir(
      func.func private @k(%x: tensor<$Rx$Cx$T>) -> (tensor<$Cx$T>, tensor<$Cx$T>)
          attributes {binade.kernel = #binade.schedule<column_reduction>} {
        %s = binade.reduce_sum %x {axes = array<i64: 0>} : (tensor<$Rx$Cx$T>) -> tensor<$Cx$T>
        %m = binade.reduce_max %x {axes = array<i64: 0>} : (tensor<$Rx$Cx$T>) -> tensor<$Cx$T>
        return %s, %m : tensor<$Cx$T>, tensor<$Cx$T>
      })mlir",
               element));
}

TEST_P(Matrix, LayerNormParameterGradients) {
  check(with(R"mlir(
    func.func private @k(%dy: tensor<$Rx$Cxbf16>, %x: tensor<$Rx$Cxbf16>,
                         %m: tensor<$Rxf32>, %r: tensor<$Rxf32>)
        -> (tensor<$Cxf32>, tensor<$Cxf32>)
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %g:2 = binade.layer_norm_param_grad %dy, %x, %m, %r
        : (tensor<$Rx$Cxbf16>, tensor<$Rx$Cxbf16>, tensor<$Rxf32>, tensor<$Rxf32>)
        -> (tensor<$Cxf32>, tensor<$Cxf32>)
      return %g#0, %g#1 : tensor<$Cxf32>, tensor<$Cxf32>
    })mlir"));
}

TEST_P(Matrix, ChannelsLastStatistics) {
  for (StringRef element : {"f32", "bf16"})
    check(with(R"mlir(
      func.func private @k(%x: tensor<2x$Rx$Cx$T>) -> (tensor<$Cxf32>, tensor<$Cxf32>)
          attributes {binade.kernel = #binade.schedule<column_reduction>} {
        %y:2 = binade.batch_norm_statistics %x {axis = 2 : i64}
          : (tensor<2x$Rx$Cx$T>) -> (tensor<$Cxf32>, tensor<$Cxf32>)
        return %y#0, %y#1 : tensor<$Cxf32>, tensor<$Cxf32>
      })mlir",
               element));
}

TEST_P(Matrix, ChannelsLastGradients) {
  check(with(R"mlir(
    func.func private @k(%dy: tensor<2x$Rx$Cxbf16>, %x: tensor<2x$Rx$Cxbf16>,
                         %m: tensor<$Cxf32>, %v: tensor<$Cxf32>)
        -> (tensor<$Cxf32>, tensor<$Cxf32>)
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %vv = binade.mul %v, %v : (tensor<$Cxf32>, tensor<$Cxf32>) -> tensor<$Cxf32>
      %y:2 = binade.batch_norm_param_grad %dy, %x, %m, %vv {epsilon = 1.0e-5 : f64, axis = 2 : i64}
        : (tensor<2x$Rx$Cxbf16>, tensor<2x$Rx$Cxbf16>, tensor<$Cxf32>, tensor<$Cxf32>)
        -> (tensor<$Cxf32>, tensor<$Cxf32>)
      return %y#0, %y#1 : tensor<$Cxf32>, tensor<$Cxf32>
    })mlir"));
}

// Sums over the middle axis: a batch of matrices.
TEST_P(Matrix, BatchedColumns) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x$Rx$Cxf32>) -> tensor<3x$Cxf32>
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %s = binade.reduce_mean %x {axes = array<i64: 1>} : (tensor<3x$Rx$Cxf32>) -> tensor<3x$Cxf32>
      return %s : tensor<3x$Cxf32>
    })mlir"));
}

// Each element is divided by the sum of its column, which needs all rows.
TEST_P(Matrix, SoftmaxOfColumns) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<2x$Rx$Cxf32>) -> (tensor<2x$Rx$Cxf32>, tensor<2x$Cxbf16>)
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %m = binade.reduce_max %x {axes = array<i64: 1>} : (tensor<2x$Rx$Cxf32>) -> tensor<2x$Cxf32>
      %mb = binade.broadcast %m {axes = array<i64: 0, 2>} : (tensor<2x$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %c = binade.sub %x, %mb : (tensor<2x$Rx$Cxf32>, tensor<2x$Rx$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %e = binade.exp %c : (tensor<2x$Rx$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %s = binade.reduce_sum %e {axes = array<i64: 1>} : (tensor<2x$Rx$Cxf32>) -> tensor<2x$Cxf32>
      %sb = binade.broadcast %s {axes = array<i64: 0, 2>} : (tensor<2x$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %y = binade.div %e, %sb : (tensor<2x$Rx$Cxf32>, tensor<2x$Rx$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %h = binade.cast %s : (tensor<2x$Cxf32>) -> tensor<2x$Cxbf16>
      return %y, %h : tensor<2x$Rx$Cxf32>, tensor<2x$Cxbf16>
    })mlir"));
}

TEST_P(Matrix, FullReductionWithElementwiseResult) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<2x$Rx$Cxf32>, %b: tensor<$Cxf32>)
        -> (tensor<f32>, tensor<f32>, tensor<2x$Rx$Cxf32>)
        attributes {binade.kernel = #binade.schedule<full_reduction>} {
      %bb = binade.broadcast %b {axes = array<i64: 2>} : (tensor<$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %p = binade.mul %x, %bb : (tensor<2x$Rx$Cxf32>, tensor<2x$Rx$Cxf32>) -> tensor<2x$Rx$Cxf32>
      %s = binade.reduce_mean %p {axes = array<i64: 0, 1, 2>} : (tensor<2x$Rx$Cxf32>) -> tensor<f32>
      %m = binade.reduce_max %x {axes = array<i64: 0, 1, 2>} : (tensor<2x$Rx$Cxf32>) -> tensor<f32>
      return %s, %m, %p : tensor<f32>, tensor<f32>, tensor<2x$Rx$Cxf32>
    })mlir"));
}

// With a large mean, a variance that is computed from a sum of squares in f32
// would lose all its bits to cancellation.
TEST_F(KernelTest, VarianceFarFromZero) {
  Tensor x(RankedTensorType::get({900, 8}, Float32Type::get(&context)));
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    x[i] = 10000.0 + 0.5 * ((i / 8) % 2);
  parse(R"mlir(
    func.func private @k(%x: tensor<900x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %y:2 = binade.batch_norm_statistics %x {axis = 1 : i64}
        : (tensor<900x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      return %y#0, %y#1 : tensor<8xf32>, tensor<8xf32>
    })mlir");
  CpuOptions options;
  FailureOr<CompiledKernels> compiled = compileKernels(*module, options);
  ASSERT_TRUE(succeeded(compiled)) << message;
  LoadedKernels loaded(*compiled);
  auto results = run(loaded, loaded.kernels.front(),
                     module->lookupSymbol<func::FuncOp>("k"),
                     {std::make_shared<Tensor>(x)}, 1);
  auto *mean = reinterpret_cast<const float *>(results[0].data());
  auto *variance = reinterpret_cast<const float *>(results[1].data());
  for (int column = 0; column < 8; ++column) {
    EXPECT_EQ(mean[column], 10000.25f);
    EXPECT_FLOAT_EQ(variance[column], 0.0625f);
  }
}

TEST_F(KernelTest, WeightOfLabels) {
  check(R"mlir(
    func.func private @k(%t: tensor<40000xi64>) -> tensor<f32>
        attributes {binade.kernel = #binade.schedule<full_reduction>} {
      %w = binade.label_weight %t {ignore_index = 2 : i64} : (tensor<40000xi64>) -> tensor<f32>
      return %w : tensor<f32>
    })mlir",
        {}, 5);
}
