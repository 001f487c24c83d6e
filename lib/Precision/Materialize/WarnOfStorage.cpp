//===- WarnOfStorage.cpp - Warnings about narrow parameters and states ----===//

#include "StoreParameters.h"
#include "binade/IR/Rules.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace mlir::binade;

/// Returns the exponent e such that a value below 2^e, relative to a number, is
/// less than half a unit in the number's last place, whatever the number.
static int getLostExponent(FloatType format) {
  return -static_cast<int>(format.getFPMantissaWidth()) - 1;
}

/// Names, in the shipped optimizer rules, of the state of squared gradients and
/// of the setting that is added to its root before the update is divided by it.
static constexpr StringLiteral kSquares = "exp_avg_sq", kAdded = "eps";

/// Returns the initial learning rate of this parameter.
static std::optional<double> findRate(OptimizerUpdateOp update,
                                      OptimizerOp rule) {
  if (update.getScalars().empty())
    return std::nullopt;
  auto scalars =
      update.getScalars().front().getDefiningOp<OptimizerScalarsOp>();
  if (!scalars)
    return std::nullopt;
  for (auto [setting, value] : llvm::zip(
           rule.getHypers().getAsRange<SettingAttr>(), scalars.getHypers())) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto init = argument ? update->getParentOfType<func::FuncOp>()
                               .getArgAttrOfType<DenseElementsAttr>(
                                   argument.getArgNumber(), kInitAttr)
                         : DenseElementsAttr();
    if (setting.getName() == kRate && init)
      return init.getSplatValue<APFloat>().convertToDouble();
  }
  return std::nullopt;
}

/// Whether the length of an update is proportional to that of the parameter.
static bool isRelative(OptimizerUpdateOp update) {
  if (!update.getPrepareAttr())
    return false;
  auto prepare = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      update, update.getPrepareAttr());
  return prepare && !prepare.getArgument(0).use_empty();
}

/// Appends the number of parameters that a warning applies to, if it is not
/// one.
static void count(InFlightDiagnostic &warning, size_t parameters) {
  if (parameters > 1)
    warning << "; this applies to " << parameters << " parameters";
}

static void warnOfRounding(InFlightDiagnostic warning, OptimizerUpdateOp update,
                           FloatType format, size_t parameters) {
  int exponent = getLostExponent(format);
  warning << "a parameter in " << format << " that is rounded to nearest loses "
          << "updates below 2^" << exponent << " of it";
  auto rule = SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(
      update, update.getOptimizerAttr());
  std::optional<double> rate =
      rule ? findRate(update, rule) : std::optional<double>();
  if (rate && *rate > 0.0)
    warning << llvm::formatv(", such as steps of {0} = {1} on elements "
                             "beyond {2}{3}",
                             kRate, llvm::format("%g", *rate),
                             llvm::format("%.3g", std::ldexp(*rate, -exponent)),
                             isRelative(update) ? " root mean squares" : "")
                   .str();
  warning << "; 'master' keeps them: f32, kahan, residual"
          << (format.isBF16()
                  ? ", stochastic, split_round, split_trunc or split_8bit"
                  : " or stochastic");
  count(warning, parameters);
}

static std::optional<double> findSetting(ArrayAttr settings, StringRef name) {
  for (auto setting : settings.getAsRange<SettingAttr>())
    if (setting.getName().getValue() == name)
      return setting.getValue().getValueAsDouble();
  return std::nullopt;
}

/// Returns the rule of an update if it stores squares of gradients in f16.
static OptimizerOp findKeeperOfSquares(const StorageNode &node) {
  OptimizerUpdateOp update = node.op;
  auto rule = SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(
      update, update.getOptimizerAttr());
  if (!rule)
    return {};
  auto states = rule.getStates().getAsRange<SettingAttr>();
  for (auto [index, state] : llvm::enumerate(states)) {
    FloatType format = node.decision.getStateFormat(index);
    if (state.getName().getValue() == kSquares && format && format.isF16())
      return rule;
  }
  return {};
}

static void warnOfSquares(InFlightDiagnostic warning, OptimizerOp rule,
                          int64_t elements, size_t parameters) {
  APFloat half = APFloat::getSmallest(APFloat::IEEEhalf());
  double smallest = half.convertToDouble() / 2;
  warning << "state '" << kSquares << "' in f16 is 0 where gradients are below "
          << llvm::formatv("{0:e2}", std::sqrt(smallest)).str()
          << ", because f16 cannot represent their squares";
  if (std::optional<double> added = findSetting(rule.getHypers(), kAdded))
    warning << "; their updates are divided by '" << kAdded << "' alone ("
            << llvm::formatv("{0}", llvm::format("%g", *added)).str()
            << " unless set)";
  warning << "; bf16 can represent them in the same memory, f32 in "
          << 2 * elements << " bytes more";
  count(warning, parameters);
}

void mlir::binade::warnOfLostUpdates(const PrecisionGraph &graph) {
  // Group by rule: a rule decides many updates. Updates with equal decisions of
  // `--states` form one group, too.
  llvm::MapVector<const void *, SmallVector<const StorageNode *>> decided;
  for (const StorageNode &node : graph.getStorages())
    if (node.decision)
      decided[node.rule ? static_cast<const void *>(node.rule)
                        : node.decision.getAsOpaquePointer()]
          .push_back(&node);
  for (const auto &[key, nodes] : decided) {
    const StorageNode &first = *nodes.front();
    OptimizerUpdateOp update = first.op;
    auto warn = [&] {
      return emitWarning(first.rule ? Location(first.rule->location)
                                    : update.getLoc());
    };
    FloatType parameter = first.decision.getParameter();
    if (parameter && !parameter.isF32() &&
        first.decision.getMaster() == Master::None)
      warnOfRounding(warn(), update, parameter, nodes.size());
    OptimizerOp keeper;
    int64_t elements = 0;
    size_t parameters = 0;
    for (const StorageNode *node : nodes)
      if (OptimizerOp rule = findKeeperOfSquares(*node)) {
        keeper = rule;
        ++parameters;
        elements += cast<ShapedType>(
                        OptimizerUpdateOp(node->op).getParameter().getType())
                        .getNumElements();
      }
    if (keeper)
      warnOfSquares(warn(), keeper, elements, parameters);
  }
}
