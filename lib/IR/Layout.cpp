//===- Layout.cpp - Order of axes in memory -------------------------------===//

#include "binade/IR/Binade.h"

using namespace mlir;
using namespace mlir::binade;

Layouts mlir::binade::followLayouts(Operation *op, const Layouts &known) {
  Layout first;
  for (ArrayRef<Layout> side : {known.results, known.operands})
    for (const Layout &layout : side)
      if (first.empty())
        first = layout;
  Layouts chosen(op);
  auto follow = [&](ValueRange values, MutableArrayRef<Layout> layouts) {
    for (auto [value, layout] : llvm::zip(values, layouts))
      if (cast<RankedTensorType>(value.getType()).getRank() ==
          static_cast<int64_t>(first.size()))
        layout = first;
  };
  follow(op->getOperands(), chosen.operands);
  follow(op->getResults(), chosen.results);
  return chosen;
}

int64_t mlir::binade::findAxis(const Layout &layout, int64_t axis) {
  return layout.empty() ? axis : llvm::find(layout, axis) - layout.begin();
}

SmallVector<int64_t> mlir::binade::findAxes(const Layout &layout,
                                            ArrayRef<int64_t> axes) {
  SmallVector<int64_t> found;
  for (int64_t axis : axes)
    found.push_back(findAxis(layout, axis));
  llvm::sort(found);
  return found;
}

SmallVector<int64_t> mlir::binade::reorder(const Layout &layout,
                                           ArrayRef<int64_t> numbers) {
  if (layout.empty())
    return SmallVector<int64_t>(numbers);
  SmallVector<int64_t> ordered;
  for (int64_t axis : layout)
    ordered.push_back(numbers[axis]);
  return ordered;
}
