//===- Stream.cpp - Streams, events and graphs of the driver --------------===//

#include "State.h"
#include <cstdlib>
#include <iostream>

using namespace simulated;

/// Returns the stream; null is the default stream.
static CUstream_st *resolve(CUstream_st *stream) {
  if (stream)
    return stream;
  State &state = getState();
  state.streams.insert(&state.defaultStream);
  return &state.defaultStream;
}

int simulated::restrict() {
  if (getState().captureMode == binade::cuda::kCaptureModeRelaxed)
    return status::Success;
  for (CUstream_st *stream : getState().streams)
    if (stream->capture && stream->mode == 0) {
      stream->isBroken = true;
      return status::StreamCaptureUnsupported;
    }
  return status::Success;
}

int simulated::enqueue(CUstream_st *given, Task task) {
  CUstream_st *stream = resolve(given);
  if (stream->capture)
    stream->capture->tasks.push_back(std::move(task));
  else
    stream->tasks.push_back(std::move(task));
  return status::Success;
}

bool simulated::breakCapture(CUstream_st *stream) {
  if (!stream->capture || !getSetting("capture", 0))
    return false;
  stream->isBroken = true;
  return true;
}

int simulated::step(CUstream_st *stream) {
  int result = stream->tasks.front()();
  if (result == kHangs)
    return status::NotReady;
  stream->tasks.pop_front();
  if (result)
    stream->tasks.clear();
  return getState().failure = result;
}

int simulated::run(CUstream_st *stream) {
  if (stream->capture) {
    stream->isBroken = true;
    return status::StreamCaptureUnsupported;
  }
  while (!stream->tasks.empty())
    if (int result = step(stream))
      return result;
  return status::Success;
}

int simulated::drain(CUstream_st *stream) {
  int result = run(stream);
  if (result == status::NotReady) {
    std::cerr << "libcuda.so.1 (simulated): the host waits for ever\n";
    std::abort();
  }
  return result;
}

extern "C" {

int cuStreamCreate(CUstream_st **stream, unsigned) {
  if (int error = enter())
    return error;
  storeObject(stream, std::make_shared<CUstream_st>());
  getState().streams.insert(*stream);
  return status::Success;
}

int cuStreamDestroy_v2(CUstream_st *stream) {
  if (int error = enter())
    return error;
  getState().streams.erase(stream);
  return destroyObject(stream);
}

int cuStreamQuery(CUstream_st *stream) {
  if (int error = enter())
    return error;
  if (int error = restrict())
    return error;
  return run(resolve(stream));
}

int cuStreamIsCapturing(CUstream_st *stream, int *found) {
  if (int error = enter())
    return error;
  *found = resolve(stream)->capture != nullptr;
  return status::Success;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  if (int error = enter())
    return error;
  std::swap(getState().captureMode, *mode);
  return status::Success;
}

int cuStreamBeginCapture_v2(CUstream_st *stream, int mode) {
  if (int error = enter())
    return error;
  stream->capture = std::make_unique<CUgraph_st>();
  stream->mode = mode;
  stream->isBroken = false;
  return status::Success;
}

int cuStreamEndCapture(CUstream_st *stream, CUgraph_st **graph) {
  if (int error = enter())
    return error;
  auto captured = std::move(stream->capture);
  *graph = nullptr;
  if (stream->isBroken)
    return static_cast<int>(
        getSetting("capture", status::StreamCaptureInvalidated));
  return storeObject(graph, std::shared_ptr<CUgraph_st>(std::move(captured)));
}

int cuGraphInstantiateWithFlags(CUgraphExec_st **made, CUgraph_st *graph,
                                unsigned long long) {
  if (int error = enter())
    return error;
  return storeObject(made, std::make_shared<CUgraphExec_st>(graph->tasks));
}

int cuGraphLaunch(CUgraphExec_st *graph, CUstream_st *stream) {
  if (int error = enter())
    return error;
  for (const Task &task : graph->tasks)
    enqueue(stream, task);
  return status::Success;
}

int cuGraphDestroy(CUgraph_st *graph) {
  if (int error = enter())
    return error;
  return destroyObject(graph);
}

int cuGraphExecDestroy(CUgraphExec_st *graph) {
  if (int error = enter())
    return error;
  return destroyObject(graph);
}

int cuEventCreate(CUevent_st **event, unsigned) {
  if (int error = enter())
    return error;
  return storeObject(event, std::make_shared<CUevent_st>());
}

int cuEventRecord(CUevent_st *event, CUstream_st *stream) {
  if (int error = enter())
    return error;
  event->time.reset();
  return enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    return int(status::Success);
  });
}

int cuEventQuery(CUevent_st *event) {
  if (int error = enter())
    return error;
  // The device makes progress while the host polls.
  for (CUstream_st *stream : getState().streams)
    while (!event->time && !stream->tasks.empty())
      if (int failure = step(stream))
        return failure;
  return event->time ? status::Success : status::NotReady;
}

int cuEventElapsedTime(float *milliseconds, CUevent_st *from, CUevent_st *to) {
  if (int error = enter())
    return error;
  if (!from->time || !to->time)
    return status::NotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return status::Success;
}

int cuEventDestroy_v2(CUevent_st *event) {
  if (int error = enter())
    return error;
  return destroyObject(event);
}

} // extern "C"
