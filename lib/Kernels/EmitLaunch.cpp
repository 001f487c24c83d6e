//===- EmitLaunch.cpp - Launches of kernels as records --------------------===//

#include "PlanEmitter.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

static func::FuncOp lookUp(Operation *op, FlatSymbolRefAttr symbol) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, symbol);
}

LogicalResult PlanEmitter::emitLaunch(LaunchOp op) {
  plan::Launch launch;
  auto symbols =
      llvm::to_vector(op.getKernels().getAsRange<FlatSymbolRefAttr>());
  auto first = lookUp(op, symbols.front());
  bool overMany = first->getAttrOfType<ScheduleAttr>(kKernelAttr).getValue() ==
                  Schedule::MultiTensor;
  auto shape = options.kernels.find(symbols.front().getValue());
  if (shape == options.kernels.end())
    return op.emitError("kernel ") << symbols.front() << " was not compiled";
  launch.kernel = symbols.front().getValue().str();
  launch.grain = shape->second.grain;
  launch.finish = shape->second.finish;

  auto operands = op.getOperands().begin();
  auto results = op.getResults().begin();
  SmallVector<plan::View> shared;
  if (overMany)
    for (Value value : op.getResults())
      if (cast<RankedTensorType>(value.getType()).getRank() == 0)
        shared.push_back(getView(value));
  for (FlatSymbolRefAttr symbol : symbols) {
    func::FuncOp kernel = lookUp(op, symbol);
    plan::Segment segment;
    segment.kernel = symbol.getValue().str();
    segment.extent = shape->second.extent;
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i, ++operands) {
      segment.operands.push_back(getView(*operands));
      if (overMany)
        segment.extent = std::max(segment.extent, getNumElements(*operands));
    }
    unsigned own = kernel.getNumResults() - shared.size();
    for (unsigned i = 0; i < own; ++i, ++results)
      segment.operands.push_back(getView(*results));
    llvm::append_range(segment.operands, shared);
    launch.segments.push_back(std::move(segment));
  }
  if (shape->second.workspaceBytes)
    addWorkspace(op, launch, shape->second, overMany);
  plan::Record record{describe(op, symbols.front().getValue()),
                      std::move(launch)};
  records->push_back(std::move(record));
  return success();
}

/// One workspace for all segments, each from where the one before ends.
void PlanEmitter::addWorkspace(LaunchOp op, plan::Launch &launch,
                               const KernelShape &shape, bool overMany) {
  auto blocks = [&](const plan::Segment &segment) -> uint64_t {
    return overMany ? llvm::divideCeil(segment.extent, shape.grain) : 1;
  };
  uint64_t total = 0;
  for (const plan::Segment &segment : launch.segments)
    total += blocks(segment) * shape.workspaceBytes;
  // A status is read after the step.
  unsigned storage = storages.addScratch(total, op, plan::Category::Workspace,
                                         /*persistent=*/shape.hasStatus);
  plan::View view = getBytes(storage, total);
  if (shape.hasStatus)
    statuses.push_back({describe(op, launch.kernel), storage});
  if (launch.finish) {
    launch.finishOperands = launch.segments.front().operands;
    launch.finishOperands.push_back(view);
  }
  for (plan::Segment &segment : launch.segments) {
    segment.operands.push_back(view);
    view.offset += blocks(segment) * shape.workspaceBytes;
  }
}
