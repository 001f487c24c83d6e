//===- RowKernelsTest.cpp - Elementwise kernels and row reductions --------===//

#include "KernelTest.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// Row lengths around that of a vector, with and without a partial last vector.
class RowLength : public KernelTest,
                  public ::testing::WithParamInterface<int64_t> {
protected:
  /// Replaces $N by the row length and $T by `element`.
  std::string with(std::string text, StringRef element = "f32") {
    auto replace = [&](StringRef what, const std::string &by) {
      for (size_t at; (at = text.find(what.str())) != std::string::npos;)
        text.replace(at, what.size(), by);
    };
    replace("$N", std::to_string(GetParam()));
    replace("$T", element.str());
    return text;
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, RowLength,
                         ::testing::Values(1, 3, 16, 17, 100, 257));

TEST_P(RowLength, Elementwise) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x$Nxf32>, %y: tensor<3x$Nxf32>,
                         %bias: tensor<$Nxf32>) -> tensor<3x$Nxf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %b = binade.broadcast %bias {axes = array<i64: 1>}
         : (tensor<$Nxf32>) -> tensor<3x$Nxf32>
      %s = binade.add %x, %b : (tensor<3x$Nxf32>, tensor<3x$Nxf32>) -> tensor<3x$Nxf32>
      %g = binade.gelu %s : (tensor<3x$Nxf32>) -> tensor<3x$Nxf32>
      %p = binade.mul %g, %y : (tensor<3x$Nxf32>, tensor<3x$Nxf32>) -> tensor<3x$Nxf32>
      return %p : tensor<3x$Nxf32>
    })mlir"));
}

TEST_P(RowLength, LayerNorm) {
  for (StringRef element : {"f32", "bf16", "f16"})
    check(with(R"mlir(
      func.func private @k(%x: tensor<5x$Nx$T>, %s: tensor<$Nxf32>, %b: tensor<$Nxf32>)
          -> (tensor<5x$Nx$T>, tensor<5xf32>, tensor<5xf32>)
          attributes {binade.kernel = #binade.schedule<row_reduction>} {
        %y:3 = binade.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64}
          : (tensor<5x$Nx$T>, tensor<$Nxf32>, tensor<$Nxf32>)
          -> (tensor<5x$Nx$T>, tensor<5xf32>, tensor<5xf32>)
        return %y#0, %y#1, %y#2 : tensor<5x$Nx$T>, tensor<5xf32>, tensor<5xf32>
      })mlir",
               element));
}

TEST_P(RowLength, Softmax) {
  for (StringRef element : {"f32", "bf16"})
    check(with(R"mlir(
      func.func private @k(%x: tensor<2x3x$Nx$T>) -> tensor<2x3x$Nx$T>
          attributes {binade.kernel = #binade.schedule<row_reduction>} {
        %y = binade.softmax %x : (tensor<2x3x$Nx$T>) -> tensor<2x3x$Nx$T>
        return %y : tensor<2x3x$Nx$T>
      })mlir",
               element));
}

TEST_P(RowLength, SoftmaxGradients) {
  check(with(R"mlir(
    func.func private @k(%dy: tensor<4x$Nxbf16>, %y: tensor<4x$Nxbf16>)
        -> (tensor<4x$Nxbf16>, tensor<4x$Nxbf16>)
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %a = binade.softmax_grad %dy, %y
         : (tensor<4x$Nxbf16>, tensor<4x$Nxbf16>) -> tensor<4x$Nxbf16>
      %b = binade.log_softmax_grad %dy, %y
         : (tensor<4x$Nxbf16>, tensor<4x$Nxbf16>) -> tensor<4x$Nxbf16>
      return %a, %b : tensor<4x$Nxbf16>, tensor<4x$Nxbf16>
    })mlir"));
}

TEST_P(RowLength, LogSoftmax) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<4x$Nxf32>) -> tensor<4x$Nxf32>
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %y = binade.log_softmax %x : (tensor<4x$Nxf32>) -> tensor<4x$Nxf32>
      return %y : tensor<4x$Nxf32>
    })mlir"));
}

TEST_P(RowLength, LayerNormGradient) {
  check(with(R"mlir(
    func.func private @k(%dy: tensor<4x$Nxbf16>, %x: tensor<4x$Nxbf16>, %s: tensor<$Nxf32>,
                         %m: tensor<4xf32>, %r: tensor<4xf32>) -> tensor<4x$Nxbf16>
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %dx = binade.layer_norm_grad %dy, %x, %s, %m, %r
         : (tensor<4x$Nxbf16>, tensor<4x$Nxbf16>, tensor<$Nxf32>, tensor<4xf32>, tensor<4xf32>)
         -> tensor<4x$Nxbf16>
      return %dx : tensor<4x$Nxbf16>
    })mlir"));
}

TEST_P(RowLength, CrossEntropy) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<6x$Nxbf16>, %t: tensor<6xi64>)
        -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %y:3 = binade.cross_entropy %x, %t {ignore_index = -100 : i64}
         : (tensor<6x$Nxbf16>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
      return %y#0, %y#1, %y#2 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
    })mlir"),
        {}, GetParam());
}

TEST_P(RowLength, CrossEntropyGradient) {
  check(with(R"mlir(
    func.func private @k(%g: tensor<6xf32>, %x: tensor<6x$Nxbf16>, %t: tensor<6xi64>,
                         %maximum: tensor<6xf32>, %logarithm: tensor<6xf32>) -> tensor<6x$Nxbf16>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %dx = binade.cross_entropy_grad %g, %x, %t, %maximum, %logarithm {ignore_index = -100 : i64}
         : (tensor<6xf32>, tensor<6x$Nxbf16>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x$Nxbf16>
      return %dx : tensor<6x$Nxbf16>
    })mlir"),
        {}, GetParam());
}

// A narrow intermediate value is rounded although it is not stored.
TEST_P(RowLength, RoundsIntermediateValues) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x$Nxbf16>, %y: tensor<3x$Nxbf16>) -> tensor<3x$Nxf32>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %s = binade.mul %x, %y : (tensor<3x$Nxbf16>, tensor<3x$Nxbf16>) -> tensor<3x$Nxbf16>
      %d = binade.add %s, %x : (tensor<3x$Nxbf16>, tensor<3x$Nxbf16>) -> tensor<3x$Nxbf16>
      %w = binade.cast %d : (tensor<3x$Nxbf16>) -> tensor<3x$Nxf32>
      return %w : tensor<3x$Nxf32>
    })mlir"));
}

// The sum with the residual is both a result and the input of the reductions.
TEST_P(RowLength, ResidualAndLayerNorm) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<5x$Nxf32>, %y: tensor<5x$Nxbf16>, %s: tensor<$Nxf32>)
        -> (tensor<5x$Nxf32>, tensor<5x$Nxbf16>, tensor<5xf32>)
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %w = binade.cast %y : (tensor<5x$Nxbf16>) -> tensor<5x$Nxf32>
      %r = binade.add %x, %w : (tensor<5x$Nxf32>, tensor<5x$Nxf32>) -> tensor<5x$Nxf32>
      %n:3 = binade.layer_norm %r, %s {epsilon = 1.0e-5 : f64}
        : (tensor<5x$Nxf32>, tensor<$Nxf32>)
        -> (tensor<5x$Nxf32>, tensor<5xf32>, tensor<5xf32>)
      %h = binade.cast %n#0 : (tensor<5x$Nxf32>) -> tensor<5x$Nxbf16>
      return %r, %h, %n#2 : tensor<5x$Nxf32>, tensor<5x$Nxbf16>, tensor<5xf32>
    })mlir"));
}

TEST_P(RowLength, Dropout) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x$Nxbf16>, %rng: tensor<2xi64>) -> tensor<3x$Nxbf16>
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %y = binade.dropout %x, %rng {ratio = 0.3 : f64, stream = 5 : i64}
         : (tensor<3x$Nxbf16>, tensor<2xi64>) -> tensor<3x$Nxbf16>
      return %y : tensor<3x$Nxbf16>
    })mlir"),
        {}, int64_t(1) << 40);
}

// Each work item is a channel; it sums over the batch and the channel's rows.
TEST_P(RowLength, ChannelStatistics) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<4x3x2x$Nxf32>) -> (tensor<3xf32>, tensor<3xf32>)
        attributes {binade.kernel = #binade.schedule<column_reduction>} {
      %y:2 = binade.batch_norm_statistics %x {axis = 1 : i64}
         : (tensor<4x3x2x$Nxf32>) -> (tensor<3xf32>, tensor<3xf32>)
      return %y#0, %y#1 : tensor<3xf32>, tensor<3xf32>
    })mlir"));
}

TEST_P(RowLength, BatchNorm) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<4x3x$Nxf32>, %s: tensor<3xf32>, %b: tensor<3xf32>,
                         %m: tensor<3xf32>, %v: tensor<3xf32>, %dy: tensor<4x3x$Nxf32>)
        -> (tensor<4x3x$Nxf32>, tensor<4x3x$Nxf32>)
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %vv = binade.mul %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %y = binade.batch_norm %x, %s, %b, %m, %vv {epsilon = 1.0e-5 : f64, axis = 1 : i64, training}
         : (tensor<4x3x$Nxf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
         -> tensor<4x3x$Nxf32>
      %dx = binade.batch_norm_grad %dy, %x, %s, %m, %vv, %s, %b
            {epsilon = 1.0e-5 : f64, axis = 1 : i64, training}
         : (tensor<4x3x$Nxf32>, tensor<4x3x$Nxf32>, tensor<3xf32>, tensor<3xf32>,
            tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x$Nxf32>
      return %y, %dx : tensor<4x3x$Nxf32>, tensor<4x3x$Nxf32>
    })mlir"));
}

TEST_F(KernelTest, LongRowsInBlocks) {
  check(R"mlir(
    func.func private @k(%x: tensor<3x8191xf32>, %y: tensor<3x8191xbf16>)
        -> (tensor<3x8191xbf16>, tensor<3x8191xi1>)
        attributes {binade.kernel = #binade.schedule<elementwise>} {
      %w = binade.cast %y : (tensor<3x8191xbf16>) -> tensor<3x8191xf32>
      %s = binade.div %x, %w : (tensor<3x8191xf32>, tensor<3x8191xf32>) -> tensor<3x8191xf32>
      %c = binade.compare %s, %x {comparison = #binade.comparison<less>}
         : (tensor<3x8191xf32>, tensor<3x8191xf32>) -> tensor<3x8191xi1>
      %h = binade.cast %s : (tensor<3x8191xf32>) -> tensor<3x8191xbf16>
      return %h, %c : tensor<3x8191xbf16>, tensor<3x8191xi1>
    })mlir");
}

// A label out of range is reported unless it is the ignored label. The losses
// of the other rows do not change.
TEST_F(KernelTest, LabelsAreChecked) {
  const char *text = R"mlir(
    func.func private @k(%x: tensor<4x37xf32>, %t: tensor<4xi64>) -> tensor<4xf32>
        attributes {binade.kernel = #binade.schedule<row_reduction>} {
      %y:3 = binade.cross_entropy %x, %t {ignore_index = -100 : i64}
         : (tensor<4x37xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      return %y#0 : tensor<4xf32>
    })mlir";
  TensorRef logits =
      draw(RankedTensorType::get({4, 37}, Float32Type::get(&context)));
  auto labels = [&](ArrayRef<int64_t> values) {
    Tensor tensor(RankedTensorType::get({4}, IntegerType::get(&context, 64)));
    llvm::copy(values, tensor.getIntegers().begin());
    return std::make_shared<Tensor>(tensor);
  };
  EXPECT_EQ(check(text, {logits, labels({0, 36, -100, 5})}), 0);

  auto compute = [&](ArrayRef<int64_t> values) {
    status = 0;
    parse(text);
    FailureOr<CompiledKernels> compiled = compileKernels(*module, CpuOptions());
    EXPECT_TRUE(succeeded(compiled)) << message;
    LoadedKernels loaded(*compiled);
    std::vector<char> bytes = run(loaded, loaded.kernels.front(),
                                  module->lookupSymbol<func::FuncOp>("k"),
                                  {logits, labels(values)}, 1)
                                  .front();
    return std::vector<char>(bytes.begin(), bytes.begin() + 8);
  };
  std::vector<char> expected = compute({3, 7, 0, 0});
  EXPECT_EQ(status, 0);
  for (int64_t bad : {int64_t(37), int64_t(-1), INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(compute({3, 7, bad, 0}), expected);
    EXPECT_EQ(status, 1) << bad;
  }
}
