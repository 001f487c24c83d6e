//===- SumInOrder.cpp - Sums in a fixed order -----------------------------===//

#include "Families.h"
#include "binade/IR/SumInOrderOp.h"

using namespace mlir;
using namespace mlir::binade;

static float addInOrder(ArrayRef<float> terms) {
  float sum = terms.front();
  for (float term : terms.drop_front())
    sum += term;
  return sum;
}

static float addByHalves(MutableArrayRef<float> terms) {
  while (terms.size() > 1) {
    size_t half = llvm::PowerOf2Ceil(terms.size()) / 2;
    for (size_t i = 0; i < half; ++i)
      terms[i] += i + half < terms.size() ? terms[i + half] : 0.0f;
    terms = terms.take_front(half);
  }
  return terms.front();
}

static void evaluateSumInOrder(SumInOrderOp op, Evaluation &e) {
  const Tensor &x = e[op.getX()];
  auto axis = static_cast<int64_t>(op.getAxis());
  int64_t size = x.getShape()[axis], stride = 1;
  for (int64_t inner : x.getShape().drop_front(axis + 1))
    stride *= inner;
  std::vector<float> terms(size);
  for (int64_t i = 0, count = e.result().getNumElements(); i < count; ++i) {
    int64_t first = i / stride * stride * size + i % stride;
    for (int64_t term = 0; term < size; ++term)
      terms[term] = static_cast<float>(x[first + term * stride]);
    e.result()[i] = op.getByHalves() ? addByHalves(terms) : addInOrder(terms);
  }
}

void mlir::binade::addSumInOrder(Reference &reference) {
  reference.add<SumInOrderOp>(evaluateSumInOrder);
}
