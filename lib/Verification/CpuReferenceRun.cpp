//===- CpuReferenceRun.cpp - A device's plan for the CPU ------------------===//

#include "CpuReferenceRun.h"
#include "Accesses.h"
#include "binade/Target/CPU.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Bundle;
using ::binade::Plan;

namespace {
/// Rewrites a device's plan to launch CPU kernels of the same functions.
class CpuReferenceBuilder {
public:
  CpuReferenceBuilder(ModuleOp source, const CompiledKernels &compiled,
                      Plan &plan)
      : source(source), plan(plan) {
    for (const KernelInfo &info : compiled.kernels)
      infos[info.symbol] = &info;
  }

  LogicalResult rewrite(std::vector<plan::Record> &records) {
    for (plan::Record &record : records) {
      if (auto *loop = std::get_if<plan::Loop>(&record.body)) {
        if (failed(rewrite(loop->body)))
          return failure();
      } else if (auto *launch = std::get_if<plan::Launch>(&record.body)) {
        if (failed(rewrite(*launch)))
          return failure();
      } else {
        forgetDevice(record);
      }
    }
    return success();
  }

private:
  /// Removes the device kernel, and the scratch memory of it and of the
  /// library.
  static void forgetDevice(plan::Record &record) {
    if (std::string *kernel = plan::findKernelName(record))
      kernel->clear();
    for (auto *memory :
         {plan::findScratch(record), plan::findLibraryScratch(record)})
      if (memory)
        memory->reset();
  }

  LogicalResult rewrite(plan::Launch &launch) {
    func::FuncOp first = findKernel(source, launch, launch.segments.front());
    if (!first || !infos.contains(first.getName()))
      return source.emitError("the source has no kernel '")
             << launch.kernel << "', which the plan launches";
    const KernelInfo &info = *infos[first.getName()];
    launch.grain = info.grain;
    launch.finish = info.hasFinish;
    launch.finishOperands.clear();
    bool isMultiTensor = isMultiTensorKernel(first);
    auto blocks = [&](const plan::Segment &segment) {
      return isMultiTensor ? llvm::divideCeil(segment.extent, info.grain) : 1;
    };
    uint64_t bytes = 0;
    for (plan::Segment &segment : launch.segments) {
      func::FuncOp kernel = findKernel(source, launch, segment);
      size_t operands = kernel.getNumArguments() + kernel.getNumResults();
      if (segment.operands.size() < operands)
        return source.emitError("kernel '")
               << kernel.getName() << "' has " << operands
               << " operands and results, the plan " << segment.operands.size();
      if (segment.operands.size() > operands)
        moveStatus(segment.operands[operands], info.hasStatus);
      segment.operands.resize(operands);
      if (!isMultiTensor)
        segment.extent = info.extent;
      bytes += blocks(segment) * info.workspaceBytes;
    }
    if (bytes == 0)
      return success();
    plan::View workspace = addWorkspace(bytes);
    if (info.hasFinish) {
      launch.finishOperands = launch.segments.front().operands;
      launch.finishOperands.push_back(workspace);
    }
    for (plan::Segment &segment : launch.segments) {
      segment.operands.push_back(workspace);
      workspace.offset += blocks(segment) * info.workspaceBytes;
    }
    return success();
  }

  /// Moves the port of an index fault, which is in the device's workspace, to
  /// the end of the arena, where the CPU's workspace will be added.
  void moveStatus(const plan::View &workspace, bool hasStatus) {
    uint64_t offset = plan.buffers[workspace.buffer].offset + workspace.offset;
    for (const plan::Port &port : plan.ports)
      if (hasStatus && port.role == plan::Role::Metric &&
          plan.buffers[port.buffer].offset == offset)
        plan.buffers[port.buffer].offset = getEnd();
  }

  uint64_t getEnd() const {
    constexpr uint64_t kAlignment = 64;
    return llvm::alignTo(plan.arenaBytes, kAlignment);
  }

  plan::View addWorkspace(uint64_t bytes) {
    plan::Buffer buffer;
    buffer.offset = getEnd();
    buffer.bytes = bytes;
    buffer.dtype = ::binade::DType::U8;
    buffer.shape = {static_cast<int64_t>(bytes)};
    buffer.category = plan::Category::Workspace;
    plan.ledger[plan::Category::Workspace] +=
        buffer.offset + bytes - plan.arenaBytes;
    plan.arenaBytes = buffer.offset + bytes;
    plan.buffers.push_back(std::move(buffer));
    return {static_cast<uint32_t>(plan.buffers.size() - 1), 0, {}, {}};
  }

  ModuleOp source;
  Plan &plan;
  llvm::StringMap<const KernelInfo *> infos;
};
} // namespace

FailureOr<Bundle> mlir::binade::makeCpuReference(ModuleOp source,
                                                 const Plan &plan) {
  std::optional<CpuLevel> level = getHostLevel();
  if (!level)
    return source.emitError("this machine lacks AVX2 and FMA, which kernels "
                            "for the CPU need");
  CpuOptions options;
  options.level = *level;
  options.cacheDirectory = getDefaultCacheDirectory();
  FailureOr<CompiledKernels> compiled = compileKernels(source, options);
  if (failed(compiled))
    return failure();
  Bundle reference;
  reference.plan = plan;
  reference.plan.chip.clear();
  reference.plan.deviceKernels.clear();
  reference.plan.threads = 0;
  CpuReferenceBuilder builder(source, *compiled, reference.plan);
  for (auto *records : reference.plan.getLists())
    if (failed(builder.rewrite(*records)))
      return failure();
  auto object = std::as_bytes(std::span(compiled->object));
  reference.kernels[getName(*level).str()] = {object.begin(), object.end()};
  return reference;
}
