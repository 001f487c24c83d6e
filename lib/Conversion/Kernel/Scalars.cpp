//===- Scalars.cpp - kernels on single numbers ----------------------------===//

#include "Schedules.h"

using namespace mlir;
using namespace mlir::binade;

FailureOr<KernelInfo> mlir::binade::emitScalars(const KernelSource &source) {
  KernelInfo info;
  info.symbol = source.symbol;
  info.extent = 1;
  Emitter emitter(source.function, source.formulas, source.into,
                  source.symbol + ".items", source.getBuffers(0), 2);
  emitter.setPlaces(Offset(), std::nullopt);
  emitter.loop(emitter.argument(0), emitter.argument(1), 1, {},
               [&](Value, ValueRange) {
                 SmallVector<Value> values;
                 for (Value result : source.getResults())
                   values.push_back(emitter.pull(result, Offset()).value);
                 for (auto [index, value] : llvm::enumerate(values))
                   emitter.storeResult(index, value, Offset());
                 return SmallVector<Value>();
               });
  setInPlace(emitter, info);
  if (failed(emitter.status()))
    return failure();
  return info;
}
