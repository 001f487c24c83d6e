//===- SiblingGroups.cpp - Groups that read the same tensors --------------===//

#include "SiblingGroups.h"
#include "binade/IR/Movement.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::binade;

/// The part of a group's loads that it must share with another group, so that
/// one kernel with the registers of both pays.
static constexpr int64_t kShared = 4;

SiblingGroups::SiblingGroups(
    ArrayRef<FusionGroup> groups,
    std::vector<llvm::SmallSetVector<unsigned, 4>> inputs)
    : groups(groups), inputs(std::move(inputs)) {
  for (const FusionGroup &group : groups) {
    current.push_back(current.size());
    loads.push_back(findLoads(group));
  }
}

SiblingGroups::Loads SiblingGroups::findLoads(const FusionGroup &group) const {
  Loads loads;
  bool isRowwise = group.schedule == Schedule::Elementwise ||
                   group.schedule == Schedule::RowReduction;
  if (group.ops.empty() || !isRowwise)
    return loads;
  int64_t elements = ShapedType::getNumElements(group.shape);
  for (Value value : getMemory(group))
    if (getNumElements(value) == elements)
      loads.insert(findBase(value));
  return loads;
}

unsigned SiblingGroups::findCurrent(unsigned group) const {
  while (current[group] != group)
    group = current[group];
  return group;
}

bool SiblingGroups::isWorthwhile(unsigned x, unsigned y) const {
  auto count = [](auto &&values) {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += static_cast<int64_t>(getByteSize(value.getType()));
    return bytes;
  };
  auto shared = llvm::make_filter_range(
      loads[x], [&](Value value) { return loads[y].contains(value); });
  return kShared * count(shared) >= std::min(count(loads[x]), count(loads[y]));
}

bool SiblingGroups::dependsOn(unsigned reader, unsigned group) const {
  Operation *begin = groups[group].ops.front();
  llvm::DenseSet<unsigned> seen;
  SmallVector<unsigned> pending = {reader};
  while (!pending.empty())
    for (unsigned input : inputs[pending.pop_back_val()]) {
      input = findCurrent(input);
      if (input == group)
        return true;
      // Groups that end before `group` begins do not depend on it.
      if (!groups[input].ops.empty() &&
          groups[input].ops.back()->isBeforeInBlock(begin))
        continue;
      if (seen.insert(input).second)
        pending.push_back(input);
    }
  return false;
}

/// Whether an op other than views reads `value` before `op`.
static bool isReadBefore(Value value, Operation *op,
                         ArrayRef<Operation *> members) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (llvm::is_contained(members, user))
      return false;
    if (isView(user) || isRecomputed(user))
      return isReadBefore(user->getResult(0), op, members);
    return user->getBlock() != op->getBlock() || user->isBeforeInBlock(op);
  });
}

bool SiblingGroups::areClose(unsigned early, unsigned late) const {
  ArrayRef<Operation *> first = groups[early].ops, second = groups[late].ops;
  bool isNoneDelayed = llvm::none_of(first, [&](Operation *op) {
    return llvm::any_of(op->getResults(), [&](Value result) {
      return isReadBefore(result, second.back(), first);
    });
  });
  return isNoneDelayed || llvm::all_of(getMemory(groups[late]), [&](Value x) {
           Operation *producer = x.getDefiningOp();
           return !producer || producer->isBeforeInBlock(first.back());
         });
}

void SiblingGroups::mergeAll(CanJoin canJoin, Merge merge) {
  llvm::MapVector<Value, SmallVector<unsigned>> readers;
  for (auto [index, values] : llvm::enumerate(loads))
    for (Value value : values)
      readers[value].push_back(index);
  auto tryMerge = [&](unsigned x, unsigned y) {
    x = findCurrent(x);
    y = findCurrent(y);
    if (x == y || !canJoin(groups[x], groups[y]) || !isWorthwhile(x, y))
      return;
    if (!groups[x].ops.back()->isBeforeInBlock(groups[y].ops.back()))
      std::swap(x, y);
    if (!areClose(x, y) || dependsOn(x, y) || dependsOn(y, x))
      return;
    merge(y, x);
    current[y] = x;
    inputs[x].insert_range(inputs[y]);
    loads[x].insert_range(loads[y]);
  };
  for (auto &[value, all] : readers)
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = i + 1; j < all.size(); ++j)
        tryMerge(all[i], all[j]);
}
