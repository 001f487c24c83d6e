//===- CudnnGraph.cpp - Graphs of the simulated cuDNN ---------------------===//
// Descriptors and engines. An engine computes any graph of known operations.
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"
#include <cstring>
#include <set>
#include <sstream>
#include <type_traits>

using namespace binade::cuda::cudnn;
using simulated::BackendAttribute;
using simulated::BackendDescriptor;
using simulated::BackendPointer;
using simulated::getOperations;
using simulated::getSetting;
using simulated::getTensors;

/// The descriptors that the caller has not destroyed.
static std::map<Descriptor, BackendPointer> &getDescriptors() {
  static std::map<Descriptor, BackendPointer> descriptors;
  return descriptors;
}

static BackendPointer find(Descriptor descriptor) {
  auto found = getDescriptors().find(descriptor);
  return found == getDescriptors().end() ? nullptr : found->second;
}

static std::size_t getValueBytes(int type) {
  switch (type) {
  case attributeType::Boolean:
    return 1;
  case attributeType::DataType:
  case attributeType::Float:
  case attributeType::HeuristicMode:
  case attributeType::NumericalNote:
  case attributeType::PointwiseMode:
  case attributeType::ReductionOperator:
    return 4;
  default:
    return 8;
  }
}

std::vector<BackendPointer>
simulated::getOperations(const BackendDescriptor &graph) {
  return graph.attributes.at(attributeName::GraphOperations).descriptors;
}

std::map<int, const BackendDescriptor *>
simulated::getTensors(const BackendDescriptor &operation) {
  std::map<int, const BackendDescriptor *> tensors;
  for (const auto &[name, attribute] : operation.attributes)
    for (const BackendPointer &value : attribute.descriptors)
      if (value->kind == descriptor::Tensor)
        tensors[name] = value.get();
  return tensors;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class GraphPrinter {
public:
  std::string print(const BackendDescriptor &graph) {
    for (const BackendPointer &operation : getOperations(graph)) {
      out << operation->kind;
      printAttributes(*operation);
      out << '\n';
    }
    return out.str();
  }

private:
  void printAttributes(const BackendDescriptor &descriptor) {
    for (const auto &[name, attribute] : descriptor.attributes) {
      if (name == attributeName::TensorId)
        continue;
      out << ' ' << name << ':' << attribute.type << '=';
      if (attribute.type == attributeType::Descriptor)
        printReference(*attribute.descriptors.at(0));
      else
        for (std::int64_t i = 0; i < attribute.count; ++i) {
          out << (i ? "," : "");
          printValue(attribute, static_cast<std::size_t>(i));
        }
    }
  }

  void printReference(const BackendDescriptor &descriptor) {
    if (descriptor.kind == descriptor::Tensor) {
      auto [known, isNew] =
          numbers.try_emplace(&descriptor, static_cast<int>(numbers.size()));
      out << 't' << known->second;
      if (!isNew)
        return;
    } else {
      out << descriptor.kind;
    }
    out << '(';
    printAttributes(descriptor);
    out << " )";
  }

  void printValue(const BackendAttribute &attribute, std::size_t index) {
    const char *from =
        attribute.bytes.data() + index * getValueBytes(attribute.type);
    auto load = [&](auto value) {
      std::memcpy(&value, from, sizeof(value));
      out << value;
    };
    switch (attribute.type) {
    case attributeType::Boolean:
      return load(bool());
    case attributeType::Float:
      return load(float());
    case attributeType::Double:
      return load(double());
    case attributeType::Int64:
      return load(std::int64_t());
    default:
      return load(int());
    }
  }

  std::ostringstream out;
  std::map<const BackendDescriptor *, int> numbers;
};
} // namespace

std::string simulated::print(const BackendDescriptor &graph) {
  return GraphPrinter().print(graph);
}

static std::string &getText() {
  static std::string text;
  return text;
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

/// The engines that are recommended: one that does not support the graph, one
/// that is not deterministic, and the one to choose.
static constexpr int kUnsupported = 4, kNondeterministic = 5, kChosen = 6;

/// Gradients have an f32 tensor in memory besides the logarithms of sums, and
/// need workspace for each head.
static std::size_t getWorkspace(const BackendDescriptor &graph) {
  std::set<const BackendDescriptor *> sums;
  std::int64_t heads = 0;
  for (const BackendPointer &operation : getOperations(graph))
    for (const auto &[name, tensor] : getTensors(*operation))
      if (tensor->get<int>(attributeName::TensorType) == type::F32 &&
          !tensor->has(attributeName::TensorIsVirtual) &&
          !tensor->has(attributeName::TensorIsByValue)) {
        auto sizes = tensor->list<std::int64_t>(attributeName::TensorSizes);
        heads = sizes[0] * sizes[1];
        sums.insert(tensor);
      }
  constexpr std::size_t kFixed = 200;
  return sums.size() < 2 ? kFixed
                         : kFixed + static_cast<std::size_t>(heads) *
                                        getSetting("attention_workspace", 1024);
}

static int finalizeTensor(const BackendDescriptor &tensor) {
  for (int name : {attributeName::TensorType, attributeName::TensorSizes,
                   attributeName::TensorStrides, attributeName::TensorId,
                   attributeName::TensorAlignment})
    if (!tensor.has(name))
      return status::BadParam;
  return status::Success;
}

/// Ids are unique in a graph.
static int finalizeGraph(const BackendDescriptor &graph) {
  if (!graph.has(attributeName::GraphOperations) ||
      !graph.has(attributeName::GraphHandle))
    return status::BadParam;
  std::map<std::int64_t, const BackendDescriptor *> ids;
  for (const BackendPointer &operation : getOperations(graph))
    for (const auto &[name, tensor] : getTensors(*operation)) {
      auto id = tensor->get<std::int64_t>(attributeName::TensorId);
      if (ids.try_emplace(id, tensor).first->second != tensor)
        return status::BadParam;
    }
  getText() = simulated::print(graph);
  return status::Success;
}

static int getHeuristics(const BackendDescriptor &heuristics,
                         std::int64_t wanted, std::int64_t *count,
                         Descriptor *configs) {
  *count = 0;
  if (getSetting("attention_engines", 1) == 0)
    return status::Success;
  for (int engine : {kUnsupported, kNondeterministic, kChosen}) {
    if (*count == wanted)
      break;
    BackendPointer config = find(configs[(*count)++]);
    if (!config || config->kind != descriptor::EngineConfig)
      return status::BadParam;
    config->engine = engine;
    config->isFinal = true;
    config->attributes[attributeName::HeuristicsGraph] =
        heuristics.attributes.at(attributeName::HeuristicsGraph);
  }
  return status::Success;
}

static int getEngine(const BackendDescriptor &config, Descriptor *into) {
  BackendPointer engine = find(*into);
  if (!engine || engine->kind != descriptor::Engine)
    return status::BadParam;
  engine->engine = config.engine;
  engine->isFinal = true;
  return status::Success;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

extern "C" {

const char *simulatedCudnnGraph() { return getText().c_str(); }

int cudnnBackendCreateDescriptor(int kind, Descriptor *made) {
  auto created = std::make_shared<BackendDescriptor>();
  created->kind = kind;
  *made = created.get();
  getDescriptors()[*made] = created;
  return status::Success;
}

int cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  return getDescriptors().erase(descriptor) ? status::Success
                                            : status::BadParam;
}

int cudnnBackendSetAttribute(Descriptor descriptor, int name, int type,
                             std::int64_t count, const void *values) {
  BackendPointer target = find(descriptor);
  if (!target || target->isFinal || count < 1)
    return status::BadParam;
  BackendAttribute attribute{type, count, {}, {}};
  attribute.bytes.assign(static_cast<const char *>(values),
                         static_cast<std::size_t>(count) * getValueBytes(type));
  if (type == attributeType::Descriptor)
    for (std::int64_t i = 0; i < count; ++i) {
      BackendPointer value = find(static_cast<const Descriptor *>(values)[i]);
      if (!value || !value->isFinal)
        return status::BadParam;
      attribute.descriptors.push_back(value);
    }
  target->attributes[name] = std::move(attribute);
  return status::Success;
}

int cudnnBackendFinalize(Descriptor descriptor) {
  BackendPointer target = find(descriptor);
  if (!target || target->isFinal)
    return status::BadParam;
  int result = status::Success;
  if (target->kind == descriptor::Tensor)
    result = finalizeTensor(*target);
  else if (target->kind == descriptor::OperationGraph)
    result = finalizeGraph(*target);
  else if (target->kind == descriptor::ExecutionPlan &&
           target->at(attributeName::PlanEngineConfig).engine == kUnsupported)
    result = status::NotSupported;
  target->isFinal = result == status::Success;
  return result;
}

int cudnnBackendGetAttribute(Descriptor descriptor, int name, int,
                             std::int64_t wanted, std::int64_t *count,
                             void *values) {
  BackendPointer target = find(descriptor);
  if (!target || !target->isFinal)
    return status::BadParam;
  *count = 1;
  switch (name) {
  case attributeName::HeuristicsResults:
    return getHeuristics(*target, wanted, count,
                         static_cast<Descriptor *>(values));
  case attributeName::EngineConfigEngine:
    return getEngine(*target, static_cast<Descriptor *>(values));
  case attributeName::EngineIndex:
    *static_cast<std::int64_t *>(values) = target->engine;
    return status::Success;
  case attributeName::EngineNumericalNotes:
    static_cast<int *>(values)[0] = note::TensorCore;
    if (target->engine == kNondeterministic)
      static_cast<int *>(values)[(*count)++] = note::Nondeterministic;
    return status::Success;
  case attributeName::PlanWorkspaceBytes:
    *static_cast<std::int64_t *>(values) = static_cast<std::int64_t>(
        getWorkspace(target->at(attributeName::PlanEngineConfig)
                         .at(attributeName::HeuristicsGraph)));
    return status::Success;
  default:
    return status::BadParam;
  }
}

/// Overwrites the workspace, as an engine does.
int cudnnBackendExecute(Handle *handle, Descriptor plan, Descriptor pack) {
  BackendPointer target = find(plan), given = find(pack);
  if (!target || !target->isFinal || !given || !given->isFinal)
    return status::BadParam;
  const BackendAttribute &found =
      target->at(attributeName::PlanEngineConfig)
          .attributes.at(attributeName::HeuristicsGraph);
  BackendPointer graph = found.descriptors.at(0);
  auto ids = given->list<std::int64_t>(attributeName::PackIds);
  auto pointers = given->list<void *>(attributeName::PackPointers);
  std::map<std::int64_t, void *> addresses;
  for (std::size_t i = 0; i < ids.size(); ++i)
    addresses[ids[i]] = pointers.at(i);
  auto workspace = reinterpret_cast<Address>(
      given->get<void *>(attributeName::PackWorkspace));
  std::size_t bytes = getWorkspace(*graph);
  if (ids.size() != pointers.size() || addresses.size() != ids.size() ||
      workspace % 256 || !simulated::findMemory(workspace, bytes))
    return status::BadParam;
  if (int failure = static_cast<int>(getSetting("attention_status", 0)))
    return failure;
  if (simulated::breakCapture(handle->stream))
    return status::ExecutionFailed;
  simulated::Task compute = simulated::prepareGraph(graph, addresses);
  if (!compute)
    return status::BadParam;
  simulated::enqueue(handle->stream, [=] {
    std::memset(simulated::findMemory(workspace, bytes), 0xff, bytes);
    return compute();
  });
  return status::Success;
}

} // extern "C"

// Checks that every function the runtime loads exists with its parameters.
#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(std::is_same_v<decltype(&SYMBOL), int(*) PARAMETERS>);
BINADE_CUDNN_GRAPH_FUNCTIONS(CHECK)
#undef CHECK
