//===- SimulatorBackend.cpp - Run kernels of a GPU without one ------------===//

#include "SimulatorBackend.h"
#include "Step.h"
#include "binade/Conversion/Passes.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Result;

/// What buffers hold before they are written: no number that passes for one.
static constexpr char kPoison = static_cast<char>(0xff);

/// The kernels of `module` in the gpu dialect, as they go on to a target.
static FailureOr<OwningOpRef<ModuleOp>> emitGpuKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = module.clone();
  PassManager passes(module.getContext());
  buildGpuConversionPipeline(passes);
  if (failed(passes.run(*kernels)))
    return failure();
  return kernels;
}

/// Runs the kernel that was made of `source`.
static FailureOr<SmallVector<TensorRef>>
launch(ModuleOp kernels, func::FuncOp source, ArrayRef<TensorRef> operands) {
  gpu::GPUFuncOp kernel;
  kernels.walk([&](gpu::GPUFuncOp found) {
    if (found.getName() == (source.getName() + ".items").str())
      kernel = found;
  });
  if (!kernel)
    return source.emitError("kernel '@")
           << source.getName() << "' was not emitted";
  std::vector<std::vector<char>> memories;
  for (const TensorRef &operand : operands)
    memories.push_back(operand->toBytes());
  for (Type type : source.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    memories.emplace_back(tensor.getNumElements() *
                              Tensor::getByteWidth(tensor.getElementType()),
                          kPoison);
  }
  for (Type type : kernel.getArgumentTypes().drop_front(memories.size()))
    memories.emplace_back(cast<MemRefType>(type).getNumElements(), 0);
  SimulatedLaunch shape;
  llvm::copy(*kernel.getKnownGridSize(), shape.grid.begin());
  llvm::copy(*kernel.getKnownBlockSize(), shape.block.begin());
  for (std::vector<char> &memory : memories)
    shape.arguments.emplace_back(MutableArrayRef<char>(memory));
  if (failed(simulate(kernel, shape)))
    return failure();
  SmallVector<TensorRef> results;
  for (auto [index, type] : llvm::enumerate(source.getResultTypes())) {
    FailureOr<Tensor> result = Tensor::fromBytes(
        cast<RankedTensorType>(type), memories[operands.size() + index]);
    if (failed(result))
      return source.emitError("result ")
             << index << " of kernel '@" << source.getName()
             << "' holds bytes that are no value of its type";
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
  FailureOr<OwningOpRef<ModuleOp>> kernels = emitGpuKernels(*step);
  if (failed(kernels))
    return fail("cannot be compiled for a GPU");
  EvaluationOptions own = options;
  own.kernels = [&](func::FuncOp kernel, ArrayRef<TensorRef> operands) {
    return launch(**kernels, kernel, operands);
  };
  FailureOr<Outputs> outputs = evaluate(*step, kStepName, inputs, own);
  if (failed(outputs))
    return fail("cannot be simulated");
  return std::move(outputs->values);
}
