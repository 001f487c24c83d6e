//===- Scalars.cpp - Kernels of scalars -----------------------------------===//

#include "Schedules.h"

using namespace mlir;
using namespace mlir::binade;

FailureOr<KernelInfo> mlir::binade::emitScalars(const KernelSource &source) {
  std::optional<GpuShape> shape = source.shape;
  if (shape)
    shape = GpuShape{1, 1, 1, 1, shape->isMultiTensor, shape->isBatched};
  KernelInfo info;
  info.symbol = source.symbol;
  info.extent = 1;
  Emitter emitter(source.function, source.formulas, source.into,
                  source.symbol + ".items", source.getBuffers(0), 2, shape);
  emitter.setPlaces(Offset(), std::nullopt);
  auto all = llvm::to_vector(llvm::seq<unsigned>(source.getResults().size()));
  emitter.forItems(info.extent, [&](const Offset &) {
    storeResults(emitter, all, Offset());
  });
  setInPlace(emitter, info);
  if (failed(emitter.status()))
    return failure();
  return info;
}
