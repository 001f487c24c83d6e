//===- SuggestTest.cpp - Suggestions for misspelled names -----------------===//

#include "binade/Container/Suggest.h"
#include "gtest/gtest.h"
#include <vector>

using namespace binade;

static const std::vector<std::string> kNames = {"fp32", "bf16-amp", "fp16-amp",
                                                "weight_decay", "lr"};

TEST(Suggest, SuggestsTheNearestName) {
  EXPECT_EQ(suggest("weight-decay", kNames), "; did you mean 'weight_decay'?");
  EXPECT_EQ(suggest("decay", kNames), "");
  EXPECT_EQ(suggest("bf16amp", kNames), "; did you mean 'bf16-amp'?");
  EXPECT_EQ(suggest("fp16-amp2", kNames), "; did you mean 'fp16-amp'?");
  EXPECT_EQ(suggest("rl", kNames), "; did you mean 'lr'?");
  EXPECT_EQ(suggest("wieght_decay", kNames), "; did you mean 'weight_decay'?");
  EXPECT_EQ(suggest("lr2", kNames), "; did you mean 'lr'?");
}

TEST(Suggest, IgnoresCaseUnlessNamesDifferOnlyInIt) {
  EXPECT_EQ(suggest("BF16-AMP", kNames), "; did you mean 'bf16-amp'?");
  EXPECT_EQ(suggest("LR", kNames), "; did you mean 'lr'?");
  const std::vector<std::string> twice = {"conv", "Conv"};
  EXPECT_EQ(suggest("Conf", twice), "; did you mean 'Conv'?");
  EXPECT_EQ(suggest("conf", twice), "; did you mean 'conv'?");
}

TEST(Suggest, SuggestsNamesThatAPatternNearlyMatches) {
  const std::vector<std::string> weights = {"head.weight",
                                            "encoder.layers.1.norm1.weight"};
  EXPECT_EQ(suggest("encoder.layer.1.*", weights),
            "; did you mean 'encoder.layers.1.norm1.weight'?");
  EXPECT_EQ(suggest("*.wieght", weights), "; did you mean 'head.weight'?");
  EXPECT_EQ(suggest("haed*", weights), "; did you mean 'head.weight'?");
  EXPECT_EQ(suggest("features.*", weights), "");
  EXPECT_EQ(suggest("*x*", weights), "");
}

TEST(Suggest, SuggestsNothingIfNoNameIsNear) {
  EXPECT_EQ(suggest("", kNames), "");
  EXPECT_EQ(suggest("adamw", kNames), "");
  EXPECT_EQ(suggest(std::string(1000000, 'x'), kNames), "");
  EXPECT_EQ(suggest("lr", {}), "");
}

TEST(Suggest, ListsTheNamesIfNoneIsNear) {
  EXPECT_EQ(suggestOrList("bf16amp", kNames), "; did you mean 'bf16-amp'?");
  EXPECT_EQ(suggestOrList("adamw", kNames),
            "; expected one of fp32, bf16-amp, fp16-amp, weight_decay, lr");
  EXPECT_EQ(suggestOrList("lr", {}), "");
}

TEST(Suggest, OptionsOfOtherPrograms) {
  const std::vector<std::string> options = {
      "--clip", "--out", "--steps", "--lr", "--warmup", "--min-delta"};
  auto find = [&](std::string_view option) {
    return suggestOption(option, options);
  };
  EXPECT_EQ(find("--step"), "; did you mean '--steps'?");
  EXPECT_EQ(find("--clip-norm"), "; did you mean '--clip'?");
  EXPECT_EQ(find("--max-grad-clip"), "; did you mean '--clip'?");
  EXPECT_EQ(find("--output"), "; did you mean '--out'?");
  EXPECT_EQ(find("--learning-rate"), "; did you mean '--lr'?");
  EXPECT_EQ(find("--warmup-steps"), "; did you mean '--warmup'?");
  EXPECT_EQ(find("--delta-of-min"), "; did you mean '--min-delta'?");
  EXPECT_EQ(find("--batch-size"), "");
  EXPECT_EQ(find("--delta-loss"), "");
  EXPECT_EQ(find("--"), "");
}

TEST(Suggest, CommandsOfOtherPrograms) {
  const std::vector<std::string> commands = {"list", "show", "check", "schema"};
  auto find = [&](std::string_view word) {
    return suggestCommand(word, commands);
  };
  EXPECT_EQ(find("shwo"), "; did you mean 'show'?");
  EXPECT_EQ(find("print"), "; did you mean 'show'?");
  EXPECT_EQ(find("ls"), "; did you mean 'list'?");
  EXPECT_EQ(find("validate"), "; did you mean 'check'?");
  EXPECT_EQ(find("diff"), "");
  EXPECT_EQ(find("frobnicate"), "");
}
