//===- Hadamard.cpp - The Hadamard transform ------------------------------===//

#include "Families.h"
#include "binade/IR/HadamardOp.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Transforms `group`, butterfly by butterfly.
static void transform(MutableArrayRef<float> group) {
  for (size_t half = 1; half < group.size(); half *= 2)
    for (size_t i = 0; i < group.size(); ++i) {
      if (i & half)
        continue;
      float low = group[i], high = group[i + half];
      group[i] = low + high;
      group[i + half] = low - high;
    }
}

static void evaluateHadamard(HadamardOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  auto size = static_cast<int64_t>(op.getSize());
  int64_t stride =
      static_cast<int64_t>(op.getAxis()) == -1 ? 1 : x.getShape().back();
  auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  std::vector<float> group(size);
  for (int64_t first = 0; first < x.getNumElements(); ++first) {
    if (first / stride % size != 0)
      continue; // Belongs to an earlier group.
    for (int64_t i = 0; i < size; ++i) {
      group[i] = static_cast<float>(x[first + i * stride]);
      if (op.getSigns())
        group[i] *= static_cast<float>(e[op.getSigns()][i]);
    }
    transform(group);
    for (int64_t i = 0; i < size; ++i)
      e.result()[first + i * stride] = group[i] * factor;
  }
}

void mlir::binade::addHadamard(Reference &reference) {
  reference.add<HadamardOp>(evaluateHadamard);
}
