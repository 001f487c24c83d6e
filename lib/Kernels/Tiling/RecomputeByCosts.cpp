//===- RecomputeByCosts.cpp - Recompute saved values that free much -------===//
//
// A value that the forward pass saves, although what it follows from is saved,
// too, can be recomputed by the backward pass. This is fastest in a kernel that
// reads the same values anyway, as that of the gradient of an activation
// function or of a norm does: the kernel writes one more result.
//
//===----------------------------------------------------------------------===//

#include "Rebuild.h"
#include "binade/Costs/GpuCosts.h"
#include "binade/IR/CpuTarget.h"
#include "binade/IR/Interface.h"
#include "binade/IR/Movement.h"
#include "binade/IR/Names.h"
#include "binade/IR/Rematerialize.h"
#include "binade/Kernels/Passes.h"

namespace mlir::binade {
#define GEN_PASS_DEF_RECOMPUTEBYCOSTSPASS
#include "binade/Kernels/Passes.h.inc"

/// The most bytes that may be read and written to free one byte. An H100 takes
/// 0.9 ps for as many. A step of GPT-2 124M or Llama 1.1B takes 8 ps for each
/// byte of its temporary memory, so that a value is recomputed if that takes a
/// tenth of the time that a larger batch in the freed memory is worth. Copies
/// of weights in another format (3 bytes or more) are then kept.
static constexpr double kMaxTraffic = 2.5;
/// The most ops between the first reader of a value and the op with which it is
/// recomputed, the most ops that are delayed for that, and how many times as
/// large as the value all that they read may be: it lives longer. In a
/// transformer, these are the gradients of matmuls that read the value, 3 to 8
/// times as large; gradients of logits are much larger.
static constexpr size_t kMaxDistance = 64, kMaxDelayed = 16;
static constexpr uint64_t kMaxHeld = 8;
/// The fewest ops between the last reader of a value in the forward pass and
/// the first one in the backward pass for which a CPU recomputes it. Closer
/// ones are near the peak of memory, where both values would be needed.
static constexpr unsigned kMinApart = 64;

using Numbers = DenseMap<Operation *, unsigned>;

static Numbers numberOps(Block &body) {
  Numbers numbers;
  for (Operation &op : body)
    numbers[&op] = numbers.size();
  return numbers;
}

/// Whether an op before `reader`, other than a `save`, reads `value` shortly
/// before.
static bool isReadShortlyBefore(Value value, Operation *reader,
                                const Numbers &numbers) {
  unsigned limit = numbers.lookup(reader);
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    unsigned number = numbers.lookup(user);
    return !isa<SaveOp>(user) && number < limit && limit - number < kMinApart;
  });
}

static bool isCopyOfArguments(Operation *op) {
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  return isa<ElementwiseOpInterface>(op) && kernelOp &&
         kernelOp.getSchedule() == Schedule::Elementwise &&
         getPhase(op) == Phase::Forward && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
}

/// Adds a `save` to each large copy of arguments that the backward pass reads
/// later, such as a weight in another format.
static void saveCopies(Block &body, uint64_t minBytes) {
  Numbers numbers = numberOps(body);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (!isCopyOfArguments(&op) ||
        getByteSize(op.getResult(0).getType()) < minBytes)
      continue;
    Value copy = op.getResult(0);
    Operation *first = nullptr;
    for (Operation *user : copy.getUsers())
      if (getPhase(user) == Phase::Backward &&
          (!first || numbers.lookup(user) < numbers.lookup(first)))
        first = user;
    if (!first || isReadShortlyBefore(copy, first, numbers))
      continue;
    OpBuilder b(op.getContext());
    b.setInsertionPointAfterValue(copy);
    Value save = SaveOp::create(b, op.getLoc(), copy);
    copy.replaceUsesWithIf(save, [](OpOperand &use) {
      return getPhase(use.getOwner()) == Phase::Backward;
    });
  }
}

namespace {
/// An op whose kernel may also recompute a value, and the ops before it that
/// need the value.
struct Partner {
  Operation *op = nullptr;
  SmallVector<Operation *> delayed;

  /// Moves `delayed` after `op`, those first that its kernel may compute, too.
  void delay() {
    llvm::SmallPtrSet<Operation *, 16> late;
    auto isLate = [&](Operation *other) { return late.contains(other); };
    for (Operation *other : delayed)
      if (isLibraryCall(other) ||
          llvm::any_of(other->getOperands(), [&](Value operand) {
            return isLate(operand.getDefiningOp());
          }))
        late.insert(other);
    for (Operation *other : llvm::reverse(delayed))
      if (isView(other) &&
          llvm::none_of(other->getUsers(), [&](Operation *user) {
            return llvm::is_contained(delayed, user) && !isLate(user);
          }))
        late.insert(other);
    llvm::stable_sort(delayed, [&](Operation *l, Operation *r) {
      return isLate(l) < isLate(r);
    });
    Operation *last = op;
    for (Operation *other : delayed) {
      other->moveAfter(last);
      last = other;
    }
  }

private:
  static bool isLibraryCall(Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    return !kernelOp || kernelOp.getSchedule() == Schedule::Library;
  }
};

class Trader {
public:
  /// `costs` is null for a CPU.
  Trader(Block &body, const GpuCosts *costs, uint64_t minBytes)
      : body(body), costs(costs), minBytes(minBytes), numbers(numberOps(body)) {
    for (auto save : body.getOps<SaveOp>())
      if (save.getX().getType() == save.getType())
        saves[save.getX()] = save;
  }

  /// Returns what happens to each value that is not small. Visits the last
  /// values first, so that what they follow from can be recomputed, too.
  SmallVector<Attribute> run() {
    SmallVector<Attribute> choices;
    SmallVector<SaveOp> all(body.getOps<SaveOp>());
    for (SaveOp save : llvm::reverse(all)) {
      RankedTensorType type = save.getType();
      // `binade-recompute` saves the operands of broadcasts.
      if (saves.lookup(save.getX()) != save || getByteSize(type) < minBytes ||
          isRecomputedBroadcast(findBase(save.getX()).getDefiningOp()))
        continue;
      MLIRContext *context = save.getContext();
      auto name = StringAttr::get(context, describe(save.getX()));
      auto choice =
          recompute(save) ? SavedChoice::Recompute : SavedChoice::Keep;
      choices.push_back(
          SavedAttr::get(context, choice, name, type, QuantizedAttr()));
    }
    std::reverse(choices.begin(), choices.end());
    return choices;
  }

private:
  /// Replaces and erases `save` if that pays. Returns whether it did.
  bool recompute(SaveOp save) {
    Operation *first = findFirstUser(save.getResult());
    if (!first || getPhase(first) != Phase::Backward ||
        (!costs && isReadShortlyBefore(save.getX(), first, numbers)))
      return false;
    Rebuilt rebuilt(save, saves, first);
    if (!rebuilt.getValue())
      return false;
    Partner partner = findPartner(save, first, rebuilt);
    if (!rebuilt.isOneOp() && !pays(save, rebuilt, partner)) {
      rebuilt.erase();
      return false;
    }
    saves.erase(save.getX());
    save.getResult().replaceAllUsesWith(rebuilt.getValue());
    if (partner.op) {
      rebuilt.moveBefore(partner.op);
      partner.delayed.insert(partner.delayed.begin(),
                             rebuilt.getViews().begin(),
                             rebuilt.getViews().end());
      partner.delay();
    }
    save.erase();
    return true;
  }

  static bool canShareKernel(Operation *op) {
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    return kernelOp && getPhase(op) == Phase::Backward &&
           (kernelOp.getSchedule() == Schedule::Elementwise ||
            kernelOp.getSchedule() == Schedule::RowReduction);
  }

  static bool reads(Operation *op, Value source) {
    return llvm::is_contained(op->getOperands(), source);
  }

  /// Returns the next op that reads, element by element, what the value follows
  /// from, and does not depend on the value.
  static Partner findPartner(SaveOp save, Operation *first,
                             const Rebuilt &rebuilt) {
    Partner partner;
    llvm::DenseSet<Operation *> waiting;
    llvm::DenseSet<Value> held;
    uint64_t heldBytes = 0;
    size_t distance = 0;
    for (Operation *op = first; op && distance < kMaxDistance;
         op = op->getNextNode(), ++distance) {
      if (rebuilt.contains(op))
        continue;
      bool waits = llvm::any_of(op->getOperands(), [&](Value operand) {
        return operand == save.getResult() ||
               waiting.contains(operand.getDefiningOp());
      });
      bool isPartner =
          canShareKernel(op) &&
          llvm::any_of(rebuilt.getSources(), [&](Value source) {
            return reads(op, source) &&
                   getNumElements(source) == getNumElements(save.getResult());
          });
      if (isPartner && !waits) {
        partner.op = op;
        return partner;
      }
      if (!waits)
        continue;
      for (Value operand : op->getOperands())
        if (operand != save.getResult() &&
            !waiting.contains(operand.getDefiningOp()) &&
            held.insert(findBase(operand)).second)
          heldBytes += getByteSize(operand.getType());
      if (op->getNumRegions() > 0 || partner.delayed.size() == kMaxDelayed ||
          heldBytes > kMaxHeld * getByteSize(save.getType()))
        return {};
      waiting.insert(op);
      partner.delayed.push_back(op);
    }
    return {};
  }

  bool pays(SaveOp save, const Rebuilt &rebuilt, const Partner &partner) const {
    auto bytes = double(getByteSize(save.getType()));
    double loaded = rebuilt.countLoaded(
        [&](Value source) { return partner.op && reads(partner.op, source); });
    if (!costs)
      return loaded + bytes <= kMaxTraffic * bytes;
    double seconds = costs->predictPass(loaded + bytes);
    if (partner.op)
      seconds -= costs->getRates().start; // It has started anyway.
    return seconds * costs->getRates().memory <= kMaxTraffic * bytes;
  }

  Block &body;
  const GpuCosts *costs;
  uint64_t minBytes;
  Numbers numbers; ///< The order of the ops before any moved.
  DenseMap<Value, SaveOp> saves;
};

struct RecomputeByCostsPass
    : impl::RecomputeByCostsPassBase<RecomputeByCostsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = module->getAttrOfType<TargetAttr>(kTargetAttr);
    const GpuCosts *costs =
        target ? GpuCosts::find(target.getName().getValue().rsplit(':').second,
                                &getContext())
               : nullptr;
    bool isCpu = target && target.getName() == kCpuTargetName;
    if ((!costs && !isCpu) || module->hasAttr(kSavedAttr))
      return; // Rates are unknown, or a budget has decided.
    for (func::FuncOp program : getPrograms(module)) {
      if (isCpu)
        saveCopies(program.front(), minBytes);
      SmallVector<Attribute> choices =
          Trader(program.front(), costs, minBytes).run();
      if (!isCpu && program.getName() == kStepName && !choices.empty())
        module->setAttr(kSavedAttr, ArrayAttr::get(&getContext(), choices));
    }
  }
};
} // namespace
} // namespace mlir::binade
