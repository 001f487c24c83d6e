//===- IdentifyRules.cpp - Rules of the library by their spellings --------===//

#include "GivenRules.h"
#include "MatchSpelling.h"
#include "binade/IR/Exported.h"
#include "binade/Optimizer/Passes.h"
#include "binade/Optimizer/RuleLibrary.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include <string_view>

namespace mlir::binade {
#define GEN_PASS_DEF_IDENTIFYRULESPASS
#include "binade/Optimizer/Passes.h.inc"

using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;
const DataFiles &getSpellingFiles();

namespace {
struct IdentifyRulesPass : impl::IdentifyRulesPassBase<IdentifyRulesPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(kGradientName);
    if (!function)
      return;
    identified.clear();
    llvm::MapVector<StringAttr, SmallVector<unsigned>> users;
    for (const Port &port : getArguments(function, Role::Parameter))
      if (auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(
              port.index, kOptimizerAttr))
        users[name.getAttr()].push_back(port.index);
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
        function.setArgAttr(index, kOptimizerAttr, reference);
      eraseRule(rule);
    }
  }

  /// The rule of the library that `rule` is, in the module; or null.
  FailureOr<OptimizerOp> identify(OptimizerOp rule) {
    for (auto [file, text] : getSpellingFiles()) {
      ParserConfig config(&getContext());
      auto spellings =
          parseSourceString<ModuleOp>(StringRef(text), config, StringRef(file));
      if (!spellings)
        return failure();
      for (auto spelling : spellings->getOps<func::FuncOp>())
        if (std::optional<Settings> settings = matchSpelling(rule, spelling))
          return add(spelling.getSymName().split('.').first, *settings);
    }
    return OptimizerOp();
  }

  FailureOr<OptimizerOp> add(StringRef name, const Settings &settings) {
    FailureOr<Rule> rule = loadRule(name, &getContext());
    if (failed(rule))
      return failure();
    SmallVector<Attribute> hypers;
    for (auto hyper : rule->optimizer.getHypers().getAsRange<SettingAttr>()) {
      auto found = settings.find(hyper.getName());
      double value =
          found == settings.end() ? hyper.getDefault() : found->second;
      if (!hyper.explainViolation(value).empty())
        return OptimizerOp();
      auto type = hyper.getValue().getType();
      hypers.push_back(SettingAttr::get(
          &getContext(), hyper.getName(), FloatAttr::get(type, value),
          hyper.getMin(), hyper.getMax(), hyper.getBelow()));
    }
    rule->optimizer.setHypersAttr(ArrayAttr::get(&getContext(), hypers));
    OptimizerOp &added = identified[{rule->optimizer.getSymNameAttr(),
                                     rule->optimizer.getHypersAttr()}];
    if (added)
      return added;
    std::string fresh = name.str();
    for (unsigned index = 1; getOperation().lookupSymbol(fresh); ++index)
      fresh = (name + "_" + Twine(index)).str();
    OpBuilder b = OpBuilder::atBlockBegin(getOperation().getBody());
    for (Operation &op : rule->module->getBody()->getOperations()) {
      Operation *copy = b.clone(op);
      StringRef rest = SymbolTable::getSymbolName(copy).getValue();
      rest.consume_front(name);
      SymbolTable::setSymbolName(copy, fresh + rest.str());
      if (auto optimizer = dyn_cast<OptimizerOp>(copy))
        added = optimizer;
    }
    return added;
  }

  /// Rules of the library in the module, by name and hyper-parameters.
  DenseMap<std::pair<Attribute, Attribute>, OptimizerOp> identified;
};
} // namespace
} // namespace mlir::binade
