//===- Names.cpp - Names of ops and values in reports ---------------------===//

#include "binade/IR/Names.h"
#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"

using namespace mlir;
using namespace mlir::binade;

StringRef mlir::binade::getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName();
  return "";
}

/// Returns the number of characters that both texts begin with.
static size_t countCommon(StringRef a, StringRef b) {
  size_t size = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + size, b.begin()).first -
         a.begin();
}

bool mlir::binade::isInModule(StringRef name, StringRef path) {
  return !path.empty() && name.consume_front(path) &&
         (name.starts_with("/") || name.starts_with("."));
}

std::string mlir::binade::suggestNames(StringRef glob,
                                       ArrayRef<std::string> names) {
  constexpr size_t kShown = 3;
  if (llvm::all_of(names, [](StringRef name) { return name.empty(); }))
    return "; the module has no node names: print it with "
           "--mlir-print-debuginfo";
  if (std::string near = ::binade::suggest(glob, names); !near.empty())
    return near;
  StringRef literal =
      glob.take_until([](char c) { return StringRef("*?[{").contains(c); });
  SmallVector<StringRef> shown;
  for (StringRef name : names)
    if (!name.empty() && !llvm::is_contained(shown, name))
      shown.push_back(name);
  llvm::stable_sort(shown, [&](StringRef a, StringRef b) {
    return countCommon(a, literal) > countCommon(b, literal);
  });
  shown.truncate(std::min(shown.size(), kShown));
  std::string text = "; names look like ";
  for (auto [index, name] : llvm::enumerate(shown))
    text += (index == 0 ? "'" : ", '") + ::binade::printable(name.str()) + "'";
  return text + " (binade explain lists them)";
}

std::string mlir::binade::getEmbeddingNorm(StringRef table) {
  table.consume_back(".weight");
  return (table + ".norm").str();
}

std::string mlir::binade::describe(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (StringRef node = getNodeName(op); !node.empty())
    text += (" at '" + node + "'").str();
  if (Phase phase = getPhase(op); phase != Phase::Forward)
    text += (", " + stringifyPhase(phase)).str();
  return text;
}

std::string mlir::binade::describe(Value value) {
  if (Operation *op = value.getDefiningOp())
    return describe(op);
  auto argument = cast<BlockArgument>(value);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (auto port = getArgument(function, argument.getArgNumber()))
    return (stringifyRole(port->role) + " '" + port->name + "'").str();
  return "argument " + std::to_string(argument.getArgNumber());
}

std::string mlir::binade::nameByOps(func::FuncOp kernel) {
  SmallVector<KernelOpInterface> all, ops;
  for (auto op : kernel.getOps<KernelOpInterface>()) {
    all.push_back(op);
    if (!op.isRecomputed())
      ops.push_back(op);
  }
  if (ops.empty())
    ops = all;
  if (ops.empty())
    return "";
  auto *first = llvm::find_if_not(
      ops, [](KernelOpInterface op) { return isMovement(op); });
  KernelOpInterface begin = first == ops.end() ? ops.front() : *first,
                    end = ops.back();
  std::string name = begin->getName().stripDialect().str();
  if (begin != end)
    name += "_" + end->getName().stripDialect().str();
  return name;
}

SmallVector<NamedValue> mlir::binade::nameValues(func::FuncOp step) {
  SmallVector<NamedValue> named;
  llvm::StringMap<unsigned> counts;
  auto add = [&](Value value, std::string name) {
    if (unsigned count = ++counts[name]; count > 1)
      name += " #" + std::to_string(count);
    named.push_back({value, std::move(name)});
  };
  for (Role role : {Role::Parameter, Role::Batch})
    for (const Port &port : getArguments(step, role)) {
      Value value = step.getArgument(port.index);
      if (getDefaultFormatRole(value.getType()) == FormatRole::Chosen)
        add(value, (stringifyRole(role) + " " + port.name).str());
    }
  step.walk([&](PrecisionOpInterface op) {
    if (isa<SaveOp>(*op))
      return;
    std::string name = (stringifyPhase(getPhase(op)) + " " +
                        op->getName().stripDialect() + " " + getNodeName(op))
                           .str();
    for (OpResult result : op->getResults())
      if (op.getResultFormat(result.getResultNumber()) == FormatRole::Chosen)
        add(result, name);
  });
  return named;
}
