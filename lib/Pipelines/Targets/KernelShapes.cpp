//===- KernelShapes.cpp - Kernel shapes for plans -------------------------===//

#include "KernelShapes.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

KernelShape mlir::binade::getShape(const KernelInfo &info) {
  KernelShape shape{info.extent,
                    info.grain,
                    static_cast<uint64_t>(info.workspaceBytes),
                    info.hasFinish,
                    info.hasStatus,
                    {}};
  for (ArrayRef<unsigned> operands : info.inPlace)
    shape.inPlace.emplace_back(operands.begin(), operands.end());
  return shape;
}

std::vector<std::byte> mlir::binade::getBytes(StringRef data) {
  std::vector<std::byte> bytes(data.size());
  std::memcpy(bytes.data(), data.data(), data.size());
  return bytes;
}
