//===- CudnnGraph.h - Graphs of the simulated cuDNN -------------*- C++ -*-===//

#ifndef BINADE_TEST_CUDA_CUDNNGRAPH_H
#define BINADE_TEST_CUDA_CUDNNGRAPH_H

#include "../../../../lib/Runtime/Cuda/CudnnApi.h"
#include "../../../../lib/Runtime/Cuda/CudnnGraphApi.h"
#include "Simulated.h"

struct binade::cuda::cudnn::Handle {
  CUstream_st *stream = nullptr;
};

namespace simulated {

struct BackendDescriptor;
using BackendPointer = std::shared_ptr<BackendDescriptor>;

/// An attribute as the caller set it.
struct BackendAttribute {
  int type = 0;
  std::int64_t count = 0;
  std::string bytes;
  std::vector<BackendPointer> descriptors; ///< For attributes of descriptors.
};

struct BackendDescriptor {
  int kind = 0;
  bool isFinal = false;
  std::map<int, BackendAttribute> attributes = {};
  int engine = 0; ///< For engines and their configurations.

  bool has(int name) const { return attributes.count(name) != 0; }
  template <typename Value> std::vector<Value> list(int name) const {
    const BackendAttribute &found = attributes.at(name);
    auto *first = reinterpret_cast<const Value *>(found.bytes.data());
    return {first, first + found.bytes.size() / sizeof(Value)};
  }
  template <typename Value> Value get(int name) const {
    return list<Value>(name).at(0);
  }
  const BackendDescriptor &at(int name) const {
    return *attributes.at(name).descriptors.at(0);
  }
};

/// Returns the operations of a graph in order.
std::vector<BackendPointer> getOperations(const BackendDescriptor &graph);
/// Returns the tensors of an operation, by attribute.
std::map<int, const BackendDescriptor *>
getTensors(const BackendDescriptor &operation);

/// Lists the operations, a line each, with the number, the type and the values
/// of each attribute. Tensors are numbered in the order of their use.
std::string print(const BackendDescriptor &graph);

/// Returns the work that computes a graph: each operation in f64, with results
/// rounded to the types of their tensors. `addresses` are those of the tensors
/// that are not virtual, on the host for scalars.
Task prepareGraph(const BackendPointer &graph,
                  const std::map<std::int64_t, void *> &addresses);

} // namespace simulated

extern "C" {
/// Returns the text of the graph that was finalized last, see
/// simulated::print.
const char *simulatedCudnnGraph();
}

#endif // BINADE_TEST_CUDA_CUDNNGRAPH_H
