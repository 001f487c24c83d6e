//===- EvaluateTest.cpp - Evaluation of functions and error bounds --------===//

#include "binade/IR/Binade.h"
#include "binade/Reference/Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {
class Evaluate : public ::testing::Test {
protected:
  Evaluate() {
    context
        .loadDialect<BinadeDialect, arith::ArithDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
  }

  void parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << message;
  }
  TensorRef make(ArrayRef<int64_t> shape, ArrayRef<double> values) {
    Tensor tensor(RankedTensorType::get(shape, Float32Type::get(&context)));
    llvm::copy(values, tensor.getFloats().begin());
    return std::make_shared<Tensor>(std::move(tensor));
  }
  std::string fail(StringRef name, const NamedTensors &inputs) {
    EXPECT_TRUE(failed(evaluate(*module, name, inputs)));
    return message;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string message;
};
} // namespace

TEST_F(Evaluate, NamesArgumentsAndResults) {
  parse(R"mlir(
    func.func @f(%a: tensor<2xf32> {binade.name = "x"}, %b: tensor<2xf32>)
        -> (tensor<2xf32> {binade.name = "sum"}, tensor<2xf32>) {
      %s = binade.add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %d = binade.sub %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %s, %d : tensor<2xf32>, tensor<2xf32>
    })mlir");
  FailureOr<Outputs> outputs = evaluate(
      *module, "f", {{"x", make({2}, {3, 5})}, {"arg1", make({2}, {1, 4})}});
  ASSERT_TRUE(succeeded(outputs)) << message;
  EXPECT_THAT(outputs->values["sum"]->getFloats().vec(), ElementsAre(4, 9));
  EXPECT_THAT(outputs->values["result1"]->getFloats().vec(), ElementsAre(2, 1));
}

TEST_F(Evaluate, DistinguishesEqualNamesByRole) {
  parse(R"mlir(
    func.func @f(%w: tensor<1xf32> {binade.name = "w",
                                    binade.role = #binade.role<parameter>})
        -> (tensor<1xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
            tensor<1xf32> {binade.name = "w", binade.role = #binade.role<gradient>}) {
      %n = binade.neg %w : (tensor<1xf32>) -> tensor<1xf32>
      return %w, %n : tensor<1xf32>, tensor<1xf32>
    })mlir");
  FailureOr<Outputs> outputs = evaluate(*module, "f", {{"w", make({1}, {2})}});
  ASSERT_TRUE(succeeded(outputs)) << message;
  EXPECT_THAT(outputs->values["parameter/w"]->getFloats().vec(),
              ElementsAre(2));
  EXPECT_THAT(outputs->values["gradient/w"]->getFloats().vec(),
              ElementsAre(-2));
}

TEST_F(Evaluate, MissingInputsTakeTheirInitialValue) {
  parse(R"mlir(
    func.func @f(%a: tensor<2xf32> {binade.init = dense<[1.5, -2.0]> : tensor<2xf32>})
        -> tensor<2xf32> {
      return %a : tensor<2xf32>
    })mlir");
  FailureOr<Outputs> outputs = evaluate(*module, "f", {});
  ASSERT_TRUE(succeeded(outputs)) << message;
  EXPECT_THAT(outputs->values["result0"]->getFloats().vec(),
              ElementsAre(1.5, -2.0));
}

TEST_F(Evaluate, RejectsInvalidInputs) {
  parse(R"mlir(
    func.func @f(%a: tensor<2xf32> {binade.name = "x"}) -> tensor<2xf32> {
      return %a : tensor<2xf32>
    })mlir");
  EXPECT_THAT(fail("g", {}), HasSubstr("no function '@g'"));
  EXPECT_THAT(fail("f", {}),
              HasSubstr("input 'x' of type 'tensor<2xf32>' is missing"));
  EXPECT_THAT(fail("f", {{"x", make({3}, {1, 2, 3})}}),
              HasSubstr("argument 'x' has type 'tensor<2xf32>', the input "
                        "'tensor<3xf32>'"));
  EXPECT_THAT(fail("f", {{"x", make({2}, {1, 2})}, {"y", make({2}, {1, 2})}}),
              HasSubstr("has no argument 'y'; its arguments are: x"));
}

TEST_F(Evaluate, BoundsOfAnOpFollowTheFormula) {
  parse(R"mlir(
    func.func @f(%a: tensor<1x3xf32>, %b: tensor<3x1xf32>) -> tensor<1x1xf32> {
      %y = binade.matmul %a, %b : (tensor<1x3xf32>, tensor<3x1xf32>) -> tensor<1x1xf32>
      return %y : tensor<1x1xf32>
    })mlir");
  FailureOr<Outputs> outputs = evaluate(*module, "f",
                                        {{"arg0", make({1, 3}, {1, 100, 1})},
                                         {"arg1", make({3, 1}, {1, -1, 99})}},
                                        {.directory = "", .bounds = true});
  ASSERT_TRUE(succeeded(outputs)) << message;
  EXPECT_EQ((*outputs->values["result0"])[0], 0.0);
  // (3 + 1) u sum|terms|, plus one spacing at the size of the error.
  double error = 4 * 0x1p-24 * 200;
  EXPECT_EQ((*outputs->bounds["result0"])[0], error + 0x1p-38);
}

TEST_F(Evaluate, BoundsGrowThroughOps) {
  parse(R"mlir(
    func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
      %e = binade.exp %x : (tensor<64xf32>) -> tensor<64xf32>
      %t = binade.reshape %e : (tensor<64xf32>) -> tensor<8x8xf32>
      %y = binade.reshape %t : (tensor<8x8xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    })mlir");
  SmallVector<double> ones(64, 1.0);
  FailureOr<Outputs> outputs =
      evaluate(*module, "f", {{"arg0", make({64}, ones)}},
               {.directory = "", .bounds = true});
  ASSERT_TRUE(succeeded(outputs)) << message;
  for (double bound : outputs->bounds["result0"]->getFloats()) {
    EXPECT_GT(bound, 2 * 0x1p-22); // More than one ulp of e.
    EXPECT_LT(bound, 100 * 0x1p-22);
  }
}

TEST_F(Evaluate, ComparesInUnitsOfTheBound) {
  TensorRef reference = make({3}, {1.0, NAN, 2.0});
  Tensor bound = *make({3}, {0.5, 0.5, 0.5});
  Deviation same = compare(*reference, *reference, nullptr);
  EXPECT_EQ(same.ratio, 0.0);
  Deviation off = compare(*make({3}, {1.25, NAN, 1.0}), *reference, &bound);
  EXPECT_EQ(off.ratio, 2.0);
  EXPECT_EQ(off.index, 2);
  Deviation lost = compare(*make({3}, {1.0, 0.0, 2.0}), *reference, &bound);
  EXPECT_EQ(lost.ratio, INFINITY);
  EXPECT_EQ(compare(*make({3}, {1.0, NAN, 2.5}), *reference, nullptr).ratio,
            INFINITY);
}

TEST_F(Evaluate, FormulasSupportAllComparisons) {
  const double nan = NAN;
  for (auto [x, y, name] : {std::tuple(1.0, 1.0, "equal"),
                            {2.0, 1.0, "above"},
                            {1.0, 2.0, "below"},
                            {nan, 1.0, "unordered"}}) {
    std::string wanted = name;
    struct Row {
      const char *predicate;
      bool equal, above, below, unordered;
    };
    for (Row row : {Row{"false", false, false, false, false},
                    {"oeq", true, false, false, false},
                    {"ogt", false, true, false, false},
                    {"oge", true, true, false, false},
                    {"olt", false, false, true, false},
                    {"ole", true, false, true, false},
                    {"one", false, true, true, false},
                    {"ord", true, true, true, false},
                    {"ueq", true, false, false, true},
                    {"ugt", false, true, false, true},
                    {"uge", true, true, false, true},
                    {"ult", false, false, true, true},
                    {"ule", true, false, true, true},
                    {"une", false, true, true, true},
                    {"uno", false, false, false, true},
                    {"true", true, true, true, true}}) {
      parse((R"mlir(
        binade.optimizer @o {states = [], hypers = []}
        func.func private @o.update(%p: f32, %g: f32) -> f32 {
          %zero = arith.constant 0.0 : f32
          %one = arith.constant 1.0 : f32
          %holds = arith.cmpf )mlir" +
             Twine(row.predicate) + R"mlir(, %p, %g : f32
          %n = arith.select %holds, %one, %zero : f32
          return %n : f32
        }
        func.func @f(%p: tensor<1xf32>, %g: tensor<1xf32>) -> tensor<1xf32> {
          %n = binade.optimizer_update @o %p, %g
            : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
          return %n : tensor<1xf32>
        })mlir")
                .str());
      FailureOr<Outputs> outputs = evaluate(
          *module, "f", {{"arg0", make({1}, {x})}, {"arg1", make({1}, {y})}});
      ASSERT_TRUE(succeeded(outputs)) << message;
      bool holds = wanted == "equal"   ? row.equal
                   : wanted == "above" ? row.above
                   : wanted == "below" ? row.below
                                       : row.unordered;
      EXPECT_EQ(outputs->values["result0"]->getFloats()[0], holds)
          << row.predicate << " " << wanted;
    }
  }
}
