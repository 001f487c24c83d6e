//===- Graph.h - CUDA graphs ------------------------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_GRAPH_H
#define BINADE_RUNTIME_CUDA_GRAPH_H

#include "Device.h"

namespace binade::cuda {

/// A CUDA graph: captured work that can be repeated, with the same kernels,
/// arguments and addresses.
class Graph {
public:
  /// Captures what `work` enqueues on the stream of `device`, without executing
  /// it.
  static Result<Graph> capture(Device &device,
                               const std::function<Result<void>()> &work);

  /// Enqueues the graph on the stream.
  Result<void> launch() const;

private:
  using Handle = Owned<CUgraphExec_st *, &DriverTable::graphExecDestroy>;
  Graph(Device &device, Handle handle, Work work)
      : device(&device), handle(std::move(handle)), work(work) {}

  Device *device;
  Handle handle;
  Work work;
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_GRAPH_H
