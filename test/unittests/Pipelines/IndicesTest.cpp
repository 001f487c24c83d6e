//===- IndicesTest.cpp - indices and labels out of range ------------------===//
//
// Tests the error that a user of a compiled step sees. Indices that an op reads
// unchanged from the data are checked before the first step; computed indices
// are checked by the kernels.
//
//===----------------------------------------------------------------------===//

#include "../Container/TemporaryDirectory.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Plan/Bundle.h"
#include "binade/Runtime/Training.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Data;
using ::binade::Program;
namespace plan = ::binade::plan;

/// A model that looks up the rows `ids` in one table and `ids` + `shift` in
/// another. Each id has a label.
static constexpr StringLiteral kModel = R"mlir(
  func.func @forward(
      %t: tensor<11x8xf32> {binade.role = #binade.role<parameter>, binade.name = "table",
                            binade.init = #binade.random<"normal", 0.0 : f64, 1.0 : f64>},
      %u: tensor<20x8xf32> {binade.role = #binade.role<parameter>, binade.name = "other",
                            binade.init = #binade.random<"normal", 0.0 : f64, 1.0 : f64>},
      %w: tensor<8x6xf32> {binade.role = #binade.role<parameter>, binade.name = "head",
                           binade.init = #binade.random<"normal", 0.0 : f64, 1.0 : f64>},
      %ids: tensor<4x3xi32> {binade.role = #binade.role<batch>, binade.name = "ids"},
      %shift: tensor<4x3xi64> {binade.role = #binade.role<batch>, binade.name = "shift"},
      %labels: tensor<4x3xi64> {binade.role = #binade.role<batch>, binade.name = "labels"},
      %far: tensor<4x3xi64> {binade.role = #binade.role<batch>, binade.name = "far"})
      -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
    %wide = binade.cast %ids : (tensor<4x3xi32>) -> tensor<4x3xi64>
    %a = binade.gather %t, %wide : (tensor<11x8xf32>, tensor<4x3xi64>) -> tensor<4x3x8xf32>
    %moved = binade.add %wide, %shift : (tensor<4x3xi64>, tensor<4x3xi64>) -> tensor<4x3xi64>
    %b = binade.gather %u, %moved : (tensor<20x8xf32>, tensor<4x3xi64>) -> tensor<4x3x8xf32>
      loc("moved_rows")
    %x = binade.add %a, %b : (tensor<4x3x8xf32>, tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
    %rows = binade.reshape %x : (tensor<4x3x8xf32>) -> tensor<12x8xf32>
    %y = binade.matmul %rows, %w : (tensor<12x8xf32>, tensor<8x6xf32>) -> tensor<12x6xf32>
    %flat = binade.reshape %labels : (tensor<4x3xi64>) -> tensor<12xi64>
    %losses:3 = binade.cross_entropy %y, %flat {ignore_index = -100 : i64}
      : (tensor<12x6xf32>, tensor<12xi64>) -> (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>)
    %apart = binade.sub %far, %labels : (tensor<4x3xi64>, tensor<4x3xi64>) -> tensor<4x3xi64>
    %near = binade.reshape %apart : (tensor<4x3xi64>) -> tensor<12xi64>
    %others:3 = binade.cross_entropy %y, %near {ignore_index = -7 : i64}
      : (tensor<12x6xf32>, tensor<12xi64>) -> (tensor<12xf32>, tensor<12xf32>, tensor<12xf32>) loc("computed_labels")
    %all = binade.add %losses#0, %others#0 : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
    %loss = binade.reduce_sum %all {axes = array<i64: 0>} : (tensor<12xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  })mlir";

namespace {
class Indices : public ::testing::Test {
protected:
  Indices() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    auto module = parseSourceString<ModuleOp>(kModel, &context);
    CompileOptions options;
    options.optimizer = "sgd";
    options.cacheDirectory = directory / "cache";
    EXPECT_TRUE(module &&
                succeeded(runPhases(*module, CompilerPhase::Import,
                                    CompilerPhase::Kernels, options)));
    FailureOr<::binade::Bundle> bundle = compileBundle(*module, options);
    EXPECT_TRUE(succeeded(bundle));
    auto loaded = Program::load(std::move(*bundle), "step", "");
    EXPECT_TRUE(loaded) << render(loaded.error());
    program.emplace(*std::move(loaded));
    EXPECT_TRUE(program->initialize(1));
  }

  const std::optional<plan::IndexCheck> &getCheck(std::string_view name) {
    return program->getPlan().findPort(plan::Role::Batch, name)->check;
  }

  /// Trains for a step with `value` as the one element of `input` that is not
  /// 0; returns the error, or nothing.
  std::string train(StringRef input, int64_t value) {
    struct Column {
      std::string name;
      std::vector<int64_t> shape, values;
    };
    std::vector<Column> columns = {{"ids", {4, 3}, {}},
                                   {"shift", {4, 3}, {}},
                                   {"labels", {4, 3}, {}},
                                   {"far", {4, 3}, {}}};
    std::vector<std::vector<int32_t>> narrow;
    std::vector<::binade::TensorBytes> tensors;
    for (Column &column : columns) {
      column.values.resize(12);
      if (column.name == input)
        column.values[7] = value;
      bool isNarrow = column.name == "ids";
      auto bytes = std::as_bytes(std::span(column.values));
      if (isNarrow)
        bytes = std::as_bytes(std::span(
            narrow.emplace_back(column.values.begin(), column.values.end())));
      tensors.push_back({column.name,
                         isNarrow ? ::binade::DType::I32 : ::binade::DType::I64,
                         column.shape, bytes});
    }
    ::binade::DataOptions files;
    files.path = directory / "data";
    EXPECT_TRUE(::binade::writeSafetensors(files.path, tensors));
    steps = 0;
    auto data = Data::open(*program, files);
    if (!data)
      return describe(data.error());
    ::binade::TrainOptions options;
    options.steps = 1;
    options.order = ::binade::Order::Sequential;
    options.out = directory / "out";
    options.overwrite = true;
    auto summary =
        ::binade::train(*program, *data, options, [&](auto &) { ++steps; });
    return summary ? "" : describe(summary.error());
  }

  static std::string describe(const ::binade::Error &error) {
    return std::to_string(error.exitCode) + " " + error.message;
  }

  ::binade::test::TemporaryDirectory directory;
  MLIRContext context;
  std::optional<Program> program;
  int steps = 0;
};
} // namespace

TEST_F(Indices, RangesOfIndicesFromDataAreListed) {
  auto expectRange = [&](std::string_view name, int64_t high,
                         std::optional<int64_t> ignored) {
    const std::optional<plan::IndexCheck> &check = getCheck(name);
    ASSERT_TRUE(check) << name;
    EXPECT_EQ(check->low, 0);
    EXPECT_EQ(check->high, high);
    EXPECT_EQ(check->ignored, ignored);
  };
  expectRange("ids", 11, std::nullopt);
  expectRange("labels", 6, -100);
  EXPECT_FALSE(getCheck("shift"));
  EXPECT_FALSE(getCheck("far"));
}

TEST_F(Indices, IndicesFromDataAreCheckedBeforeTheFirstStep) {
  EXPECT_EQ(train("ids", 10), "");
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(train("ids", 11).substr(0, 2), "3 ");
  EXPECT_EQ(train("ids", -1).substr(0, 2), "3 ");
  std::string message = train("labels", 6);
  EXPECT_EQ(message, "3 sample 2, element 1 is 6; input 'labels' allows 0 to 5 "
                     "and -100 (ignored)");
  EXPECT_EQ(train("labels", -99).substr(0, 2), "3 ");
}

TEST_F(Indices, ComputedIndicesAreCheckedByKernels) {
  EXPECT_EQ(train("shift", 19), "");
  EXPECT_EQ(train("shift", -20), ""); // A negative index counts from the end.
  for (int64_t bad : {int64_t(20), int64_t(-21), int64_t(1) << 40}) {
    std::string message = train("shift", bad);
    EXPECT_EQ(message.substr(0, 70),
              "3 batch 1 leads to an index or label that is out of range, in "
              "'gather_");
    EXPECT_NE(message.find("moved_rows"), message.npos) << message;
    EXPECT_EQ(steps, 0);
  }
  EXPECT_EQ(train("far", 5), "");
  EXPECT_EQ(train("far", -7), ""); // The ignored label.
  for (int64_t bad : {int64_t(6), int64_t(-1), INT64_MIN}) {
    std::string message = train("far", bad);
    EXPECT_EQ(message.substr(0, 9), "3 batch 1");
    EXPECT_NE(message.find("computed_labels"), message.npos) << message;
  }
  // The program still runs with a valid batch.
  EXPECT_EQ(train("shift", 1), "");
}
