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
/// Rows of a kernel that also reduces columns, and the most ops that do so. A
/// thread has registers for these.
static constexpr int64_t kMinColumns = 32, kMaxColumns = 4096;
static constexpr int64_t kMaxColumnSums = 2;

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

/// Whether `reader` reads a third group that depends on `group`.
bool SiblingGroups::dependsIndirectlyOn(unsigned reader, unsigned group) const {
  return llvm::any_of(inputs[reader], [&](unsigned input) {
    input = findCurrent(input);
    return input != group && input != reader && dependsOn(input, group);
  });
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
           Operation *producer = findBase(x).getDefiningOp();
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

//===----------------------------------------------------------------------===//
// Column sums
//===----------------------------------------------------------------------===//

static bool isColumnReduction(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return kernelOp && kernelOp.getSchedule() == Schedule::ColumnReduction;
}

/// Whether `op` reduces all axes but the last one. Only the parts of a
/// composite op know their axes.
static bool leavesLastAxis(Operation *op) {
  auto isOfLast = [](KernelOpInterface part) {
    Reduced reduced = part.getReduced();
    auto last = getTensor(part->getOperand(0)).getRank() - 1;
    return reduced.group == 0 &&
           ArrayRef(reduced.axes) == ArrayRef(llvm::to_vector(llvm::seq(last)));
  };
  Block parts;
  ImplicitLocOpBuilder b(op->getLoc(), op->getContext());
  b.setInsertionPointToStart(&parts);
  if (failed(cast<KernelOpInterface>(op).decompose(b)))
    return isOfLast(cast<KernelOpInterface>(op));
  return llvm::all_of(parts.getOps<KernelOpInterface>(), [&](auto part) {
    Schedule schedule = part.getSchedule();
    bool reduces = schedule == Schedule::RowReduction ||
                   schedule == Schedule::FullReduction ||
                   schedule == Schedule::ColumnReduction;
    return !reduces || isOfLast(part);
  });
}

/// Whether `group` is elementwise, apart from reductions of columns that joined
/// it before. Transposed copies that are going to join it need its loops.
static bool isElementwiseWithColumns(const FusionGroup &group) {
  return llvm::all_of(group.ops, [&](Operation *op) {
    if (isColumnReduction(op))
      return group.ops.size() > 1;
    return cast<KernelOpInterface>(op).getSchedule() == Schedule::Elementwise &&
           llvm::none_of(op->getUsers(), [](Operation *user) {
             return findTransposedCopy(user).has_value();
           });
  });
}

SiblingGroups::Loads
SiblingGroups::findColumnLoads(const FusionGroup &group) const {
  Loads loads;
  if (group.ops.size() != 1 || !isColumnReduction(group.ops.front()))
    return loads;
  int64_t elements = getNumElements(group.ops.front()->getOperand(0));
  for (Value value : getMemory(group))
    if (getNumElements(value) == elements)
      loads.insert(findBase(value));
  return loads;
}

bool SiblingGroups::canShareElements(unsigned into, unsigned columns) const {
  const FusionGroup &group = groups[into], &other = groups[columns];
  ArrayRef<int64_t> shape = group.shape;
  if (group.ops.empty() || shape.size() < 2 || group.phase != other.phase ||
      group.every || other.every || shape.back() < kMinColumns)
    return false;
  if (group.schedule == Schedule::RowReduction) {
    Reduced ofRows = {{static_cast<int64_t>(shape.size()) - 1}};
    if (shape.back() > kMaxColumns ||
        llvm::any_of(group.reduced, [&](const Reduced &reduced) {
          return !(reduced == ofRows);
        }))
      return false;
  } else if (!isElementwiseWithColumns(group) ||
             shape.back() % kWidestVector != 0) {
    return false;
  }
  Operation *op = other.ops.front();
  return getTensor(op->getOperand(0)).getShape() == shape &&
         llvm::count_if(group.ops, isColumnReduction) < kMaxColumnSums &&
         leavesLastAxis(op);
}

void SiblingGroups::mergeColumnSums(Merge merge) {
  // The groups whose kernels load or compute a tensor. Those that reduce rows
  // have more to do while they wait for memory.
  llvm::DenseMap<Value, SmallVector<unsigned>> users;
  for (Schedule schedule : {Schedule::RowReduction, Schedule::Elementwise}) {
    for (auto [index, group] : llvm::enumerate(groups))
      if (group.schedule == schedule)
        for (Operation *op : group.ops)
          for (Value result : op->getResults())
            users[findBase(result)].push_back(index);
    for (auto [index, values] : llvm::enumerate(loads))
      if (groups[index].schedule == schedule)
        for (Value value : values)
          users[value].push_back(index);
  }
  auto tryMerge = [&](unsigned into, unsigned columns) {
    into = findCurrent(into);
    if (into == columns || current[columns] != columns ||
        !canShareElements(into, columns) || dependsOn(into, columns) ||
        dependsIndirectlyOn(columns, into))
      return;
    merge(columns, into);
    current[columns] = into;
    inputs[into].insert_range(inputs[columns]);
  };
  for (unsigned columns = 0; columns < groups.size(); ++columns)
    for (Value value : findColumnLoads(groups[columns]))
      for (unsigned into : users.lookup(value))
        tryMerge(into, columns);
}
