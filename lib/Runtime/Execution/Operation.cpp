//===- Operation.cpp - Addresses of views ---------------------------------===//

#include "Operation.h"

using namespace binade;

Address::Address(std::byte *arena, std::span<const plan::Buffer> buffers,
                 const plan::View &view, std::uint64_t slot) {
  const plan::Buffer &buffer = buffers[view.buffer];
  auto size = static_cast<std::int64_t>(byteSize(buffer.dtype));
  if (arena)
    base = arena + buffer.offset + slot * buffer.slot + view.offset * size;
  for (std::int64_t step : view.steps)
    steps.push_back(step * size);
}
