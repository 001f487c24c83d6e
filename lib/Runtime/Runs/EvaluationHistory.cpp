//===- EvaluationHistory.cpp - Held-out losses of a run -------------------===//

#include "binade/Runtime/EvaluationHistory.h"
#include <cmath>

using namespace binade;

bool EvaluationHistory::add(Loss loss, double minDelta) {
  isPending = false;
  bool isFinite = std::isfinite(loss.value);
  if (isFinite && (!improved || loss.value < improved->value - minDelta)) {
    improved = loss;
    stalled = 0;
  } else {
    ++stalled;
  }
  bool isLowest = isFinite && (!lowest || loss.value < lowest->value);
  if (isLowest)
    lowest = loss;
  return isLowest;
}
