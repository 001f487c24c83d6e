//===- MovementKernelsTest.cpp - Kernels that move elements ---------------===//

#include "KernelTest.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
class ElementFormat : public KernelTest,
                      public ::testing::WithParamInterface<const char *> {
protected:
  std::string with(std::string text) {
    for (size_t at; (at = text.find("$T")) != std::string::npos;)
      text.replace(at, 2, GetParam());
    return text;
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, ElementFormat,
                         ::testing::Values("f32", "bf16", "f16", "f64", "i64",
                                           "i32", "i1"));

TEST_P(ElementFormat, TransposesMatrices) {
  for (auto [rows, columns] : {std::pair(16, 32), std::pair(33, 50),
                               std::pair(100, 3), std::pair(1, 20)}) {
    std::string from = std::to_string(rows) + "x" + std::to_string(columns),
                to = std::to_string(columns) + "x" + std::to_string(rows);
    check(with("func.func private @k(%x: tensor<2x" + from +
               "x$T>) -> tensor<2x" + to +
               "x$T> attributes {binade.kernel = #binade.schedule<permute>} {\n"
               "%y = binade.transpose %x {permutation = array<i64: 0, 2, 1>} : "
               "(tensor<2x" +
               from + "x$T>) -> tensor<2x" + to +
               "x$T>\n return %y : tensor<2x" + to + "x$T> }"));
  }
}

// Swaps the axes of positions and heads, as attention does.
TEST_P(ElementFormat, TransposesRows) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<2x5x3x20x$T>) -> tensor<2x3x5x20x$T>
        attributes {binade.kernel = #binade.schedule<permute>} {
      %y = binade.transpose %x {permutation = array<i64: 0, 2, 1, 3>}
         : (tensor<2x5x3x20x$T>) -> tensor<2x3x5x20x$T>
      return %y : tensor<2x3x5x20x$T>
    })mlir"));
}

TEST_P(ElementFormat, ReversesAllAxes) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<4x17x18x$T>) -> tensor<18x17x4x$T>
        attributes {binade.kernel = #binade.schedule<permute>} {
      %y = binade.transpose %x {permutation = array<i64: 2, 1, 0>}
         : (tensor<4x17x18x$T>) -> tensor<18x17x4x$T>
      return %y : tensor<18x17x4x$T>
    })mlir"));
}

TEST_P(ElementFormat, Slices) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<7x9x50x$T>) -> (tensor<7x4x50x$T>, tensor<3x9x16x$T>)
        attributes {binade.kernel = #binade.schedule<permute>} {
      %y = binade.slice %x {offsets = array<i64: 0, 1, 0>, strides = array<i64: 1, 2, 1>}
         : (tensor<7x9x50x$T>) -> tensor<7x4x50x$T>
      %z = binade.slice %x {offsets = array<i64: 4, 0, 2>, strides = array<i64: 1, 1, 3>}
         : (tensor<7x9x50x$T>) -> tensor<3x9x16x$T>
      return %y, %z : tensor<7x4x50x$T>, tensor<3x9x16x$T>
    })mlir"));
}

TEST_P(ElementFormat, PadsOuterAxes) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x4x50x$T>) -> tensor<5x9x50x$T>
        attributes {binade.kernel = #binade.schedule<permute>} {
      %y = binade.pad %x {offsets = array<i64: 1, 1, 0>, strides = array<i64: 1, 2, 1>}
         : (tensor<3x4x50x$T>) -> tensor<5x9x50x$T>
      return %y : tensor<5x9x50x$T>
    })mlir"));
}

TEST_P(ElementFormat, PadsTheLastAxis) {
  check(with(R"mlir(
    func.func private @k(%x: tensor<3x7x$T>, %z: tensor<3x32x$T>)
        -> (tensor<4x40x$T>, tensor<3x96x$T>)
        attributes {binade.kernel = #binade.schedule<permute>} {
      %y = binade.pad %x {offsets = array<i64: 1, 2>, strides = array<i64: 1, 5>}
         : (tensor<3x7x$T>) -> tensor<4x40x$T>
      %w = binade.pad %z {offsets = array<i64: 0, 32>, strides = array<i64: 1, 1>}
         : (tensor<3x32x$T>) -> tensor<3x96x$T>
      return %y, %w : tensor<4x40x$T>, tensor<3x96x$T>
    })mlir"));
}

TEST_P(ElementFormat, Concatenates) {
  check(with(R"mlir(
    func.func private @k(%a: tensor<3x16x$T>, %b: tensor<3x32x$T>, %c: tensor<3x5x$T>)
        -> (tensor<3x48x$T>, tensor<3x53x$T>, tensor<9x16x$T>)
        attributes {binade.kernel = #binade.schedule<permute>} {
      %x = binade.concat %a, %b {axis = 1 : i64}
         : (tensor<3x16x$T>, tensor<3x32x$T>) -> tensor<3x48x$T>
      %y = binade.concat %b, %c, %a {axis = 1 : i64}
         : (tensor<3x32x$T>, tensor<3x5x$T>, tensor<3x16x$T>) -> tensor<3x53x$T>
      %z = binade.concat %a, %a, %a {axis = 0 : i64}
         : (tensor<3x16x$T>, tensor<3x16x$T>, tensor<3x16x$T>) -> tensor<9x16x$T>
      return %x, %y, %z : tensor<3x48x$T>, tensor<3x53x$T>, tensor<9x16x$T>
    })mlir"));
}

TEST_P(ElementFormat, Selects) {
  check(with(R"mlir(
    func.func private @k(%c: tensor<5xi1>, %x: tensor<5x20x$T>, %y: tensor<5x20x$T>)
        -> tensor<5x20x$T> attributes {binade.kernel = #binade.schedule<elementwise>} {
      %b = binade.broadcast %c {axes = array<i64: 0>} : (tensor<5xi1>) -> tensor<5x20xi1>
      %z = binade.select %b, %x, %y
         : (tensor<5x20xi1>, tensor<5x20x$T>, tensor<5x20x$T>) -> tensor<5x20x$T>
      return %z : tensor<5x20x$T>
    })mlir"));
}

TEST_P(ElementFormat, GathersRows) {
  check(with(R"mlir(
    func.func private @k(%t: tensor<9x20x$T>, %i: tensor<2x7xi64>) -> tensor<2x7x20x$T>
        attributes {binade.kernel = #binade.schedule<gather>} {
      %y = binade.gather %t, %i : (tensor<9x20x$T>, tensor<2x7xi64>) -> tensor<2x7x20x$T>
      return %y : tensor<2x7x20x$T>
    })mlir"),
        {}, GetParam() == std::string("i1") ? 2 : 9);
}

TEST_P(ElementFormat, GathersScalars) {
  check(with(R"mlir(
    func.func private @k(%t: tensor<9x$T>, %i: tensor<37xi32>) -> tensor<37x$T>
        attributes {binade.kernel = #binade.schedule<gather>} {
      %y = binade.gather %t, %i : (tensor<9x$T>, tensor<37xi32>) -> tensor<37x$T>
      return %y : tensor<37x$T>
    })mlir"),
        {}, GetParam() == std::string("i1") ? 2 : 9);
}

TEST_F(KernelTest, IndicesCountFromTheEndAndAreChecked) {
  const char *text = R"mlir(
    func.func private @k(%t: tensor<9x20xf32>, %i: tensor<4xi64>) -> tensor<4x20xf32>
        attributes {binade.kernel = #binade.schedule<gather>} {
      %y = binade.gather %t, %i : (tensor<9x20xf32>, tensor<4xi64>) -> tensor<4x20xf32>
      return %y : tensor<4x20xf32>
    })mlir";
  TensorRef table =
      draw(RankedTensorType::get({9, 20}, Float32Type::get(&context)));
  auto indices = [&](ArrayRef<int64_t> values) {
    Tensor tensor(RankedTensorType::get({4}, IntegerType::get(&context, 64)));
    llvm::copy(values, tensor.getIntegers().begin());
    return std::make_shared<Tensor>(tensor);
  };
  EXPECT_EQ(check(text, {table, indices({-9, -1, 0, 8})}), 0);

  // These indices are invalid; the kernel must not read outside the table.
  for (int64_t bad : {int64_t(9), int64_t(-10), INT64_MAX, INT64_MIN}) {
    parse(text);
    FailureOr<CompiledKernels> compiled = compileKernels(*module, CpuOptions());
    ASSERT_TRUE(succeeded(compiled)) << message;
    LoadedKernels loaded(*compiled);
    run(loaded, loaded.kernels.front(), module->lookupSymbol<func::FuncOp>("k"),
        {table, indices({1, 2, bad, 3})}, 1);
    EXPECT_EQ(status, 1) << bad;
  }
}
