//===- Grouping.cpp - Which ops share a kernel ----------------------------===//
// One walk in program order. An op joins the unit of a producer if the loops
// agree and everything else that it reads has no higher level: then nothing
// that depends on the unit can be among its inputs, and no cycle can form. A
// unit rises above what it comes to read, unless others have been placed above
// it. Units of equal loops that one op reads become one, unless one of both may
// wait for the other; so do those that reduce to a number what another reads.
// At last, codes that a GPU writes in two orders are one unit's.
//===----------------------------------------------------------------------===//

#include "Grouping.h"
#include "binade/IR/Build.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Watch.h"
#include <queue>

using namespace mlir;
using namespace mlir::binade;

/// Codes in another order that one kernel writes: each takes shared memory.
static constexpr int64_t kMaxTransposedCopies = 4;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {
class Grouper {
public:
  explicit Grouper(Block &body) : body(body) {}

  std::vector<Unit> run() {
    for (Operation &op : body.without_terminator())
      place(&op);
    for (OpOperand &operand : body.getTerminator()->getOpOperands())
      materialize(operand.get());
    joinTransposedCopies();
    return sort();
  }

private:
  //===--------------------------------------------------------------------===//
  // Units
  //===--------------------------------------------------------------------===//

  void place(Operation *op) {
    position[op] = position.size();
    moments[op] = findMoment(op);
    if (isRecomputed(op))
      return; // Placed when something other than a kernel asks for it.
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    Schedule schedule = kernelOp ? kernelOp.getSchedule() : Schedule::Library;
    Unit unit{{op},         schedule,      getLoopShape(op, schedule),
              getPhase(op), findEvery(op), 0};
    if (unit.shape.empty() && schedule == Schedule::Elementwise)
      unit.schedule = Schedule::Scalars;
    if (schedule == Schedule::RowReduction)
      addReduction(unit, op);
    for (Value operand : op->getOperands())
      if (!isKernel(op) ||
          (schedule == Schedule::MultiTensor && !isConstant(operand) &&
           !isRecomputedOverMany(operand.getDefiningOp())))
        materialize(operand);

    SmallVector<unsigned> inputs = getInputs(op);
    std::optional<unsigned> host;
    for (unsigned input : inputs) {
      unit.level = std::max(unit.level, units[input].level + 1);
      if ((canJoin(units[input], unit) || isOfRows(units[input], op)) &&
          readsOwnRows(op, input) && (!host || isBetter(input, *host)))
        host = input;
    }
    if (host && absorb(inputs, *host))
      inputs = getInputs(op);
    // Equal ops over many tensors stand side by side, unless one feeds another.
    bool canShareLaunch = schedule == Schedule::MultiTensor && !sumsTensors(op);
    if (canShareLaunch)
      if (auto found = overMany.find(op->getName());
          found != overMany.end() && !llvm::is_contained(inputs, found->second))
        host = found->second;
    if (host && (!isRead[*host] || llvm::all_of(inputs, [&](unsigned input) {
          return input == *host || units[input].level < units[*host].level;
        }))) {
      join(op, unit.schedule, *host, inputs);
    } else {
      for (unsigned input : inputs)
        isRead[input] = true;
      if (canShareLaunch)
        overMany[op->getName()] = units.size();
      add(op, std::move(unit));
    }
    if (unsigned own = unitOf.lookup(op);
        schedule == Schedule::FullReduction && !isRead[own])
      shareReading(own);
  }

  bool isBetter(unsigned host, unsigned than) const {
    return std::pair(!isRead[host], units[host].level) >
           std::pair(!isRead[than], units[than].level);
  }

  /// Merges into `host` what else an op of its loops reads and has these loops,
  /// unless one of both waits for the other.
  bool absorb(ArrayRef<unsigned> inputs, unsigned host) {
    bool absorbed = false;
    for (unsigned input : inputs) {
      Unit &unit = units[host], &guest = units[input];
      if (input == host || guest.schedule != Schedule::Elementwise ||
          !canJoin(unit, guest))
        continue;
      // Who waits has a higher level, and waits for a unit that is read.
      bool isApart = unit.level == guest.level ||
                     !isRead[unit.level < guest.level ? host : input];
      if (!isApart)
        continue;
      merge(input, host);
      absorbed = true;
    }
    return absorbed;
  }

  void merge(unsigned from, unsigned into) {
    Unit &unit = units[into], &guest = units[from];
    for (Operation *op : guest.ops)
      unitOf[op] = into;
    llvm::append_range(unit.ops, guest.ops);
    llvm::sort(unit.ops, [&](Operation *x, Operation *y) {
      return position.lookup(x) < position.lookup(y);
    });
    unit.level = std::max(unit.level, guest.level);
    if (isReduction(guest.schedule))
      unit.schedule = guest.schedule;
    isRead[into] = isRead[into] || isRead[from];
    guest.ops.clear();
  }

  /// Merges a unit that reduces to numbers, and that nobody reads yet, into one
  /// that reads all that it does anyway.
  void shareReading(unsigned index) {
    llvm::SetVector<Value> wanted = getMemory(units[index]);
    llvm::SetVector<Operation *> readers;
    for (Value value : wanted)
      addReaders(value, readers);
    for (Operation *reader : readers) {
      auto found = unitOf.find(reader);
      if (found == unitOf.end() || found->second == index ||
          !canJoin(units[found->second], units[index]))
        continue;
      llvm::SetVector<Value> read = getMemory(units[found->second]);
      if (llvm::all_of(wanted, [&](Value x) { return read.contains(x); }))
        return merge(index, found->second);
    }
  }

  /// Kernels of elements write codes in the other order too, if a GPU runs
  /// them. What reads those waits for the kernel anyway.
  void joinTransposedCopies() {
    for (unsigned index = 0; index < units.size(); ++index) {
      Operation *op =
          units[index].ops.empty() ? nullptr : units[index].ops.front();
      if (units[index].schedule != Schedule::Permute ||
          !findTransposedCopy(op) || !getTarget(op))
        continue;
      auto host = unitOf.find(op->getOperand(0).getDefiningOp());
      if (host == unitOf.end())
        continue;
      const Unit &unit = units[host->second];
      bool hasRoom =
          llvm::count_if(unit.ops, findTransposedCopy) < kMaxTransposedCopies;
      if (hasRoom && unit.phase == units[index].phase &&
          (unit.schedule == Schedule::Elementwise ||
           unit.schedule == Schedule::FullReduction))
        merge(index, host->second);
    }
  }

  void add(Operation *op, Unit unit) {
    unitOf[op] = units.size();
    units.push_back(std::move(unit));
    isRead.push_back(false);
  }

  static bool isReduction(Schedule schedule) {
    return schedule == Schedule::RowReduction ||
           schedule == Schedule::FullReduction;
  }

  /// The shape that the op's loops run over: for reductions that of the
  /// operand.
  static SmallVector<int64_t> getLoopShape(Operation *op, Schedule schedule) {
    bool reduces = isReduction(schedule) && op->getNumOperands() > 0;
    Value value = reduces ? op->getOperand(0) : op->getResult(0);
    return llvm::to_vector(getShape(value));
  }

  /// Kernels over rows do not take in what watches: its sums of all elements
  /// would need kernels of their own, and memory between.
  static bool areExecutedTogether(const Unit &host, Phase phase,
                                  std::optional<int64_t> every) {
    return host.phase == phase && host.every.value_or(1) == every.value_or(1) &&
           !(every && host.schedule == Schedule::RowReduction);
  }

  static bool canJoin(const Unit &host, const Unit &guest) {
    if (!areExecutedTogether(host, guest.phase, guest.every))
      return false;
    if (host.schedule == Schedule::Scalars)
      return guest.schedule == Schedule::Scalars;
    // Numbers that nobody waits for are made where their sums are.
    if (host.schedule == Schedule::FullReduction &&
        guest.schedule == Schedule::Scalars)
      return guest.every && ShapedType::getNumElements(host.shape) > 1;
    // What reads the result of a full reduction waits for the whole kernel.
    if (guest.schedule == Schedule::FullReduction)
      return (host.schedule == Schedule::Elementwise ||
              host.schedule == Schedule::FullReduction) &&
             host.shape == guest.shape;
    auto isRowwise = [](Schedule schedule) {
      return schedule == Schedule::Elementwise ||
             schedule == Schedule::RowReduction;
    };
    return isRowwise(host.schedule) && isRowwise(guest.schedule) &&
           host.shape == guest.shape &&
           llvm::all_of(host.reduced, [&](const Reduced &mine) {
             return llvm::all_of(guest.reduced, [&](const Reduced &theirs) {
               return canShareRows(mine, theirs, host.shape);
             });
           });
  }

  /// Whether rows that are reduced in one way and in the other are the same, or
  /// rows and groups in them, or groups in rows and in columns.
  static bool canShareRows(const Reduced &x, const Reduced &y,
                           ArrayRef<int64_t> shape) {
    if (x.group > 0 && y.group > 0)
      return x == y || (x.axes != y.axes && x.group > 1 && y.group > 1 &&
                        shape.back() > 1);
    if (x.group == 0 && y.group == 0)
      return x.axes == y.axes;
    auto rank = static_cast<int64_t>(shape.size());
    if ((x.group > 0 ? x : y).axes.back() != rank - 1)
      return false;
    ArrayRef<int64_t> axes = x.group > 0 ? y.axes : x.axes;
    return axes.back() == rank - 1 &&
           axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  }

  static void addReduction(Unit &unit, Operation *op) {
    auto remember = [](auto &known, auto one) {
      if (!llvm::is_contained(known, one))
        known.push_back(std::move(one));
    };
    remember(unit.reduced, cast<KernelOpInterface>(op).getReduced());
    remember(unit.left, llvm::to_vector(getShape(op->getResult(0))));
  }

  /// Whether `op` computes with what reductions leave: once for a row, or for a
  /// group.
  static bool isOfRows(const Unit &host, Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    if (!areExecutedTogether(host, getPhase(op), findEvery(op)) || !kernelOp ||
        kernelOp.getSchedule() != Schedule::Elementwise)
      return false;
    return llvm::any_of(host.left, [&](ArrayRef<int64_t> shape) {
      auto isLeft = [&](Value value) { return getShape(value) == shape; };
      return llvm::all_of(op->getOperands(), isLeft) &&
             llvm::all_of(op->getResults(), isLeft);
    });
  }

  /// Whether what `op` reads of rows that `host` reduces is that of the rows it
  /// computes: in a square matrix a broadcast may hand out another row's.
  bool readsOwnRows(Operation *op, unsigned host) {
    const Unit &unit = units[host];
    auto *rows = llvm::find_if(
        unit.reduced, [](const Reduced &reduced) { return !reduced.group; });
    if (rows == unit.reduced.end())
      return true;
    SmallVector<int64_t> kept;
    for (int64_t axis : llvm::seq<int64_t>(0, unit.shape.size()))
      if (!llvm::is_contained(rows->axes, axis))
        kept.push_back(axis);
    SmallVector<Operation *> pending = {op};
    while (!pending.empty())
      for (Value operand : pending.pop_back_val()->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !isRecomputed(producer))
          continue;
        pending.push_back(producer);
        auto broadcast = dyn_cast<BroadcastOp>(producer);
        if (!broadcast || broadcast.getAxes() == ArrayRef<int64_t>(kept))
          continue;
        if (llvm::is_contained(getInputs(broadcast), host))
          return false;
      }
    return true;
  }

  void join(Operation *op, Schedule schedule, unsigned host,
            ArrayRef<unsigned> inputs) {
    Unit &unit = units[host];
    for (unsigned input : inputs)
      if (input != host) {
        unit.level = std::max(unit.level, units[input].level + 1);
        isRead[input] = true;
      }
    unit.ops.push_back(op);
    if (isReduction(schedule))
      unit.schedule = schedule;
    if (schedule == Schedule::RowReduction)
      addReduction(unit, op);
    unitOf[op] = host;
  }

  static bool isKernel(Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    return kernelOp && kernelOp.getSchedule() != Schedule::View &&
           kernelOp.getSchedule() != Schedule::Library;
  }

  static bool isMultiTensor(Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    return kernelOp && kernelOp.getSchedule() == Schedule::MultiTensor;
  }

  /// Whether an op over many tensors takes all of them together to a number: a
  /// launch has room for one such number of each kind.
  static bool sumsTensors(Operation *op) {
    return llvm::any_of(op->getResults(),
                        [](Value result) { return getShape(result).empty(); });
  }

  /// Units that `op` reads from; a kernel looks through what it recomputes.
  SmallVector<unsigned> getInputs(Operation *op) {
    llvm::SetVector<unsigned> inputs;
    bool looksThrough = isKernel(op) || isRecomputed(op);
    bool isOverMany = isMultiTensor(op);
    SmallVector<Value> pending(op->getOperands());
    while (!pending.empty()) {
      Operation *producer = pending.pop_back_val().getDefiningOp();
      if (!producer)
        continue;
      if (looksThrough && (isOverMany ? isRecomputedOverMany(producer)
                                      : isRecomputed(producer)))
        llvm::append_range(pending, producer->getOperands());
      else if (auto found = unitOf.find(producer); found != unitOf.end())
        inputs.insert(found->second);
    }
    return inputs.takeVector();
  }

  /// Gives a recomputed op a kernel of its own: a library call, a view or the
  /// function's caller needs it in memory.
  void materialize(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isRecomputed(op) || unitOf.contains(op))
      return;
    Unit unit{
        {op},         Schedule::Elementwise, llvm::to_vector(getShape(value)),
        getPhase(op), findEvery(op),         0};
    if (unit.shape.empty())
      unit.schedule = Schedule::Scalars;
    for (unsigned input : getInputs(op)) {
      unit.level = std::max(unit.level, units[input].level + 1);
      isRead[input] = true;
    }
    add(op, std::move(unit));
  }

  //===--------------------------------------------------------------------===//
  // Order
  //===--------------------------------------------------------------------===//

  /// When `op` is executed, in program order. What watches the step stands
  /// behind it, but wants to be executed when its operands are known.
  unsigned findMoment(Operation *op) const {
    if (!findEvery(op))
      return position.lookup(op);
    unsigned moment = 0;
    for (Value operand : op->getOperands())
      moment = std::max(moment, moments.lookup(operand.getDefiningOp()));
    return moment;
  }

  unsigned getMoment(const Unit &unit) const {
    unsigned moment = 0;
    for (Operation *op : unit.ops)
      moment = std::max(moment, moments.lookup(op));
    return moment;
  }

  /// Topological, as close to program order as it goes; what reads arguments
  /// only waits for its first reader.
  std::vector<Unit> sort() {
    std::vector<llvm::SetVector<unsigned>> readers(units.size());
    std::vector<unsigned> missing(units.size(), 0);
    for (auto [index, unit] : llvm::enumerate(units)) {
      llvm::SetVector<unsigned> inputs;
      for (Operation *op : unit.ops)
        for (unsigned input : getInputs(op))
          if (input != index)
            inputs.insert(input);
      missing[index] = inputs.size();
      for (unsigned input : inputs)
        readers[input].insert(index);
    }
    std::vector<unsigned> key(units.size());
    for (unsigned index = units.size(); index-- > 0;) {
      if (units[index].ops.empty())
        continue;
      key[index] = 2 * getMoment(units[index]) + 1;
      if (missing[index] == 0)
        for (unsigned reader : readers[index]) {
          unsigned other = 2 * getMoment(units[reader]);
          key[index] = reader == readers[index].front()
                           ? other
                           : std::min(key[index], other);
        }
    }
    using Entry = std::pair<unsigned, unsigned>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    for (unsigned index = 0; index < units.size(); ++index)
      if (missing[index] == 0 && !units[index].ops.empty())
        ready.emplace(key[index], index);
    std::vector<Unit> sorted;
    while (!ready.empty()) {
      unsigned index = ready.top().second;
      ready.pop();
      for (unsigned reader : readers[index])
        if (--missing[reader] == 0)
          ready.emplace(key[reader], reader);
      sorted.push_back(std::move(units[index]));
    }
    assert(llvm::count_if(units,
                          [](const Unit &unit) { return !unit.ops.empty(); }) ==
               0 &&
           "units depend on each other");
    return sorted;
  }

  Block &body;
  std::vector<Unit> units;
  /// Whether a unit was placed above: its level was computed from this one's.
  std::vector<bool> isRead;
  DenseMap<Operation *, unsigned> unitOf;
  DenseMap<Operation *, unsigned> position, moments;
  /// The latest unit of each op over many tensors.
  DenseMap<OperationName, unsigned> overMany;
};
} // namespace

std::vector<Unit> mlir::binade::groupOps(Block &body) {
  return Grouper(body).run();
}
