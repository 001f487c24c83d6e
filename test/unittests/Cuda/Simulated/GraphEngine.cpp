//===- GraphEngine.cpp - Operations of the simulated cuDNN ----------------===//

#include "CudnnGraph.h"
#include "Formats.h"
#include <array>
#include <cmath>
#include <optional>

using namespace binade::cuda::cudnn;
using namespace simulated;
namespace lt = binade::cuda::lt;

namespace {
using Axes = std::array<std::int64_t, 4>;

/// A tensor of a graph and, once they are known, its values in row-major order.
struct Tensor {
  int type = 0;
  Axes sizes, strides;
  void *address = nullptr; ///< Null if virtual.
  bool isScalar = false, isKnown = false;
  std::vector<double> values;

  std::size_t count() const {
    return static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
  }
  std::size_t find(const Axes &index) const {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
      at = at * sizes[axis] + index[axis];
    return static_cast<std::size_t>(at);
  }
  std::int64_t findPlace(const Axes &index) const {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < 4; ++axis)
      at += index[axis] * strides[axis];
    return at;
  }
};

/// Calls `visit` with all indices of a tensor.
template <typename Visit> void forEach(const Axes &sizes, Visit visit) {
  Axes at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3])
          visit(at);
}

/// Returns the index in a tensor of `sizes` for an index in one of `from`:
/// consecutive elements of a longer axis share one of a shorter axis.
Axes shrink(const Axes &index, const Axes &from, const Axes &sizes) {
  Axes at;
  for (std::size_t axis = 0; axis < 4; ++axis)
    at[axis] = index[axis] / (from[axis] / sizes[axis]);
  return at;
}

int toCuda(int type) {
  return type == type::F16    ? int(lt::type::F16)
         : type == type::BF16 ? int(lt::type::BF16)
                              : int(lt::type::F32);
}

class GraphRun {
public:
  /// Returns nothing unless exactly the tensors that are not virtual have an
  /// address.
  static std::optional<GraphRun>
  create(const BackendDescriptor &graph,
         const std::map<std::int64_t, void *> &addresses);
  int run(const BackendDescriptor &graph);

private:
  Tensor &get(const BackendDescriptor &operation, int name) {
    return tensors.at(
        operation.at(name).get<std::int64_t>(attributeName::TensorId));
  }
  bool load(Tensor &tensor);
  bool store(Tensor &tensor);
  bool run(const BackendDescriptor &operation, Tensor &out);
  void multiply(const Tensor &a, const Tensor &b, Tensor &out);
  void apply(const BackendDescriptor &operation, Tensor &out);
  void reduce(int op, const Tensor &x, Tensor &out);
  void reshape(const Tensor &x, Tensor &out);

  std::map<std::int64_t, Tensor> tensors;
};
} // namespace

std::optional<GraphRun>
GraphRun::create(const BackendDescriptor &graph,
                 const std::map<std::int64_t, void *> &addresses) {
  GraphRun run;
  std::size_t used = 0;
  for (const BackendPointer &operation : getOperations(graph))
    for (const auto &[name, described] : getTensors(*operation)) {
      auto id = described->get<std::int64_t>(attributeName::TensorId);
      if (run.tensors.count(id))
        continue;
      Tensor &tensor = run.tensors[id];
      tensor.type = described->get<int>(attributeName::TensorType);
      auto copy = [&](int from, Axes &to) {
        auto list = described->list<std::int64_t>(from);
        std::copy(list.begin(), list.end(), to.begin());
      };
      copy(attributeName::TensorSizes, tensor.sizes);
      copy(attributeName::TensorStrides, tensor.strides);
      tensor.isScalar = described->has(attributeName::TensorIsByValue);
      if (described->has(attributeName::TensorIsVirtual))
        continue;
      auto found = addresses.find(id);
      if (found == addresses.end())
        return std::nullopt;
      ++used;
      tensor.address = found->second;
      if (tensor.isScalar) {
        tensor.values = {*static_cast<const float *>(found->second)};
        tensor.isKnown = true;
      } else if (reinterpret_cast<Address>(found->second) % 16) {
        return std::nullopt;
      }
    }
  return used == addresses.size() ? std::optional(run) : std::nullopt;
}

/// Reads a tensor from device memory unless its values are known.
bool GraphRun::load(Tensor &tensor) {
  if (tensor.isKnown)
    return true;
  bool isThere = tensor.address != nullptr;
  auto bytes = static_cast<std::size_t>(getByteSize(toCuda(tensor.type)));
  tensor.values.resize(tensor.count());
  forEach(tensor.sizes, [&](const Axes &at) {
    Address address = reinterpret_cast<Address>(tensor.address) +
                      static_cast<Address>(tensor.findPlace(at)) * bytes;
    const char *from = isThere ? findMemory(address, bytes) : nullptr;
    isThere = from;
    if (from)
      tensor.values[tensor.find(at)] = decode(toCuda(tensor.type), from);
  });
  tensor.isKnown = isThere;
  return isThere;
}

/// Rounds the values of a tensor to its type, and writes them to device memory
/// unless it is virtual.
bool GraphRun::store(Tensor &tensor) {
  bool isThere = true;
  int type = toCuda(tensor.type);
  auto bytes = static_cast<std::size_t>(getByteSize(type));
  forEach(tensor.sizes, [&](const Axes &at) {
    double &value = tensor.values[tensor.find(at)];
    char code[8];
    if (tensor.type != type::I32 && tensor.type != type::Boolean) {
      encode(type, value, code);
      value = decode(type, code);
    }
    if (!tensor.address || !isThere)
      return;
    Address address = reinterpret_cast<Address>(tensor.address) +
                      static_cast<Address>(tensor.findPlace(at)) * bytes;
    char *to = findMemory(address, bytes);
    isThere = to;
    if (to)
      std::copy_n(code, bytes, to);
  });
  tensor.isKnown = true;
  return isThere;
}

void GraphRun::multiply(const Tensor &a, const Tensor &b, Tensor &out) {
  forEach(out.sizes, [&](const Axes &at) {
    Axes left = at, right = at;
    right[1] = at[1] / (out.sizes[1] / b.sizes[1]);
    double sum = 0;
    for (std::int64_t k = 0; k < a.sizes[3]; ++k) {
      left[3] = right[2] = k;
      sum += a.values[a.find(left)] * b.values[b.find(right)];
    }
    out.values[out.find(at)] = sum;
  });
}

void GraphRun::apply(const BackendDescriptor &operation, Tensor &out) {
  const BackendDescriptor &pointwise =
      operation.at(attributeName::OperationPointwise);
  int mode = pointwise.get<int>(attributeName::PointwiseMode);
  auto read = [&](int name, const Axes &at) {
    const Tensor &tensor = get(operation, name);
    return tensor.values[tensor.find(shrink(at, out.sizes, tensor.sizes))];
  };
  forEach(out.sizes, [&](const Axes &at) {
    double x = read(attributeName::OperationPointwiseX, at), b = 0;
    if (operation.has(attributeName::OperationPointwiseB))
      b = read(attributeName::OperationPointwiseB, at);
    auto compute = [&]() -> double {
      switch (mode) {
      case pointwise::Add:
        return x + b;
      case pointwise::Multiply:
        return x * b;
      case pointwise::Divide:
        return x / b;
      case pointwise::Subtract:
        return x - b;
      case pointwise::Exp:
        return std::exp(x);
      case pointwise::Log:
        return std::log(x);
      case pointwise::GreaterOrEqual:
        return x >= b;
      case pointwise::Index:
        return static_cast<double>(at[static_cast<std::size_t>(
            pointwise.get<std::int64_t>(attributeName::PointwiseAxis))]);
      case pointwise::Select:
        return read(attributeName::OperationPointwiseT, at) ? x : b;
      default:
        return NAN;
      }
    };
    out.values[out.find(at)] = compute();
  });
}

void GraphRun::reduce(int op, const Tensor &x, Tensor &out) {
  out.values.assign(out.count(), op == reduction::Max ? -INFINITY : 0);
  forEach(x.sizes, [&](const Axes &at) {
    double &to = out.values[out.find(shrink(at, x.sizes, out.sizes))];
    double value = x.values[x.find(at)];
    to = op == reduction::Max ? std::fmax(to, value) : to + value;
  });
}

/// Reads the values of `x` at the places of `out`.
void GraphRun::reshape(const Tensor &x, Tensor &out) {
  std::map<std::int64_t, double> places;
  forEach(x.sizes, [&](const Axes &at) {
    places[x.findPlace(at)] = x.values[x.find(at)];
  });
  forEach(out.sizes, [&](const Axes &at) {
    out.values[out.find(at)] = places.at(out.findPlace(at));
  });
}

bool GraphRun::run(const BackendDescriptor &operation, Tensor &out) {
  for (const auto &[name, described] : getTensors(operation)) {
    Tensor &tensor = get(operation, name);
    if (&tensor != &out && !load(tensor))
      return false;
  }
  out.values.assign(out.count(), 0);
  switch (operation.kind) {
  case descriptor::OperationMatmul:
    multiply(get(operation, attributeName::OperationMatmulA),
             get(operation, attributeName::OperationMatmulB), out);
    break;
  case descriptor::OperationPointwise:
    apply(operation, out);
    break;
  case descriptor::OperationReduction:
    reduce(operation.at(attributeName::OperationReduction)
               .get<int>(attributeName::ReductionOperator),
           get(operation, attributeName::OperationReductionX), out);
    break;
  default:
    reshape(get(operation, attributeName::OperationReshapeX), out);
  }
  return store(out);
}

int GraphRun::run(const BackendDescriptor &graph) {
  static constexpr int results[] = {
      attributeName::OperationMatmulC, attributeName::OperationPointwiseY,
      attributeName::OperationReductionY, attributeName::OperationReshapeY};
  for (const BackendPointer &operation : getOperations(graph))
    for (int name : results)
      if (operation->has(name) && !run(*operation, get(*operation, name)))
        return simulated::status::IllegalAddress;
  return simulated::status::Success;
}

Task simulated::prepareGraph(const BackendPointer &graph,
                             const std::map<std::int64_t, void *> &addresses) {
  std::optional<GraphRun> made = GraphRun::create(*graph, addresses);
  if (!made)
    return nullptr;
  return [graph, made = *std::move(made)] {
    GraphRun run = made;
    return run.run(*graph);
  };
}
