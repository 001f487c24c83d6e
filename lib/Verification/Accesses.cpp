//===- Accesses.cpp - Memory accesses of records --------------------------===//

#include "Accesses.h"
#include "binade/IR/Interface.h"
#include "binade/Kernels/EmitPlan.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Plan;

func::FuncOp mlir::binade::findKernel(ModuleOp source,
                                      const plan::Launch &launch,
                                      const plan::Segment &segment) {
  return source.lookupSymbol<func::FuncOp>(
      segment.kernel.empty() ? launch.kernel : segment.kernel);
}

bool mlir::binade::isMultiTensorKernel(func::FuncOp kernel) {
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kKernelAttr);
  return schedule && schedule.getValue() == Schedule::MultiTensor;
}

namespace {
class AccessLister {
public:
  AccessLister(const Plan &plan, ArrayRef<int64_t> iteration)
      : plan(plan), iteration(iteration) {}

  void add(const plan::Launch &launch, ModuleOp source) {
    for (const plan::Segment &segment : launch.segments) {
      func::FuncOp kernel = findKernel(source, launch, segment);
      unsigned operands = kernel.getNumArguments();
      for (unsigned i = 0; i < operands + kernel.getNumResults(); ++i) {
        bool isWritten = i >= operands;
        Type type = isWritten ? kernel.getResultTypes()[i - operands]
                              : kernel.getArgumentTypes()[i];
        add(segment.operands[i], cast<RankedTensorType>(type),
            isMultiTensorKernel(kernel), isWritten);
      }
    }
  }

  /// Adds the tensors of a record other than a launch.
  void add(const plan::Record &record) {
    for (const plan::Operand &operand : plan::listOperands(record))
      if (operand.isDense && !operand.sizes.empty())
        addWhole(operand.view, operand.isWritten());
      else if (operand.isTensor())
        add(operand.view, operand.sizes, operand.isWritten());
  }

  SmallVector<RecordAccess, 0> accesses;

private:
  RecordAccess start(const plan::View &view, bool isWritten) const {
    const plan::Buffer &buffer = plan.buffers[view.buffer];
    RecordAccess access;
    access.buffer = view.buffer;
    access.dtype = buffer.dtype;
    access.isWritten = isWritten;
    access.first = view.offset;
    for (auto [step, index] : llvm::zip(view.steps, iteration))
      access.first += step * index;
    access.offset = buffer.offset + access.first * byteSize(buffer.dtype);
    return access;
  }

  /// Adds an operand of a kernel. The type of a multi-tensor kernel is that of
  /// a vector, but it accesses whole tensors.
  void add(const plan::View &view, RankedTensorType type, bool isMultiTensor,
           bool isWritten) {
    RecordAccess access = start(view, isWritten);
    const plan::Buffer &buffer = plan.buffers[view.buffer];
    access.type =
        isMultiTensor && type.getRank() > 0
            ? RankedTensorType::get(buffer.shape, type.getElementType())
            : type;
    access.bytes = access.type.getNumElements() *
                   byteSize(getDType(type.getElementType()));
    accesses.push_back(access);
  }

  void add(const plan::View &view, ArrayRef<int64_t> sizes, bool isWritten) {
    RecordAccess access = start(view, isWritten);
    int64_t last = 0;
    for (auto [size, stride] : llvm::zip(sizes, view.strides))
      last += (size - 1) * stride;
    bool isEmpty = llvm::is_contained(sizes, 0);
    access.bytes = isEmpty ? 0 : (last + 1) * byteSize(access.dtype);
    accesses.push_back(access);
  }

  void addWhole(const plan::View &view, bool isWritten) {
    RecordAccess access = start(view, isWritten);
    const plan::Buffer &buffer = plan.buffers[view.buffer];
    access.bytes = buffer.offset + buffer.bytes - access.offset;
    accesses.push_back(access);
  }

  const Plan &plan;
  ArrayRef<int64_t> iteration;
};
} // namespace

SmallVector<RecordAccess, 0>
mlir::binade::listAccesses(const Plan &plan, ModuleOp source,
                           const plan::Record &record,
                           ArrayRef<int64_t> iteration) {
  AccessLister lister(plan, iteration);
  if (auto *launch = std::get_if<plan::Launch>(&record.body))
    lister.add(*launch, source);
  else if (!std::holds_alternative<plan::Loop>(record.body))
    lister.add(record);
  return std::move(lister.accesses);
}
