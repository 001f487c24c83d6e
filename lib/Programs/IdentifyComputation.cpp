//===- IdentifyComputation.cpp - What makes a run the same run ------------===//

#include "binade/Container/Sha256.h"
#include "binade/IR/Interface.h"
#include "binade/Programs/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_IDENTIFYCOMPUTATIONPASS
#include "binade/Programs/Passes.h.inc"

namespace {
struct IdentifyComputationPass
    : impl::IdentifyComputationPassBase<IdentifyComputationPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OwningOpRef<ModuleOp> bare = module.clone();
    (*bare)->setDiscardableAttrs(DictionaryAttr::get(&getContext()));
    // Where values come from at first is no part of what is done with them.
    for (func::FuncOp program : getPrograms(*bare))
      for (unsigned index = 0; index < program.getNumArguments(); ++index)
        program.removeArgAttr(index, kInitAttr);
    std::string text;
    llvm::raw_string_ostream stream(text);
    bare->print(stream, OpPrintingFlags().useLocalScope());
    std::string hash = ::binade::sha256(std::as_bytes(std::span(text)));
    module->setAttr(kComputationAttr, StringAttr::get(&getContext(), hash));
  }
};
} // namespace
} // namespace mlir::binade
