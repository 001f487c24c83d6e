//===- GivenValues.cpp - Values that a module marks as watched ------------===//

#include "GivenValues.h"
#include "binade/IR/Watch.h"

using namespace mlir;
using namespace mlir::binade;

static std::optional<WatchedKind> findKind(StringRef name) {
  for (const WatchedKindInfo &info : getWatchedKinds())
    if (info.name == name)
      return info.kind;
  return std::nullopt;
}

/// Returns the argument whose number is `key` of `description`; null without
/// that key, or if there is no such argument.
static Value findArgument(func::FuncOp step, DictionaryAttr description,
                          StringRef key) {
  auto index = description.getAs<IntegerAttr>(key);
  if (!index || index.getValue().uge(step.getNumArguments()))
    return {};
  return step.getArgument(index.getInt());
}

static std::optional<WeightChange> getChange(func::FuncOp step,
                                             DictionaryAttr description) {
  WeightChange change{findArgument(step, description, "gradient"),
                      findArgument(step, description, "after")};
  if (!change.gradient || !change.after)
    return std::nullopt;
  change.companion = findArgument(step, description, "companion");
  change.companionAfter = findArgument(step, description, "companion_after");
  if (!change.companionAfter)
    change.companion = {};
  return change;
}

static void add(func::FuncOp step, Value value, Attribute attribute,
                std::vector<WatchedValue> &values) {
  auto description = dyn_cast_if_present<DictionaryAttr>(attribute);
  if (!description)
    return;
  auto kind = description.getAs<StringAttr>("kind");
  auto layer = description.getAs<StringAttr>("layer");
  auto known = kind ? findKind(kind.getValue()) : std::nullopt;
  if (!known || !layer) {
    step.emitError("expected '") << kWatchAttr
                                 << "' to have a kind of values and a layer, "
                                    "got "
                                 << attribute;
    return;
  }
  WatchedValue watched{*known, layer.str(), value, value};
  watched.scale = ::findArgument(step, description, "scale");
  watched.change = getChange(step, description);
  values.push_back(std::move(watched));
}

std::vector<WatchedValue> mlir::binade::collectGivenValues(func::FuncOp step) {
  std::vector<WatchedValue> values;
  for (BlockArgument argument : step.getArguments())
    add(step, argument, step.getArgAttr(argument.getArgNumber(), kWatchAttr),
        values);
  for (Operation &op : step.front().without_terminator())
    if (op.getNumResults() == 1)
      add(step, op.getResult(0), op.getAttr(kWatchAttr), values);
  return values;
}
