//===- DataTest.cpp - Checks of training data -----------------------------===//

#include "../../../lib/Runtime/Execution/Integers.h"
#include "Regression.h"

using namespace binade;
using namespace binade::plan;

TEST_F(TrainingTest, InvalidDataAreNamedBeforeTheFirstStep) {
  auto expect = [&](const std::string &text) {
    std::string got = rejection();
    EXPECT_EQ(got.substr(0, text.size()), text) << got;
  };
  writeData({{"y", floats}, {"t", targets}});
  expect("3 data: error: no tensor 'x' for input 'x' F32 [4]; the file has "
         "'y' F32 [10], 't' U8 [10]");
  writeData({{"x", std::vector<std::int64_t>(10)}, {"t", targets}});
  expect(
      "3 data:tensor 'x': error: type I64, but input 'x' needs F32 or a type "
      "whose values it holds exactly");
  writeData({{"x", floats}, {"t", floats}});
  expect("3 data:tensor 't': error: type F32, but input 't' needs I64 or "
         "another integer type");
  writeData({{"x", std::vector<float>(9)}, {"t", targets}});
  expect("3 data:tensor 't': error: 10 samples, but tensor 'x' has 9");
  writeData({{"x", std::vector<float>(3)}, {"t", std::vector<std::int8_t>(3)}});
  expect("3 data:tensor 'x': error: the file has 3 samples, one batch needs 4");
  targets[6] = 100;
  writeData({{"x", floats}, {"t", targets}});
  expect("3 data:tensor 't': error: sample 6, element 0 is 100; input 't' "
         "allows 0 to 99 and -1 (ignored)");
  writeData({{"x", floats}, {"t", std::vector<std::int8_t>(10, -2)}});
  expect("3 data:tensor 't': error: sample 0, element 0 is -2; ");
  data.path = path("absent");
  expect("3 absent: error: ");
  data.path = path("data");
  data.batch = 8;
  expect("3 --batch: error: the program's batch is 4 (input 'x' [4]), not 8");
  data.batch = 4;
  writeData({{"x", floats}, {"t", std::vector<std::int8_t>(10, -1)}});
  expect("accepted");
}

TEST_F(TrainingTest, ShapesMustMatchTheProgram) {
  std::vector<float> values(20);
  auto bytes = std::as_bytes(std::span(values));
  ASSERT_TRUE(writeSafetensors(
      path("data"), std::array{TensorBytes{"x", DType::F32, {10, 2}, bytes}}));
  EXPECT_EQ(rejection(), "3 data:tensor 'x': error: shape [10, 2], but input "
                         "'x' needs [samples]");
}

TEST_F(TrainingTest, ConstantsAreReadOnce) {
  writeData({{"x", floats}});
  writeData({{"t", std::vector<std::uint8_t>{3, 1, 0, 2}}}, "targets");
  data.constants = {{"t", path("targets")}};
  options.steps = 2;
  Training result = train();
  ASSERT_TRUE(result) << render(result.error());
  targets = {3, 1, 0, 2, 3, 1, 0, 2};
  EXPECT_EQ(saved<float>("w")[0], descend({{0, 1, 2, 3}, {4, 5, 6, 7}}).w);
  std::filesystem::remove_all(options.out);
  writeData({{"t", std::vector<std::uint8_t>{3, 1, 0, 200}}}, "targets");
  EXPECT_EQ(rejection(), "3 targets:tensor 't': error: element 3 is 200, not "
                         "in [0, 100)");
  writeData({{"t", std::vector<std::uint8_t>{3, 1, 0}}}, "targets");
  EXPECT_EQ(rejection(), "3 targets:tensor 't': error: shape [3], but input "
                         "'t' is [4]");
  data.constants = {{"z", path("targets")}};
  EXPECT_EQ(rejection(),
            "3 --const: error: the program has no batch input 'z'; it has 'x', "
            "'t'");
}

/// A program that only has two inputs of shape [batch, length].
static Program tokenProgram(std::int64_t batch, std::int64_t length) {
  Plan plan;
  for (std::string name : {"input_ids", "labels"}) {
    auto bytes = static_cast<std::uint64_t>(batch * length * 8);
    auto index = static_cast<std::uint32_t>(plan.buffers.size());
    plan.buffers.push_back({name,
                            plan.arenaBytes,
                            bytes,
                            DType::I64,
                            {batch, length},
                            Category::Batch});
    plan.ports.push_back(
        {Role::Batch, name, index, {}, IndexCheck{0, 256, {}}});
    plan.arenaBytes += bytes;
  }
  plan.ledger = {{Category::Batch, plan.arenaBytes}};
  return loadWithKernels(plan, 1);
}

static std::vector<Window> windows(std::string_view text) {
  Result<std::vector<Window>> parsed = parseWindows(text);
  EXPECT_TRUE(parsed);
  return *parsed;
}

TEST_F(TrainingTest, WindowsAreCutFromAStream) {
  std::vector<std::uint8_t> tokens(23);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::uint8_t>(200 + i);
  writeData({{"tokens", tokens}});
  Program program = tokenProgram(2, 4);
  data.windows = windows("input_ids=tokens[0:4],labels=tokens[1:5]");
  // The labels of the last sample must end within the 23 tokens.
  struct Expected {
    std::int64_t stride, samples, distance;
  };
  for (auto [stride, samples, distance] :
       {Expected{0, 5, 4}, {4, 5, 4}, {1, 19, 1}, {7, 3, 7}}) {
    data.stride = stride;
    Result<Data> opened = Data::open(program, data);
    ASSERT_TRUE(opened) << render(opened.error());
    EXPECT_EQ(opened->getNumSamples(), static_cast<std::uint64_t>(samples));
    std::uint64_t last = static_cast<std::uint64_t>(samples) - 1;
    ASSERT_TRUE(opened->fill(std::array{last, std::uint64_t(1)}));
    auto ids = program.find(Role::Batch, "input_ids")->as<std::int64_t>();
    auto labels = program.find(Role::Batch, "labels")->as<std::int64_t>();
    for (std::int64_t i = 0; i < 4; ++i) {
      auto place = static_cast<std::size_t>(i);
      EXPECT_EQ(ids[place], 200 + (samples - 1) * distance + i);
      EXPECT_EQ(labels[place], ids[place] + 1);
      EXPECT_EQ(ids[4 + place], 200 + distance + i);
    }
  }
  data.stride = 0;
  auto message = [&](std::string_view text) {
    data.windows = windows(text);
    Result<Data> opened = Data::open(program, data);
    return opened ? "accepted" : opened.error().message;
  };
  EXPECT_EQ(message("input_ids=tokens[0:5],labels=tokens[1:5]"),
            "input 'input_ids' is [2, 4], its window [0:5] has 5 elements");
  EXPECT_EQ(message("input_ids=words[0:4],labels=tokens[1:5]").substr(0, 45),
            "no tensor 'words' for input 'input_ids' I64 [");
  EXPECT_EQ(message("input_ids=tokens[20:24],labels=tokens[1:5]"),
            "the file has 0 samples, one batch needs 2");
}

TEST_F(TrainingTest, TokensOutsideAllWindowsAreNotChecked) {
  // Windows of two tokens start at every third token; 2, 5, 8 are in none.
  std::vector<std::int64_t> tokens = {0, 1, 999, 3, 4, 999, 6, 7, 999};
  writeData({{"tokens", tokens}});
  Program program = tokenProgram(2, 2);
  data.windows = windows("input_ids=tokens[0:2],labels=tokens[0:2]");
  data.stride = 3;
  EXPECT_TRUE(Data::open(program, data));
  tokens[7] = 256;
  writeData({{"tokens", tokens}});
  Result<Data> opened = Data::open(program, data);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message,
            "sample 2, element 1 is 256; input 'input_ids' allows 0 to 255");
}

TEST(Windows, AreParsed) {
  for (std::string_view text :
       {"a=t[0:256],b.c=t[1:257]", " a=t[0:256] ,\n b.c=t[1:257]\t",
        "a=t[0:256], b.c=t[1:257]"}) {
    std::vector<Window> parsed = windows(text);
    ASSERT_EQ(parsed.size(), 2u);
    EXPECT_EQ(parsed[0].input, "a");
    EXPECT_EQ(parsed[1].input, "b.c");
    EXPECT_EQ(parsed[1].tensor, "t");
    EXPECT_EQ(parsed[1].begin, 1);
    EXPECT_EQ(parsed[1].end, 257);
  }
  std::vector<Window> comma = windows("a, b=t[0:4],c=d,e[1:5]");
  ASSERT_EQ(comma.size(), 2u);
  EXPECT_EQ(comma[0].input, "a, b");
  EXPECT_EQ(comma[1].tensor, "d,e");
  for (std::string_view text :
       {"", " ", ",", "a=t[0:4],", "a=t[0:4], ", "a", "a=t", "a=t[0]",
        "a=t[4:4]", "a=t[-1:4]", "a=t[0:4]x", "=t[0:4]", "a=[0:4]",
        "a=t[0:99999999999999999999]"}) {
    Result<std::vector<Window>> wrong = parseWindows(text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().exitCode, 2);
  }
}

TEST(Integers, AreConvertedOnlyIfExact) {
  EXPECT_TRUE(holdsAll(DType::I64, DType::U8));
  EXPECT_TRUE(holdsAll(DType::I64, DType::U32));
  EXPECT_TRUE(holdsAll(DType::I64, DType::I32));
  EXPECT_TRUE(holdsAll(DType::BF16, DType::BF16));
  EXPECT_FALSE(holdsAll(DType::I64, DType::U64));
  EXPECT_FALSE(holdsAll(DType::U16, DType::I8));
  EXPECT_FALSE(holdsAll(DType::I32, DType::I64));
  // Floats hold integers that fit their significand: bf16 8 bits, f16 11 bits.
  for (DType narrow : {DType::BF16, DType::F16, DType::U8, DType::I16})
    EXPECT_TRUE(holdsAll(DType::F32, narrow));
  for (DType wide : {DType::I32, DType::U32, DType::I64, DType::F64})
    EXPECT_FALSE(holdsAll(DType::F32, wide));
  EXPECT_TRUE(holdsAll(DType::F64, DType::U32));
  EXPECT_TRUE(holdsAll(DType::BF16, DType::I8));
  EXPECT_FALSE(holdsAll(DType::F16, DType::I16));
  EXPECT_FALSE(holdsAll(DType::F16, DType::BF16));
  EXPECT_FALSE(holdsAll(DType::BF16, DType::F16));
  EXPECT_FALSE(holdsAll(DType::U8, DType::F32));
  EXPECT_FALSE(holdsAll(DType::F32, DType::BOOL));
  EXPECT_TRUE(mayRepresent(DType::U8, DType::I64));
  EXPECT_FALSE(mayRepresent(DType::U8, DType::BOOL));
  EXPECT_FALSE(mayRepresent(DType::F32, DType::I64));
  std::int16_t from[] = {-1, 32767, -32768};
  std::int32_t to[3];
  widen(DType::I16, std::as_bytes(std::span(from)), DType::I32,
        std::as_writable_bytes(std::span(to)));
  EXPECT_EQ(to[0], -1);
  EXPECT_EQ(to[1], 32767);
  EXPECT_EQ(to[2], -32768);
  EXPECT_FALSE(findUnrepresentable(DType::I16, std::as_bytes(std::span(from)),
                                   DType::I32));
  std::optional<Unrepresentable> found = findUnrepresentable(
      DType::I16, std::as_bytes(std::span(from)), DType::I8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, 1u);
  EXPECT_EQ(found->value, "32767");
}
