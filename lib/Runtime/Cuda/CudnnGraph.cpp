//===- CudnnGraph.cpp - Graphs of operations for cuDNN --------------------===//

#include "CudnnGraph.h"
#include <algorithm>

using namespace binade;
using namespace binade::cuda;
using namespace binade::cuda::cudnn;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Descriptor CudnnGraph::create(int kind) {
  Descriptor made = nullptr;
  if (failure)
    return made;
  const Table &functions = library->functions;
  if (auto done = library->call(functions.descriptorCreate, kind, &made); !done)
    failure = done.takeError();
  else
    parts.emplace_back(made, functions.descriptorDestroy.address);
  return made;
}

void CudnnGraph::finalize(Descriptor descriptor) {
  if (failure)
    return;
  auto done = library->call(library->functions.descriptorFinalize, descriptor);
  if (!done)
    failure = done.takeError();
}

template <typename Value>
void CudnnGraph::set(Descriptor descriptor, int name, int type,
                     std::span<const Value> values) {
  if (failure)
    return;
  auto done =
      library->call(library->functions.attributeSet, descriptor, name, type,
                    static_cast<std::int64_t>(values.size()), values.data());
  if (!done)
    failure = done.takeError();
}

void CudnnGraph::set(Descriptor descriptor, int name, Descriptor value) {
  set(descriptor, name, attributeType::Descriptor, value);
}

template <typename Value>
void CudnnGraph::get(Descriptor descriptor, int name, int type,
                     std::vector<Value> &values) {
  std::int64_t count = 0;
  if (!failure)
    if (auto done =
            library->call(library->functions.attributeGet, descriptor, name,
                          type, static_cast<std::int64_t>(values.size()),
                          &count, static_cast<void *>(values.data()));
        !done)
      failure = done.takeError();
  values.resize(std::min(values.size(), static_cast<std::size_t>(count)));
}

void CudnnGraph::fill(Descriptor descriptor, int name,
                      std::vector<Descriptor> &values) {
  get(descriptor, name, attributeType::Descriptor, values);
}

//===----------------------------------------------------------------------===//
// Tensors and operations
//===----------------------------------------------------------------------===//

GraphTensor CudnnGraph::add(GraphTensor tensor, GraphTensor::Place place) {
  if (tensor.id == 0)
    tensor.id = kFirstVirtual + virtualTensors++;
  Descriptor made = tensor.descriptor = create(descriptor::Tensor);
  set(made, attributeName::TensorType, attributeType::DataType, tensor.type);
  set(made, attributeName::TensorSizes, attributeType::Int64,
      std::span<const std::int64_t>(tensor.sizes));
  set(made, attributeName::TensorStrides, attributeType::Int64,
      std::span<const std::int64_t>(tensor.strides));
  set(made, attributeName::TensorId, attributeType::Int64, tensor.id);
  set(made, attributeName::TensorAlignment, attributeType::Int64,
      GraphTensor::kAlignment);
  if (place == GraphTensor::Virtual)
    set(made, attributeName::TensorIsVirtual, attributeType::Boolean, true);
  if (place == GraphTensor::Scalar)
    set(made, attributeName::TensorIsByValue, attributeType::Boolean, true);
  finalize(made);
  return tensor;
}

void CudnnGraph::multiply(const GraphTensor &left, const GraphTensor &right,
                          const GraphTensor &out) {
  Descriptor matmul = create(descriptor::Matmul);
  set(matmul, attributeName::MatmulMathType, attributeType::DataType,
      int(type::F32));
  set(matmul, attributeName::MatmulPadding, attributeType::Double, 0.0);
  finalize(matmul);
  Descriptor made = create(descriptor::OperationMatmul);
  set(made, attributeName::OperationMatmulA, left);
  set(made, attributeName::OperationMatmulB, right);
  set(made, attributeName::OperationMatmulC, out);
  set(made, attributeName::OperationMatmul, matmul);
  finalize(made);
  operations.push_back(made);
}

void CudnnGraph::add(const Pointwise &operation) {
  Descriptor pointwise = create(descriptor::Pointwise);
  set(pointwise, attributeName::PointwiseMode, attributeType::PointwiseMode,
      operation.mode);
  set(pointwise, attributeName::PointwiseMathType, attributeType::DataType,
      operation.type);
  if (operation.axis)
    set(pointwise, attributeName::PointwiseAxis, attributeType::Int64,
        *operation.axis);
  finalize(pointwise);
  Descriptor made = create(descriptor::OperationPointwise);
  set(made, attributeName::OperationPointwise, pointwise);
  set(made, attributeName::OperationPointwiseX, *operation.x);
  set(made, attributeName::OperationPointwiseY, *operation.out);
  set(made, attributeName::OperationPointwiseAlpha1, attributeType::Float,
      1.0f);
  set(made, attributeName::OperationPointwiseAlpha2, attributeType::Float,
      1.0f);
  if (operation.b)
    set(made, attributeName::OperationPointwiseB, *operation.b);
  if (operation.condition)
    set(made, attributeName::OperationPointwiseT, *operation.condition);
  finalize(made);
  operations.push_back(made);
}

void CudnnGraph::apply(int mode, const GraphTensor &x, const GraphTensor &out) {
  add({.mode = mode, .x = &x, .out = &out});
}

void CudnnGraph::apply(int mode, const GraphTensor &x, const GraphTensor &b,
                       const GraphTensor &out) {
  add({.mode = mode, .x = &x, .out = &out, .b = &b});
}

void CudnnGraph::index(std::int64_t axis, const GraphTensor &x,
                       const GraphTensor &out) {
  add({.mode = pointwise::Index, .x = &x, .out = &out, .axis = axis});
}

void CudnnGraph::compare(int mode, const GraphTensor &x, const GraphTensor &b,
                         const GraphTensor &out) {
  add({.mode = mode, .type = type::Boolean, .x = &x, .out = &out, .b = &b});
}

void CudnnGraph::select(const GraphTensor &condition, const GraphTensor &x,
                        const GraphTensor &b, const GraphTensor &out) {
  add({.mode = pointwise::Select,
       .x = &x,
       .out = &out,
       .b = &b,
       .condition = &condition});
}

void CudnnGraph::reduce(int op, const GraphTensor &x, const GraphTensor &out) {
  Descriptor reduction = create(descriptor::Reduction);
  set(reduction, attributeName::ReductionMathType, attributeType::DataType,
      int(type::F32));
  set(reduction, attributeName::ReductionOperator,
      attributeType::ReductionOperator, op);
  // Engines of attention ignore it, and the pattern expects its default.
  set(reduction, attributeName::ReductionIsDeterministic,
      attributeType::Boolean, false);
  finalize(reduction);
  Descriptor made = create(descriptor::OperationReduction);
  set(made, attributeName::OperationReduction, reduction);
  set(made, attributeName::OperationReductionX, x);
  set(made, attributeName::OperationReductionY, out);
  finalize(made);
  operations.push_back(made);
}

void CudnnGraph::reshape(const GraphTensor &x, const GraphTensor &out) {
  Descriptor made = create(descriptor::OperationReshape);
  set(made, attributeName::OperationReshapeX, x);
  set(made, attributeName::OperationReshapeY, out);
  finalize(made);
  operations.push_back(made);
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

/// Returns the engines that cuDNN recommends for the graph, the fastest first.
std::vector<Descriptor> CudnnGraph::listEngineConfigs() {
  Descriptor graph = create(descriptor::OperationGraph);
  set(graph, attributeName::GraphOperations, attributeType::Descriptor,
      std::span<const Descriptor>(operations));
  set(graph, attributeName::GraphHandle, attributeType::Handle,
      library->handle);
  finalize(graph);
  Descriptor heuristics = create(descriptor::EngineHeuristics);
  set(heuristics, attributeName::HeuristicsGraph, graph);
  set(heuristics, attributeName::HeuristicsMode, attributeType::HeuristicMode,
      kHeuristicModeA);
  finalize(heuristics);
  constexpr std::size_t kMax = 16;
  std::vector<Descriptor> configs(kMax);
  for (Descriptor &config : configs)
    config = create(descriptor::EngineConfig);
  fill(heuristics, attributeName::HeuristicsResults, configs);
  return configs;
}

bool CudnnGraph::isAllowed(Descriptor engine) {
  constexpr std::size_t kMax = 32;
  std::vector<int> notes(kMax);
  get(engine, attributeName::EngineNumericalNotes, attributeType::NumericalNote,
      notes);
  return !failure && std::all_of(notes.begin(), notes.end(), [](int note) {
    return note == note::TensorCore || note == note::StrictNan;
  });
}

std::optional<CudnnPlan> CudnnGraph::prepare(Descriptor config) {
  std::vector<Descriptor> engine = {create(descriptor::Engine)};
  fill(config, attributeName::EngineConfigEngine, engine);
  if (engine.empty() || !isAllowed(engine.front()))
    return std::nullopt;
  CudnnPlan plan;
  plan.plan = create(descriptor::ExecutionPlan);
  set(plan.plan, attributeName::PlanEngineConfig, config);
  finalize(plan.plan);
  std::vector<std::int64_t> bytes(1), index(1);
  get(plan.plan, attributeName::PlanWorkspaceBytes, attributeType::Int64,
      bytes);
  get(engine.front(), attributeName::EngineIndex, attributeType::Int64, index);
  if (failure || bytes.empty() || index.empty())
    return std::nullopt;
  plan.workspaceBytes = static_cast<std::uint64_t>(bytes.front());
  plan.engine = index.front();
  return plan;
}

Result<CudnnPlan> CudnnGraph::choosePlan() {
  std::vector<Descriptor> configs = listEngineConfigs();
  if (failure)
    return *failure;
  for (Descriptor config : configs) {
    std::optional<CudnnPlan> plan = prepare(config);
    if (plan) {
      plan->library = library;
      plan->parts = std::move(parts);
      return *std::move(plan);
    }
    if (library->device.hasFailed())
      break;
    failure.reset(); // Try the next engine.
  }
  if (library->device.hasFailed())
    return library->device.getFailure();
  return Error{"cuda",
               "cuDNN " + library->formatVersion() + " has no engine for it",
               ExitCode::Device};
}

Result<void> CudnnPlan::run(std::span<const GraphOperand> operands,
                            Address workspace) const {
  const Table &functions = library->functions;
  Descriptor made = nullptr;
  if (auto done = library->call(functions.descriptorCreate,
                                int(descriptor::VariantPack), &made);
      !done)
    return done;
  CudnnDescriptor pack(made, functions.descriptorDestroy.address);
  std::vector<std::int64_t> ids;
  std::vector<void *> addresses;
  for (const GraphOperand &operand : operands) {
    ids.push_back(operand.id);
    addresses.push_back(operand.address);
  }
  void *scratch = reinterpret_cast<void *>(workspace);
  auto set = [&](int name, int type, std::size_t count, const void *values) {
    return library->call(functions.attributeSet, made, name, type,
                         static_cast<std::int64_t>(count), values);
  };
  if (auto done = set(attributeName::PackWorkspace, attributeType::Pointer, 1,
                      &scratch);
      !done)
    return done;
  if (auto done = set(attributeName::PackPointers, attributeType::Pointer,
                      addresses.size(), addresses.data());
      !done)
    return done;
  if (auto done = set(attributeName::PackIds, attributeType::Int64, ids.size(),
                      ids.data());
      !done)
    return done;
  if (auto done = library->call(functions.descriptorFinalize, made); !done)
    return done;
  return library->call(functions.execute, library->handle, plan, made);
}
