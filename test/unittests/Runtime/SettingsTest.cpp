//===- SettingsTest.cpp - Hyper-parameters of a compiled step -------------===//

#include "binade/Runtime/Settings.h"
#include "gtest/gtest.h"

using namespace binade;
using namespace binade::plan;

/// A plan with `lr` and `decay` for all parameters and for two groups. Group 1
/// has the common `lr`, group 2 the common `decay`.
static Plan makePlan() {
  Plan plan;
  auto add = [&](std::string name, double value) {
    plan.ports.push_back({Role::Hyper,
                          std::move(name),
                          0,
                          FillInit{value},
                          {},
                          NumberRange{0.0, {}, {}}});
  };
  add("lr", 0.1);
  add("decay", 0.5);
  add("lr@1", 0.1);
  add("decay@1", 0);
  plan.ports.push_back({Role::Parameter, "lr@2", 0, FillInit{0.1}, {}, {}});
  add("lr@2", 0.2);
  add("decay@2", 0.5);
  return plan;
}

/// Returns the hyper-parameters after applying `settings`, or the error.
static std::string apply(const std::vector<Setting> &settings) {
  Plan plan = makePlan();
  if (Result<void> done = applySettings(plan, settings, "b"); !done)
    return std::to_string(done.error().exitCode) + " " + render(done.error());
  std::string text;
  for (const Setting &setting : getSettings(plan))
    text += (text.empty() ? "" : ", ") + setting.name + "=" +
            formatNumber(setting.value);
  return text;
}

TEST(Settings, GroupsAreDescribedByTheirDifferences) {
  Plan plan = makePlan();
  EXPECT_EQ(describeSettings(plan),
            "lr=0.1, decay=0.5; group 1: decay=0; group 2: lr=0.2");
  ASSERT_TRUE(applySettings(plan, {{"decay", 0}, {"decay@2", 1}}, "b"));
  EXPECT_EQ(describeSettings(plan),
            "lr=0.1, decay=0; group 2: lr=0.2, decay=1");
  EXPECT_EQ(describeSettings(Plan()), "none");
  EXPECT_EQ(describeSetting("lr"), "lr");
  EXPECT_EQ(describeSetting("lr@12"), "lr of group 12");
}

TEST(Settings, GroupsWithTheCommonValueFollowIt) {
  EXPECT_EQ(apply({}), "lr=0.1, decay=0.5, lr@1=0.1, decay@1=0, lr@2=0.2, "
                       "decay@2=0.5");
  EXPECT_EQ(apply({{"lr", 1}}), "lr=1, decay=0.5, lr@1=1, decay@1=0, lr@2=0.2, "
                                "decay@2=0.5");
  EXPECT_EQ(apply({{"decay", 0}, {"decay", 2}}),
            "lr=0.1, decay=2, lr@1=0.1, decay@1=0, lr@2=0.2, decay@2=2");
  // The setting of a group wins in any order.
  for (const std::vector<Setting> &settings :
       {std::vector<Setting>{{"lr@1", 3}, {"lr", 4}, {"lr@2", 5}},
        {{"lr", 4}, {"lr@2", 5}, {"lr@1", 3}}})
    EXPECT_EQ(apply(settings),
              "lr=4, decay=0.5, lr@1=3, decay@1=0, lr@2=5, decay@2=0.5");
}

TEST(Settings, UnknownNamesAndValuesAreRefused) {
  EXPECT_EQ(
      apply({{"dekay", 1}}),
      "3 b: error: the compiled step has no hyper-parameter 'dekay'; did "
      "you mean 'decay'?\nb: note: it has lr=0.1, decay=0.5; group 1: "
      "decay=0; group 2: lr=0.2\nb: note: 'lr@1' names the lr of group 1");
  EXPECT_EQ(apply({{"lr@3", 1}}).substr(0, 2), "3 ");
  EXPECT_EQ(apply({{"lr@1", -1}}),
            "3 b: error: lr of group 1 must be at least 0, got -1");
  EXPECT_EQ(apply({{"lr", 0.0 / 0.0}}).substr(0, 34),
            "3 b: error: lr must be finite, got");
}
