//===- Graph.h - Work that is launched at once ------------------*- C++ -*-===//

#ifndef BINADE_RUNTIME_CUDA_GRAPH_H
#define BINADE_RUNTIME_CUDA_GRAPH_H

#include "Device.h"

namespace binade::cuda {

/// What was put on a stream, to be done again: the same kernels on the same
/// addresses with the same arguments, and copies from and to the same memory.
class Graph {
public:
  /// Records what `work` puts on the stream of `device`. Nothing of it runs.
  static Result<Graph> capture(Device &device,
                               const std::function<Result<void>()> &work);

  /// Puts all of it on the stream.
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
