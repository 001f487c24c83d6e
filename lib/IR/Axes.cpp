//===- Axes.cpp - Permutations of axes ------------------------------------===//

#include "binade/IR/Axes.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::binade;

Value mlir::binade::buildTranspose(ImplicitLocOpBuilder &b, Value x,
                                   ArrayRef<int64_t> permutation) {
  if (isIdentityPermutation(permutation))
    return x;
  return TransposeOp::create(b, x, permutation);
}

SmallVector<int64_t> mlir::binade::getAxisLast(int64_t rank, int64_t axis) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  permutation.erase(permutation.begin() + axis);
  permutation.push_back(axis);
  return permutation;
}
