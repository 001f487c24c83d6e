//===- HeadOperand.h - Operands of attention by head ------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_ATTENTION_HEADOPERAND_H
#define BINADE_LIB_RUNTIME_ATTENTION_HEADOPERAND_H

#include "../Execution/KernelObject.h"
#include "Kernels.h"

namespace binade::attention {

/// Returns the number of heads of batch axes with these sizes.
inline std::int64_t countHeads(const std::vector<std::int64_t> &sizes) {
  std::int64_t heads = 1;
  for (std::int64_t size : sizes)
    heads *= size;
  return heads;
}

/// An operand of attention, which has a matrix for each head.
class HeadOperand {
public:
  HeadOperand(const plan::View &view, std::size_t batchAxes,
              const Memory &memory)
      : address(memory.addressOf(view)), dtype(memory.typeOf(view)),
        batch(view.strides.begin(), view.strides.begin() + batchAxes),
        stride(view.strides[batchAxes]),
        columnStride(view.strides.size() > batchAxes + 1
                         ? view.strides[batchAxes + 1]
                         : 1) {}

  /// Makes all heads of the last batch axis use the same elements.
  void share() { batch.back() = 0; }
  void startAt(std::span<const std::int64_t> iteration) {
    base = address.at(iteration);
  }
  DType getType() const { return dtype; }
  bool variesAlong(std::size_t batchAxis) const {
    return batch[batchAxis] != 0;
  }
  bool variesByQuery() const { return stride != 0; }
  bool variesByKey() const { return columnStride != 0; }
  Rows getRows(std::int64_t number,
               const std::vector<std::int64_t> &sizes) const {
    return {find(number, sizes), dtype, stride};
  }
  ScoreOperand getScores(std::int64_t number,
                         const std::vector<std::int64_t> &sizes) const {
    return {find(number, sizes), dtype, stride, columnStride};
  }

private:
  std::byte *find(std::int64_t number,
                  const std::vector<std::int64_t> &sizes) const {
    std::int64_t element = 0;
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      element += number % sizes[axis] * batch[axis];
      number /= sizes[axis];
    }
    return base + element * static_cast<std::int64_t>(byteSize(dtype));
  }

  Address address;
  DType dtype;
  std::vector<std::int64_t> batch; ///< Strides of the batch axes.
  std::int64_t stride, columnStride;
  std::byte *base = nullptr;
};

} // namespace binade::attention

#endif // BINADE_LIB_RUNTIME_ATTENTION_HEADOPERAND_H
