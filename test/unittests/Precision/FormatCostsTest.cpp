//===- FormatCostsTest.cpp - Minimum costs by enumeration -----------------===//

#include "../../../lib/Precision/Assign/FormatCosts.h"
#include "../../../lib/Precision/Assign/MinimumCut.h"
#include "gtest/gtest.h"
#include <functional>
#include <limits>
#include <random>
#include <set>

using namespace mlir::binade;
using Choice = std::vector<unsigned>;

namespace {
/// The arguments of `FormatCosts::addValue`.
struct Value {
  std::optional<unsigned> producer;
  unsigned format = 0;
  std::vector<unsigned> readers;
  std::vector<Cost> casts;
};

/// A problem as plain lists, with an independent computation of costs.
struct Problem {
  unsigned formats, chosen;
  std::vector<std::vector<Cost>> prices;
  std::vector<Value> values;

  FormatCosts build() const {
    FormatCosts costs(formats, chosen);
    for (const std::vector<Cost> &price : prices)
      costs.addNode(price);
    for (const Value &value : values)
      costs.addValue(value.producer, value.format, value.readers, value.casts);
    return costs;
  }

  Cost price(const Choice &choice) const {
    Cost sum = 0;
    for (size_t node = 0; node < prices.size(); ++node)
      sum += prices[node][choice[node]];
    for (const Value &value : values) {
      unsigned from = value.producer ? choice[*value.producer] : value.format;
      std::set<unsigned> needed;
      for (unsigned reader : value.readers)
        needed.insert(choice[reader]);
      needed.erase(from);
      for (unsigned to : needed)
        sum += value.casts[from * formats + to];
    }
    return sum;
  }

  /// Calls `visit` for every choice of allowed formats, one for each node.
  void forEach(const std::function<void(const Choice &)> &visit) const {
    Choice choice(prices.size());
    std::function<void(size_t)> choose = [&](size_t node) {
      if (node == prices.size())
        return visit(choice);
      for (unsigned format = 0; format < formats; ++format)
        if (prices[node][format] < kForbidden) {
          choice[node] = format;
          choose(node + 1);
        }
    };
    choose(0);
  }

  Cost findLeast() const {
    Cost least = std::numeric_limits<Cost>::max();
    forEach(
        [&](const Choice &choice) { least = std::min(least, price(choice)); });
    return least;
  }
};

/// Random DAGs with shared readers, nodes pinned to each format, graph inputs,
/// and small costs, so that ties happen.
Problem makeRandom(std::mt19937 &random, unsigned chosen, bool hasOther) {
  auto upTo = [&](int high) {
    return std::uniform_int_distribution<int>(0, high)(random);
  };
  Problem problem{chosen + hasOther, chosen, {}, {}};
  int nodes = 2 + upTo(chosen == 2 ? 9 : 5);
  for (int node = 0; node < nodes; ++node) {
    std::vector<Cost> price;
    for (unsigned format = 0; format < problem.formats; ++format)
      price.push_back(format < chosen ? upTo(12) : kForbidden);
    if (upTo(5) == 0) { // Pinned.
      unsigned pin = upTo(problem.formats - 1);
      for (unsigned format = 0; format < problem.formats; ++format)
        price[format] = format == pin ? upTo(12) : kForbidden;
    }
    problem.prices.push_back(price);
  }
  for (int made = -2; made < nodes - 1; ++made) {
    Value value;
    if (made >= 0)
      value.producer = made;
    else
      value.format = upTo(problem.formats - 1);
    for (int node = std::max(made + 1, 0); node < nodes; ++node)
      if (upTo(2) == 0)
        value.readers.push_back(node);
    int size = 1 + upTo(6);
    for (unsigned from = 0; from < problem.formats; ++from)
      for (unsigned to = 0; to < problem.formats; ++to)
        value.casts.push_back(from == to ? 0 : size * (1 + upTo(1)));
    problem.values.push_back(std::move(value));
  }
  return problem;
}
} // namespace

TEST(FormatCosts, EvaluatesAsDefined) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    Problem problem = makeRandom(random, 2, i % 2);
    FormatCosts costs = problem.build();
    problem.forEach([&](const Choice &choice) {
      ASSERT_EQ(costs.evaluate(choice), problem.price(choice));
    });
  }
}

TEST(FormatCosts, FindsTheMinimumOfTwoFormats) {
  std::mt19937 random(2);
  unsigned mixed = 0;
  for (int i = 0; i < 3000; ++i) {
    Problem problem = makeRandom(random, 2, i % 2);
    Choice found = problem.build().minimize();
    Cost least = problem.findLeast();
    ASSERT_EQ(problem.price(found), least) << "problem " << i;
    // Among the cheapest choices it is the one with the fewest narrow nodes.
    auto count = [](const Choice &choice) {
      return std::count(choice.begin(), choice.end(), 1u);
    };
    problem.forEach([&](const Choice &choice) {
      if (problem.price(choice) == least)
        ASSERT_LE(count(found), count(choice)) << "problem " << i;
    });
    mixed += count(found) > 0 && count(found) < long(found.size());
  }
  // The problems are not trivial: many solutions use both formats.
  EXPECT_GT(mixed, 1000u);
}

TEST(FormatCosts, FindsTheMinimumAfterTwoCostsAreSwapped) {
  std::mt19937 random(3);
  unsigned changed = 0;
  for (int i = 0; i < 500; ++i) {
    Problem problem = makeRandom(random, 2, false);
    Choice before = problem.build().minimize();
    std::uniform_int_distribution<size_t> node(0, problem.prices.size() - 1);
    std::swap(problem.prices[node(random)], problem.prices[node(random)]);
    Choice after = problem.build().minimize();
    ASSERT_EQ(problem.price(after), problem.findLeast());
    changed += before != after;
  }
  EXPECT_GT(changed, 100u);
}

TEST(FormatCosts, IsNearTheMinimumOfThreeFormats) {
  std::mt19937 random(4);
  unsigned exact = 0, rounds = 600;
  for (unsigned i = 0; i < rounds; ++i) {
    Problem problem = makeRandom(random, 3, i % 2);
    Choice found = problem.build().minimize();
    Cost price = problem.price(found), least = problem.findLeast();
    ASSERT_GE(price, least);
    ASSERT_LT(price, kForbidden);
    ASSERT_LE(price, 2 * least) << "problem " << i;
    exact += price == least;
  }
  EXPECT_GT(exact, rounds * 9 / 10);
}

TEST(MinimumCut, CutsAChainAtItsCheapestEdge) {
  MinimumCut cut;
  for (int node = 0; node < 4; ++node)
    cut.addNode();
  cut.addTerminal(0, 9, 0);
  cut.addEdge(0, 1, 5);
  cut.addEdge(1, 2, 3);
  cut.addEdge(2, 3, 4);
  cut.addTerminal(3, 0, 9);
  EXPECT_EQ(cut.solve(), (std::vector<bool>{true, true, false, false}));
}
