//===- EmitLaunch.cpp - Launches as records -------------------------------===//

#include "../Fusion/Segments.h"
#include "PlanEmitter.h"
#include "binade/IR/InternalError.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

/// Whether each result of the segments of `op` is in the memory of an operand
/// of its segment.
static bool isInPlace(LaunchOp op, const LaunchSegments &segments,
                      const StorageMap &storages) {
  return llvm::all_of(segments.list, [&](LaunchSegment segment) {
    auto operands = op.getOperands().slice(segment.firstOperand,
                                           segment.kernel.getNumArguments());
    return llvm::all_of(
        op.getResults().slice(segment.firstResult, segment.numResults),
        [&](Value result) {
          return llvm::any_of(operands, [&](Value operand) {
            return storages.of(operand) == storages.of(result);
          });
        });
  });
}

LogicalResult PlanEmitter::emitLaunch(LaunchOp op) {
  plan::Launch launch;
  LaunchSegments segments = getSegments(op);
  StringRef name = segments.list.front().kernel.getName();
  auto shape = options.kernels.find(name);
  if (shape == options.kernels.end())
    return emitInternalError(op.getLoc())
           << "kernel @" << name << " was not compiled";
  // There is nothing to compute.
  if (!segments.isMultiTensor && shape->second.extent == 0)
    return success();
  launch.kernel = name.str();
  launch.grain = shape->second.grain;
  launch.finish = shape->second.finish;

  for (auto [kernel, firstOperand, firstResult, numResults] : segments.list) {
    plan::Segment segment;
    segment.kernel = kernel.getName().str();
    segment.extent = shape->second.extent;
    for (Value operand :
         op.getOperands().slice(firstOperand, kernel.getNumArguments())) {
      segment.operands.push_back(getView(operand));
      if (segments.isMultiTensor)
        segment.extent = std::max(segment.extent, getNumElements(operand));
    }
    for (Value result : op.getResults().slice(firstResult, numResults))
      segment.operands.push_back(getView(result));
    for (Value result : op.getResults().take_back(segments.numShared))
      segment.operands.push_back(getView(result));
    launch.segments.push_back(std::move(segment));
  }
  if (shape->second.workspaceBytes)
    addWorkspace(op, launch, shape->second, segments.isMultiTensor);
  else if (segments.isMultiTensor && segments.numShared == 0)
    launch.updatesElements = isInPlace(op, segments, storages);
  plan::Record record{describe(op, name), std::move(launch)};
  records->push_back(std::move(record));
  return success();
}

/// Adds one workspace for all segments, in which they follow one another.
void PlanEmitter::addWorkspace(LaunchOp op, plan::Launch &launch,
                               const KernelShape &shape, bool isMultiTensor) {
  auto blocks = [&](const plan::Segment &segment) -> uint64_t {
    return isMultiTensor ? llvm::divideCeil(segment.extent, shape.grain) : 1;
  };
  uint64_t total = 0;
  for (const plan::Segment &segment : launch.segments)
    total += blocks(segment) * shape.workspaceBytes;
  // The status word is read after the step.
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
