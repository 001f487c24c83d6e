//===- Graph.cpp - CUDA graphs --------------------------------------------===//

#include "Graph.h"

using namespace binade;
using namespace binade::cuda;

Result<Graph> Graph::capture(Device &device,
                             const std::function<Result<void>()> &work) {
  const DriverTable &functions = device.getDriver().functions;
  // Finish pending work first, so that its errors are not attributed to the
  // capture.
  if (auto done = device.wait(); !done)
    return done.takeError();
  // Other threads may continue to call the driver.
  if (auto done = device.call(functions.streamBeginCapture, device.stream,
                              kCaptureModeThreadLocal);
      !done)
    return done.takeError();
  device.capturing = true;
  Result<void> worked = work();
  device.capturing = false;
  Work recorded;
  for (const Work &each : std::exchange(device.pending, {}))
    recorded.add(each);
  CUgraph_st *graph = nullptr;
  Result<void> ended =
      device.call(functions.streamEndCapture, device.stream, &graph);
  Owned<CUgraph_st *, &DriverTable::graphDestroy> owner(device, graph);
  // An aborted capture also fails at its end; report the first error.
  if (!worked)
    return worked.takeError();
  if (!ended)
    return ended.takeError();
  CUgraphExec_st *executable = nullptr;
  if (auto done =
          device.call(functions.graphInstantiate, &executable, graph, 0ull);
      !done)
    return done.takeError();
  return Graph(device, {device, executable}, recorded);
}

Result<void> Graph::launch() const {
  if (auto done = device->call(device->getDriver().functions.graphLaunch,
                               handle.get(), device->getStream());
      !done)
    return done;
  return device->note(work);
}
