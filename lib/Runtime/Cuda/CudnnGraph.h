//===- CudnnGraph.h - Graphs of operations for cuDNN ------------*- C++ -*-===//
// cuDNN compiles a graph of operations to one engine if it knows the pattern.
// The tensors between the operations are virtual: they are never in memory.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_CUDNNGRAPH_H
#define BINADE_RUNTIME_CUDA_CUDNNGRAPH_H

#include "Cudnn.h"
#include <vector>

namespace binade::cuda {

/// A descriptor of cuDNN, released by its destructor.
using CudnnDescriptor = std::unique_ptr<void, int (*)(cudnn::Descriptor)>;

/// The sizes or the strides of a tensor [batch, head, row, column].
using GraphAxes = std::array<std::int64_t, 4>;

/// A tensor of a graph. Strides are in elements.
struct GraphTensor {
  enum Place : std::uint8_t {
    Virtual,
    Memory, ///< In device memory, at a multiple of kAlignment bytes.
    Scalar  ///< One value, which the host passes to each execution.
  };
  static constexpr std::int64_t kAlignment = 16;

  int type = cudnn::type::F32;
  GraphAxes sizes = {1, 1, 1, 1}, strides = {1, 1, 1, 1};
  /// Identifies the tensor in the graph; less than 100, or 0 for an id that the
  /// graph chooses.
  std::int64_t id = 0;
  cudnn::Descriptor descriptor = nullptr; ///< Set by the graph.
};

/// The address of a tensor: of device memory, or of a scalar on the host.
struct GraphOperand {
  std::int64_t id;
  void *address;
};

/// A graph that an engine of cuDNN computes.
class CudnnPlan {
public:
  std::uint64_t getWorkspaceBytes() const { return workspaceBytes; }
  std::int64_t getEngine() const { return engine; }

  /// Enqueues the graph on the device's stream. `workspace` is a multiple of
  /// 256.
  Result<void> run(std::span<const GraphOperand> operands,
                   Address workspace) const;

private:
  friend class CudnnGraph;
  std::shared_ptr<Cudnn> library;
  std::vector<CudnnDescriptor> parts; ///< Used by `plan`.
  cudnn::Descriptor plan = nullptr;
  std::uint64_t workspaceBytes = 0;
  std::int64_t engine = 0;
};

/// Builds a graph. The first call that fails determines the result of
/// `choosePlan`; the calls after it do nothing.
class CudnnGraph {
public:
  explicit CudnnGraph(std::shared_ptr<Cudnn> library)
      : library(std::move(library)) {}

  GraphTensor add(GraphTensor tensor,
                  GraphTensor::Place place = GraphTensor::Virtual);

  // The following functions add an operation that writes `out`. Operands are
  // broadcast along axes of size 1.

  /// Multiplies the matrices of the last two axes. If `left` has more heads,
  /// consecutive heads share one of `right`.
  void multiply(const GraphTensor &left, const GraphTensor &right,
                const GraphTensor &out);
  void apply(int mode, const GraphTensor &x, const GraphTensor &out);
  void apply(int mode, const GraphTensor &x, const GraphTensor &b,
             const GraphTensor &out);
  /// Writes the index of each element along `axis` of `x`.
  void index(std::int64_t axis, const GraphTensor &x, const GraphTensor &out);
  void compare(int mode, const GraphTensor &x, const GraphTensor &b,
               const GraphTensor &out);
  /// Selects x where `condition` holds, else b.
  void select(const GraphTensor &condition, const GraphTensor &x,
              const GraphTensor &b, const GraphTensor &out);
  /// Reduces axes whose size is larger in `x`.
  void reduce(int op, const GraphTensor &x, const GraphTensor &out);
  /// Reads `x` with other sizes and strides.
  void reshape(const GraphTensor &x, const GraphTensor &out);

  /// Returns the best engine that is deterministic and multiplies neither in a
  /// narrower format nor after a transform. An error (exit code 6) if there is
  /// none.
  Result<CudnnPlan> choosePlan();

private:
  struct Pointwise {
    int mode, type = cudnn::type::F32;
    const GraphTensor *x, *out;
    const GraphTensor *b = nullptr, *condition = nullptr;
    std::optional<std::int64_t> axis = {};
  };
  void add(const Pointwise &operation);
  cudnn::Descriptor create(int kind);
  void finalize(cudnn::Descriptor descriptor);
  template <typename Value>
  void set(cudnn::Descriptor descriptor, int name, int type,
           std::span<const Value> values);
  template <typename Value>
  void set(cudnn::Descriptor descriptor, int name, int type, Value value) {
    set(descriptor, name, type, std::span<const Value>(&value, 1));
  }
  void set(cudnn::Descriptor descriptor, int name, cudnn::Descriptor value);
  void set(cudnn::Descriptor descriptor, int name, const GraphTensor &value) {
    set(descriptor, name, value.descriptor);
  }
  /// Reads an attribute of at most `values.size()` values.
  template <typename Value>
  void get(cudnn::Descriptor descriptor, int name, int type,
           std::vector<Value> &values);
  /// Makes descriptors of the caller describe what the attribute contains.
  void fill(cudnn::Descriptor descriptor, int name,
            std::vector<cudnn::Descriptor> &values);
  std::vector<cudnn::Descriptor> listEngineConfigs();
  bool isAllowed(cudnn::Descriptor engine);
  /// Prepares an engine; nothing if it does not support the graph or is not
  /// allowed.
  std::optional<CudnnPlan> prepare(cudnn::Descriptor config);

  std::shared_ptr<Cudnn> library;
  std::vector<CudnnDescriptor> parts;
  std::vector<cudnn::Descriptor> operations;
  static constexpr std::int64_t kFirstVirtual = 100;
  std::int64_t virtualTensors = 0;
  std::optional<Error> failure;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_CUDNNGRAPH_H
