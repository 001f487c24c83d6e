//===- NonFiniteLoss.cpp - A batch whose loss is not finite ---------------===//

#include "NonFiniteLoss.h"
#include "binade/Container/JoinFirst.h"
#include <algorithm>
#include <cmath>

using namespace binade;

std::string binade::formatLoss(double loss) {
  if (std::isnan(loss))
    return "NaN";
  if (std::isinf(loss))
    return loss < 0 ? "-infinity" : "infinity";
  return std::to_string(loss);
}

std::string NonFiniteLoss::describe() const {
  return "the loss is " + formatLoss(loss) + " in batch " +
         std::to_string(batch);
}

std::string NonFiniteLoss::describeSamples() const {
  constexpr std::size_t kShown = 8;
  std::string text = "batch " + std::to_string(batch) + " has ";
  bool isRange = std::ranges::adjacent_find(samples, [](auto one, auto next) {
                   return next != one + 1;
                 }) == samples.end();
  text += samples.size() == 1 ? "sample " : "samples ";
  if (isRange && samples.size() > 2) {
    text += std::to_string(samples.front()) + " to " +
            std::to_string(samples.back());
  } else {
    std::vector<std::string> numbers;
    for (std::uint64_t sample : samples)
      numbers.push_back(std::to_string(sample));
    text += joinFirst(numbers, kShown);
  }
  return text + " of " + path;
}

std::optional<NonFiniteLoss> binade::findNonFiniteLoss(std::int64_t batch,
                                                       double loss,
                                                       const BatchFeed &feed) {
  if (std::isfinite(loss))
    return std::nullopt;
  return NonFiniteLoss{batch,
                       loss,
                       {feed.getSamples().begin(), feed.getSamples().end()},
                       feed.getSource().getPath()};
}
