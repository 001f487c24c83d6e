//===- Operation.cpp - Addresses of views ---------------------------------===//

#include "Operation.h"

using namespace binade;

Address::Address(const Memory &memory, const plan::View &view) {
  const plan::Buffer &buffer = memory.buffers[view.buffer];
  auto size = static_cast<std::int64_t>(byteSize(buffer.dtype));
  for (std::int64_t step : view.steps)
    steps.push_back(step * size);
  if (memory.bound && memory.bound->contains(view.buffer)) {
    BoundPorts::Place place = memory.bound->find(view.buffer);
    port = place.port;
    offset = static_cast<std::int64_t>(place.offset) + view.offset * size;
  } else if (memory.arena) {
    base = memory.arena + buffer.locate(view.offset) +
           static_cast<std::int64_t>(memory.slot * buffer.slot);
  }
}
