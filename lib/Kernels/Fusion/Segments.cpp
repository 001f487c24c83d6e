//===- Segments.cpp - Kernels of a launch ---------------------------------===//

#include "Segments.h"
#include "binade/IR/Interface.h"

using namespace mlir;
using namespace mlir::binade;

LaunchSegments mlir::binade::getSegments(LaunchOp launch) {
  LaunchSegments segments;
  DenseMap<Attribute, func::FuncOp> kernels; // Segments may share one.
  unsigned firstOperand = 0, firstResult = 0;
  for (auto symbol : launch.getKernels().getAsRange<FlatSymbolRefAttr>()) {
    func::FuncOp &kernel = kernels[symbol];
    if (!kernel)
      kernel =
          SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(launch, symbol);
    if (segments.list.empty()) {
      segments.isMultiTensor =
          kernel->getAttrOfType<ScheduleAttr>(kKernelAttr).getValue() ==
          Schedule::MultiTensor;
      if (segments.isMultiTensor)
        segments.numShared =
            llvm::count_if(kernel.getResultTypes(), [](Type type) {
              return cast<RankedTensorType>(type).getRank() == 0;
            });
    }
    unsigned numResults = kernel.getNumResults() - segments.numShared;
    segments.list.push_back({kernel, firstOperand, firstResult, numResults});
    firstOperand += kernel.getNumArguments();
    firstResult += numResults;
  }
  return segments;
}

LaunchSegment mlir::binade::findSegment(LaunchOp launch, unsigned index) {
  for (LaunchSegment segment : getSegments(launch).list)
    if (index - segment.firstOperand < segment.kernel.getNumArguments())
      return segment;
  llvm_unreachable("operands of a launch are its kernels' arguments");
}
