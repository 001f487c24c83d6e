//===- Alignment.cpp - Alignments of kernel operands ----------------------===//

#include "Alignment.h"
#include "binade/Codegen/EmitKernel.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

static IntegerAttr getOwn(func::FuncOp kernel, unsigned index) {
  unsigned operands = kernel.getNumArguments();
  return index < operands
             ? kernel.getArgAttrOfType<IntegerAttr>(index, kAlignAttr)
             : kernel.getResultAttrOfType<IntegerAttr>(index - operands,
                                                       kAlignAttr);
}

/// Lowers the recorded alignment of an operand or result, if `alignment` is
/// less. A kernel gets the minimum over all its launches. Returns whether it
/// changed.
static bool lower(func::FuncOp kernel, unsigned index, int64_t alignment) {
  IntegerAttr own = getOwn(kernel, index);
  if (alignment >= (own ? own.getInt() : kGpuAlignment))
    return false;
  auto attr = Builder(kernel.getContext())
                  .getI32IntegerAttr(static_cast<int32_t>(alignment));
  unsigned operands = kernel.getNumArguments();
  if (index < operands)
    kernel.setArgAttr(index, kAlignAttr, attr);
  else
    kernel.setResultAttr(index - operands, kAlignAttr, attr);
  return true;
}

static bool note(ModuleOp module, const ::binade::Plan &plan,
                 const std::vector<plan::Record> &records) {
  bool isNew = false;
  for (const plan::Record &record : records) {
    if (auto *loop = std::get_if<plan::Loop>(&record.body))
      isNew |= note(module, plan, loop->body);
    auto *launch = std::get_if<plan::Launch>(&record.body);
    if (!launch)
      continue;
    for (const plan::Segment &segment : launch->segments) {
      auto kernel = module.lookupSymbol<func::FuncOp>(segment.kernel);
      // The workspace follows operands and results, and is always aligned.
      unsigned count = kernel.getNumArguments() + kernel.getNumResults();
      for (unsigned index = 0; index < count; ++index)
        isNew |=
            lower(kernel, index,
                  plan::findAlignment(plan.buffers, segment.operands[index]));
    }
  }
  return isNew;
}

bool mlir::binade::noteAlignments(ModuleOp module, const ::binade::Plan &plan) {
  bool isNew = false;
  for (const auto *records : plan.getLists())
    isNew |= note(module, plan, *records);
  return isNew;
}

std::vector<int64_t> mlir::binade::getAlignments(func::FuncOp kernel) {
  std::vector<int64_t> alignments;
  bool isAny = false;
  unsigned count = kernel.getNumArguments() + kernel.getNumResults();
  for (unsigned index = 0; index < count; ++index) {
    IntegerAttr own = getOwn(kernel, index);
    isAny |= own != nullptr;
    alignments.push_back(own ? own.getInt() : kGpuAlignment);
  }
  return isAny ? alignments : std::vector<int64_t>();
}
