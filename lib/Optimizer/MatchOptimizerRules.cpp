//===- MatchOptimizerRules.cpp - Identify imported rules ------------------===//

#include "ImportedRules.h"
#include "MatchPattern.h"
#include "binade/IR/Exported.h"
#include "binade/IR/PortAttributes.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include <string_view>

namespace mlir::binade {
#define GEN_PASS_DEF_MATCHOPTIMIZERRULESPASS
#include "binade/Optimizer/Passes.h.inc"

using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;
const DataFiles &getPatternFiles();

namespace {
struct MatchOptimizerRulesPass
    : impl::MatchOptimizerRulesPassBase<MatchOptimizerRulesPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return;
    llvm::MapVector<StringAttr, SmallVector<unsigned>> users;
    for (const Port &port : getArguments(function, Role::Parameter))
      if (auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(
              port.index, kOptimizerAttr))
        users[name.getAttr()].push_back(port.index);
    PortAttributes attributes(function);
    for (auto &[name, arguments] : users) {
      auto rule = getOperation().lookupSymbol<OptimizerOp>(name);
      if (!rule)
        continue;
      FailureOr<OptimizerOp> found = identify(rule);
      if (failed(found))
        return signalPassFailure();
      if (!*found)
        continue;
      auto reference = FlatSymbolRefAttr::get((*found).getSymNameAttr());
      for (unsigned index : arguments)
        attributes.setOfArgument(index, kOptimizerAttr, reference);
      eraseRule(rule);
    }
    attributes.apply();
  }

  /// Returns the shipped rule that equals `rule`, added to the module; or null.
  FailureOr<OptimizerOp> identify(OptimizerOp rule) {
    for (auto [file, text] : getPatternFiles()) {
      ParserConfig config(&getContext());
      auto patterns =
          parseSourceString<ModuleOp>(StringRef(text), config, StringRef(file));
      if (!patterns)
        return failure();
      for (auto pattern : patterns->getOps<func::FuncOp>())
        if (std::optional<Settings> settings = matchPattern(rule, pattern))
          return addRule(getOperation(), pattern.getSymName().split('.').first,
                         *settings);
    }
    return OptimizerOp();
  }
};
} // namespace
} // namespace mlir::binade
