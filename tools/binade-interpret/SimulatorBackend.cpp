//===- SimulatorBackend.cpp - Run GPU kernels in the simulator ------------===//

#include "SimulatorBackend.h"
#include "Step.h"
#include "binade/Codegen/EmitKernel.h"
#include "binade/Codegen/Passes.h"
#include "binade/IR/Batches.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::Result;

/// Byte that fills buffers before they are written. It makes floats NaN, so
/// that reads of uninitialized memory show up in the results.
static constexpr char kPoison = static_cast<char>(0xff);

namespace {
/// The kernels of a module, lowered to the gpu dialect.
class SimulatedKernels {
public:
  static FailureOr<SimulatedKernels> of(ModuleOp module);

  /// Runs the kernel that was lowered from `source`.
  FailureOr<SmallVector<TensorRef>> run(func::FuncOp source,
                                        ArrayRef<TensorRef> operands,
                                        ArrayRef<RankedTensorType> types);
  /// Returns the name of a kernel that used an index out of range, or "".
  const std::string &getIndexFault() const { return indexFault; }

private:
  LogicalResult launch(const std::string &symbol,
                       MutableArrayRef<std::vector<char>> memories);
  LogicalResult launchWithTable(const KernelInfo &info,
                                MutableArrayRef<std::vector<char>> memories,
                                int64_t extent);
  gpu::GPUFuncOp find(const std::string &symbol);

  OwningOpRef<ModuleOp> module;
  llvm::StringMap<KernelInfo> infos;
  std::string indexFault;
  uint64_t launches = 1; ///< Seeds the thread order of a launch.
};
} // namespace

FailureOr<SimulatedKernels> SimulatedKernels::of(ModuleOp module) {
  loadKernelDialects(*module.getContext());
  SimulatedKernels kernels;
  kernels.module = ModuleOp::create(module.getLoc());
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(kKernelAttr))
      continue;
    FailureOr<KernelInfo> info = emitGpuKernel(kernel, *kernels.module);
    if (failed(info))
      return failure();
    kernels.infos[kernel.getName()] = std::move(*info);
  }
  PassManager passes(module.getContext());
  buildGpuExpansionPipeline(passes);
  if (failed(passes.run(*kernels.module)))
    return failure();
  return kernels;
}

gpu::GPUFuncOp SimulatedKernels::find(const std::string &symbol) {
  gpu::GPUFuncOp kernel;
  module->walk([&](gpu::GPUFuncOp found) {
    if (found.getName() == symbol)
      kernel = found;
  });
  return kernel;
}

LogicalResult
SimulatedKernels::launch(const std::string &symbol,
                         MutableArrayRef<std::vector<char>> memories) {
  gpu::GPUFuncOp kernel = find(symbol);
  SimulatedLaunch shape;
  llvm::copy(*kernel.getKnownGridSize(), shape.grid.begin());
  llvm::copy(*kernel.getKnownBlockSize(), shape.block.begin());
  for (std::vector<char> &memory : memories)
    shape.arguments.emplace_back(MutableArrayRef<char>(memory));
  shape.order = launches++;
  return simulate(kernel, shape);
}

/// Copies `memories` into one allocation and runs a multi-tensor or batched
/// kernel over `extent` elements or work items, which a table assigns to blocks
/// of threads.
LogicalResult
SimulatedKernels::launchWithTable(const KernelInfo &info,
                                  MutableArrayRef<std::vector<char>> memories,
                                  int64_t extent) {
  constexpr size_t kAlignment = 64;
  std::vector<char> all;
  std::vector<int64_t> starts, table;
  for (const std::vector<char> &memory : memories) {
    all.resize(llvm::alignTo(all.size(), kAlignment), kPoison);
    starts.push_back(static_cast<int64_t>(all.size()));
    llvm::append_range(all, memory);
  }
  int64_t blocks = llvm::divideCeil(extent, info.grain);
  for (int64_t block = 0; block < blocks; ++block) {
    llvm::append_range(table, starts);
    table.push_back(block * info.grain);
    table.push_back(std::min((block + 1) * info.grain, extent));
  }
  auto run = [&](const std::string &symbol, int64_t grid) {
    gpu::GPUFuncOp kernel = find(symbol);
    SimulatedLaunch shape;
    shape.grid = {grid, 1, 1};
    llvm::copy(*kernel.getKnownBlockSize(), shape.block.begin());
    shape.arguments.emplace_back(MutableArrayRef<char>(all));
    shape.arguments.emplace_back(
        MutableArrayRef<char>(reinterpret_cast<char *>(table.data()),
                              table.size() * sizeof(int64_t)));
    shape.order = launches++;
    return simulate(kernel, shape);
  };
  if (failed(run(info.symbol + ".items", blocks)))
    return failure();
  if (info.hasFinish) {
    table = starts;
    table.push_back(blocks);
    if (failed(run(info.symbol + ".finish", 1)))
      return failure();
  }
  for (auto [memory, start] : llvm::zip(memories, starts))
    std::copy_n(all.begin() + start, memory.size(), memory.begin());
  return success();
}

FailureOr<SmallVector<TensorRef>>
SimulatedKernels::run(func::FuncOp source, ArrayRef<TensorRef> operands,
                      ArrayRef<RankedTensorType> types) {
  const KernelInfo &info = infos.find(source.getName())->second;
  auto schedule = source->getAttrOfType<ScheduleAttr>(kKernelAttr);
  bool isMultiTensor = schedule.getValue() == Schedule::MultiTensor;
  std::vector<std::vector<char>> memories;
  int64_t elements = 1;
  for (const TensorRef &operand : operands) {
    memories.push_back(operand->toBytes());
    elements = std::max(elements, operand->getNumElements());
  }
  for (RankedTensorType type : types)
    memories.emplace_back(type.getNumElements() *
                              Tensor::getByteWidth(type.getElementType()),
                          kPoison);
  if (info.workspaceBytes > 0)
    memories.emplace_back(
        info.workspaceBytes *
            (isMultiTensor ? llvm::divideCeil(elements, info.grain) : 1),
        kPoison);
  if (info.hasStatus)
    std::fill_n(memories.back().begin(), kStatusBytes, 0);
  if (isMultiTensor || source->hasAttr(kBatchedAttr)) {
    if (failed(launchWithTable(info, memories,
                               isMultiTensor ? elements : info.extent)))
      return failure();
  } else if (failed(launch(info.symbol + ".items", memories)) ||
             (info.hasFinish &&
              failed(launch(info.symbol + ".finish", memories)))) {
    return failure();
  }
  if (info.hasStatus && memories.back().front() != 0)
    indexFault = info.symbol;
  SmallVector<TensorRef> results;
  for (auto [index, type] : llvm::enumerate(types)) {
    FailureOr<Tensor> result =
        Tensor::fromBytes(type, memories[operands.size() + index]);
    if (failed(result))
      return source.emitError("result ")
             << index << " of kernel '@" << source.getName()
             << "' holds bytes that do not represent a value of its type";
    results.push_back(std::make_shared<Tensor>(std::move(*result)));
  }
  return results;
}

Result<NamedTensors> evaluateOnSimulator(ModuleOp module, StringRef function,
                                         const NamedTensors &inputs,
                                         const EvaluationOptions &options) {
  std::string where = ("@" + function).str();
  OwningOpRef<ModuleOp> step = makeStep(module, function);
  DiagnosticCollector diagnostics(module.getContext());
  auto fail = [&](StringRef what) {
    return diagnostics.takeError(where, what.str());
  };
  if (failed(formKernels(*step)))
    return fail("cannot be compiled");
  FailureOr<SimulatedKernels> kernels = SimulatedKernels::of(*step);
  if (failed(kernels))
    return fail("cannot be compiled for a GPU");
  EvaluationOptions own = options;
  own.kernels = [&](func::FuncOp kernel, ArrayRef<TensorRef> operands,
                    ArrayRef<RankedTensorType> types) {
    return kernels->run(kernel, operands, types);
  };
  FailureOr<Outputs> outputs = evaluate(*step, kStepName, inputs, own);
  if (failed(outputs))
    return fail("cannot be simulated");
  if (!kernels->getIndexFault().empty())
    return Error{where, "an index is out of range in " +
                            ::binade::quote(kernels->getIndexFault())};
  return std::move(outputs->values);
}
