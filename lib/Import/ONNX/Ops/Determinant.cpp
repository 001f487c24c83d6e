//===- Determinant.cpp - Import of Det ------------------------------------===//
//
// Computes minors of the first rows, row by row, by Laplace expansion without
// divisions, so that the gradient, the matrix of cofactors, is right for
// singular matrices as well.
//
//===----------------------------------------------------------------------===//

#include "../OpTable.h"

using namespace mlir;
using namespace mlir::binade;
using namespace mlir::binade::importer;

/// Returns all sets of `count` of `size` columns, as bit masks in ascending
/// order.
static SmallVector<unsigned> listSets(unsigned size, unsigned count) {
  SmallVector<unsigned> sets;
  for (unsigned set = 0; set < (1u << size); ++set)
    if (static_cast<unsigned>(llvm::popcount(set)) == count)
      sets.push_back(set);
  return sets;
}

/// Returns the column at position `index` of `set`.
static unsigned getColumn(unsigned set, unsigned index) {
  for (; index > 0; --index)
    set &= set - 1;
  return llvm::countr_zero(set);
}

/// Gathers the rows of `x` at `places`.
static Value takeRows(ImplicitLocOpBuilder &b, Value x,
                      ArrayRef<int64_t> places) {
  auto type = RankedTensorType::get(places.size(), b.getI64Type());
  Value indices = ConstantOp::create(b, DenseElementsAttr::get(type, places));
  return GatherOp::create(b, x, indices, PrecisionAttr());
}

/// Builds the determinants of matrices [rows, columns, batch].
static Value buildDeterminant(ImplicitLocOpBuilder &b, Value x, unsigned size,
                              int64_t batch) {
  auto getRow = [&](unsigned row) {
    return buildReshape(b, buildSlice(b, x, 0, row, 1),
                        {static_cast<int64_t>(size), batch});
  };
  Value minors = getRow(0);
  SmallVector<unsigned> smaller = listSets(size, 1);
  for (unsigned row = 1; row < size; ++row) {
    SmallVector<unsigned> sets = listSets(size, row + 1);
    Value own = getRow(row), sum;
    // Expand by the new row: each column of a set times the minor of the
    // others.
    for (unsigned index = 0; index <= row; ++index) {
      SmallVector<int64_t> columns, others;
      for (unsigned set : sets) {
        unsigned column = getColumn(set, index);
        columns.push_back(column);
        others.push_back(llvm::lower_bound(smaller, set & ~(1u << column)) -
                         smaller.begin());
      }
      Value term = MulOp::create(b, takeRows(b, own, columns),
                                 takeRows(b, minors, others));
      bool isNegative = (row - index) % 2 != 0;
      if (!sum)
        sum = isNegative ? Value(NegOp::create(b, term)) : term;
      else
        sum = isNegative ? Value(SubOp::create(b, sum, term))
                         : Value(AddOp::create(b, sum, term));
    }
    minors = sum;
    smaller = sets;
  }
  return minors;
}

LogicalResult mlir::binade::importer::importDet(Node &node) {
  ImplicitLocOpBuilder &b = node.b;
  RankedTensorType type = node.getType(0);
  int64_t rank = type.getRank();
  if (failed(requireFloats(node)))
    return failure();
  constexpr int64_t kMaxRows = 10; // 5 of 10 rows have 252 minors.
  int64_t size = rank < 2 ? 0 : type.getShape().back();
  if (size < 1 || size > kMaxRows || type.getDimSize(rank - 2) != size)
    return node.emitUnsupported() << "expected square matrices of 1 to "
                                  << kMaxRows << " rows, got " << type;
  ArrayRef<int64_t> shape = type.getShape().drop_back(2);
  int64_t batch = ShapedType::getNumElements(shape);
  Type element = type.getElementType();
  bool isNarrow = element.getIntOrFloatBitWidth() < 32;
  Type compute = isNarrow ? Type(b.getF32Type()) : element;
  Value x = buildReshape(b, buildCast(b, node.getInput(0), compute),
                         {batch, size, size});
  Value y = buildDeterminant(b, buildTranspose(b, x, {1, 2, 0}),
                             static_cast<unsigned>(size), batch);
  return node.setResult(buildCast(b, buildReshape(b, y, shape), element));
}
