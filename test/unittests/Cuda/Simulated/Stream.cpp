//===- Stream.cpp - work of the simulated driver, in its order ------------===//

#include "State.h"

using namespace simulated;

int simulated::enqueue(CUstream_st *stream, Task task) {
  if (stream->capture)
    stream->capture->tasks.push_back(std::move(task));
  else
    stream->tasks.push_back(std::move(task));
  return status::Success;
}

int simulated::run(CUstream_st *stream) {
  if (stream->capture) {
    stream->isBroken = true;
    return status::StreamCaptureUnsupported;
  }
  while (!stream->tasks.empty()) {
    int result = stream->tasks.front()();
    if (result == kHangs)
      return status::NotReady;
    stream->tasks.pop_front();
    if (result) {
      stream->tasks.clear();
      return getState().failure = result;
    }
  }
  return status::Success;
}

extern "C" {

int cuStreamCreate(CUstream_st **stream, unsigned) {
  if (int error = enter())
    return error;
  *stream = new CUstream_st;
  return status::Success;
}

int cuStreamDestroy_v2(CUstream_st *stream) {
  if (int error = enter())
    return error;
  delete stream;
  return status::Success;
}

int cuStreamQuery(CUstream_st *stream) {
  if (int error = enter())
    return error;
  return run(stream);
}

int cuStreamBeginCapture_v2(CUstream_st *stream, int) {
  if (int error = enter())
    return error;
  stream->capture = std::make_unique<CUgraph_st>();
  stream->isBroken = false;
  return status::Success;
}

int cuStreamEndCapture(CUstream_st *stream, CUgraph_st **graph) {
  if (int error = enter())
    return error;
  auto captured = std::move(stream->capture);
  *graph = nullptr;
  if (stream->isBroken)
    return status::StreamCaptureInvalidated;
  *graph = captured.release();
  return status::Success;
}

int cuGraphInstantiateWithFlags(CUgraphExec_st **made, CUgraph_st *graph,
                                unsigned long long) {
  if (int error = enter())
    return error;
  *made = new CUgraphExec_st{graph->tasks};
  return status::Success;
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
  delete graph;
  return status::Success;
}

int cuGraphExecDestroy(CUgraphExec_st *graph) {
  if (int error = enter())
    return error;
  delete graph;
  return status::Success;
}

int cuEventCreate(CUevent_st **event, unsigned) {
  if (int error = enter())
    return error;
  *event = new CUevent_st;
  return status::Success;
}

int cuEventRecord(CUevent_st *event, CUstream_st *stream) {
  if (int error = enter())
    return error;
  return enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    return int(status::Success);
  });
}

int cuEventQuery(CUevent_st *event) {
  if (int error = enter())
    return error;
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
  delete event;
  return status::Success;
}

} // extern "C"
