//===- PlaceCasts.cpp - Cast where the fewest bytes move ------------------===//
// A cast and an op that only moves data give the same bits in either order. A
// walk from the end takes casts up, one from the beginning takes them down,
// each step past one mover and only where fewer bytes are read and written.
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {
#define GEN_PASS_DEF_PLACECASTSPASS
#include "binade/Precision/Passes.h.inc"

namespace {
/// An op that gives the elements of one operand, and perhaps zeros, as they
/// are.
struct Mover {
  Operation *op;
  OpOperand *operand = nullptr;

  static std::optional<Mover> get(Operation *op) {
    auto precision = dyn_cast_or_null<PrecisionOpInterface>(op);
    auto kernel = dyn_cast_or_null<KernelOpInterface>(op);
    if (!precision || !kernel || op->getNumResults() != 1 ||
        precision.getPrecisionClass() != PrecisionClass::Clear)
      return std::nullopt;
    Schedule schedule = kernel.getSchedule();
    bool moves =
        schedule == Schedule::View || schedule == Schedule::Permute ||
        schedule == Schedule::Gather ||
        // Copies; what computes an element from elements says so.
        (schedule == Schedule::Elementwise && op->getNumOperands() == 1 &&
         !isa<ElementwiseOpInterface>(op));
    PrecisionAttr decision = precision.getPrecisionAttr();
    if (!moves || !decision || decision.isPin())
      return std::nullopt;
    // A rule says how a value waits; a class leaves that to those who read it.
    if (isa<SaveOp>(op) &&
        decision.getRule() != getOrigin(PrecisionClass::Clear))
      return std::nullopt;
    Mover mover{op};
    for (OpOperand &operand : op->getOpOperands()) {
      if (precision.getOperandFormat(operand.getOperandNumber()) !=
          FormatRole::Chosen)
        continue;
      if (mover.operand)
        return std::nullopt;
      mover.operand = &operand;
    }
    if (!mover.operand || getElementTypeOrSelf(mover.operand->get()) !=
                              getElementTypeOrSelf(mover.getResult()))
      return std::nullopt;
    return mover;
  }

  Value getResult() const { return op->getResult(0); }

  bool isView() const {
    return cast<KernelOpInterface>(op).getSchedule() == Schedule::View;
  }

  /// Bits that it reads and writes in a format: a view none, a slice only what
  /// it takes.
  int64_t getBits(Type format) const {
    if (isView())
      return 0;
    int64_t width = format.getIntOrFloatBitWidth();
    int64_t from = getElements(operand->get()), to = getElements(getResult());
    return width * (std::min(from, to) + to);
  }

  static int64_t getElements(Value value) {
    return mlir::cast<RankedTensorType>(value.getType()).getNumElements();
  }

  /// Lets it move `x`, in the format that `x` has.
  void setOperand(Value x) const {
    auto format = mlir::cast<FloatType>(getElementTypeOrSelf(x.getType()));
    operand->set(x);
    Value y = getResult();
    y.setType(mlir::cast<RankedTensorType>(y.getType()).clone(format));
    auto precision = mlir::cast<PrecisionOpInterface>(op);
    if (PrecisionAttr decision = precision.getPrecisionAttr())
      precision.setPrecisionAttr(PrecisionAttr::get(
          decision.getContext(), format, FloatType(), format, ArrayAttr(),
          decision.getClamp(), decision.getRule()));
  }
};

/// To what a cast of floats rounds, and whether it saturates.
using Rounding = std::pair<FloatType, unsigned>;

std::optional<Rounding> getRounding(Operation *op) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  auto format = cast ? dyn_cast<FloatType>(getElementTypeOrSelf(cast.getType()))
                     : FloatType();
  if (!format || !isa<FloatType>(getElementTypeOrSelf(cast.getX().getType())))
    return std::nullopt;
  return Rounding{format, cast.getSaturate()};
}

int64_t getCastBits(Value value, Type from, Type to) {
  return Mover::getElements(value) *
         (from.getIntOrFloatBitWidth() + to.getIntOrFloatBitWidth());
}

bool isNarrower(Type lhs, Type rhs) {
  return lhs.getIntOrFloatBitWidth() < rhs.getIntOrFloatBitWidth();
}

/// Casts of what a mover makes, alike, that may be done before it moves.
struct Ascent {
  Mover mover;
  SmallVector<Operation *> casts;

  /// The mover for these casts alone: others read a view of their own.
  Mover split() const {
    if (llvm::range_size(mover.getResult().getUsers()) == casts.size())
      return mover;
    OpBuilder b(mover.op);
    Operation *copy = b.clone(*mover.op);
    for (Operation *cast : casts)
      cast->setOperand(0, copy->getResult(0));
    return *Mover::get(copy);
  }
};

/// By what the casts round to. All readers have to cast alike, but for those of
/// a view, of which there may be two. Nothing that waits is widened before.
llvm::MapVector<Rounding, Ascent> getAscents(Mover mover) {
  Value y = mover.getResult();
  bool waits = isa<SaveOp>(mover.op), isShared = false;
  llvm::MapVector<Rounding, Ascent> ascents;
  for (Operation *user : y.getUsers()) {
    std::optional<Rounding> rounding = getRounding(user);
    if (rounding &&
        !(waits && !isNarrower(rounding->first, getElementTypeOrSelf(y))))
      ascents.try_emplace(*rounding, Ascent{mover, {}})
          .first->second.casts.push_back(user);
    else
      isShared = true;
  }
  if ((isShared || ascents.size() > 1) && (waits || !mover.isView()))
    ascents.clear();
  return ascents;
}

CastOp createCast(OpBuilder &b, Value x, Rounding rounding, Phase phase) {
  auto type = cast<RankedTensorType>(x.getType()).clone(rounding.first);
  auto op = CastOp::create(b, x.getLoc(), type, x, rounding.second);
  setPhase(op, phase);
  return op;
}

/// Casts `x` instead of what movers make of it. Movers of one format decide
/// together: they share the cast.
bool moveUp(Value x) {
  auto wide = dyn_cast<FloatType>(getElementTypeOrSelf(x.getType()));
  if (!wide)
    return false;
  bool changed = false;
  llvm::MapVector<Rounding, SmallVector<Ascent>> groups;
  for (OpOperand &use : x.getUses())
    if (std::optional<Mover> mover = Mover::get(use.getOwner());
        mover && mover->operand == &use)
      for (auto &[rounding, ascent] : getAscents(*mover))
        groups[rounding].push_back(ascent);
  for (auto &[rounding, group] : groups) {
    Type narrow = rounding.first;
    auto found = llvm::find_if(x.getUsers(), [&](Operation *user) {
      return getRounding(user) == rounding;
    });
    auto there = found == x.user_end() ? CastOp() : cast<CastOp>(*found);
    int64_t before = 0;
    int64_t after = there ? 0 : getCastBits(x, wide, narrow);
    for (const Ascent &ascent : group) {
      const Mover &mover = ascent.mover;
      before +=
          mover.getBits(wide) + getCastBits(mover.getResult(), wide, narrow);
      after += mover.getBits(narrow);
    }
    if (after > before || (after == before && !isNarrower(narrow, wide)))
      continue;
    changed = true;
    Operation *producer = x.getDefiningOp();
    Operation *origin = producer;
    OpBuilder b(x.getContext());
    b.setInsertionPointAfterValue(x);
    if (isa_and_present<SaveOp>(producer)) {
      // What waits in its own format is cast where it is read.
      origin = group.front().mover.op;
      for (const Ascent &ascent : group)
        if (ascent.mover.op->isBeforeInBlock(origin))
          origin = ascent.mover.op;
      if (there && there->isBeforeInBlock(origin))
        origin = there;
      b.setInsertionPoint(origin);
    }
    if (!there)
      there = createCast(b, x, rounding,
                         origin ? getPhase(origin) : Phase::Forward);
    else if (b.getInsertionPoint() != there->getIterator())
      there->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    for (const Ascent &ascent : group) {
      Mover mover = ascent.split();
      mover.setOperand(there);
      for (Operation *op : ascent.casts) {
        op->replaceAllUsesWith(ValueRange(mover.getResult()));
        op->erase();
      }
    }
  }
  return changed;
}

bool isKernel(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getSchedule() != Schedule::View &&
         kernel.getSchedule() != Schedule::Library;
}

/// Casts what a mover makes, instead of what it reads.
bool moveDown(Mover mover) {
  auto before = mover.operand->get().getDefiningOp<CastOp>();
  std::optional<Rounding> rounding = getRounding(before);
  if (!rounding)
    return false;
  Value x = before.getX(), y = mover.getResult();
  if (y.use_empty())
    return false;
  Type from = getElementTypeOrSelf(x.getType()), to = rounding->first;
  int64_t early = mover.getBits(to), late = mover.getBits(from);
  if (before->hasOneUse())
    early += getCastBits(x, from, to);
  // A kernel that reads what waits narrow widens it on its own.
  if (!isa<SaveOp>(mover.op) || !llvm::all_of(y.getUsers(), isKernel))
    late += getCastBits(y, from, to);
  if (late > early || (late == early && !isNarrower(from, to)))
    return false;
  mover.setOperand(x);
  OpBuilder b(mover.op->getContext());
  b.setInsertionPointAfter(mover.op);
  Operation *origin = mover.op;
  if (isa<SaveOp>(origin)) {
    // Cast where it is read.
    origin = *llvm::min_element(y.getUsers(), [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    b.setInsertionPoint(origin);
  }
  CastOp cast = createCast(b, y, *rounding, getPhase(origin));
  y.replaceAllUsesExcept(cast.getY(), cast);
  if (before->use_empty())
    before.erase();
  return true;
}

struct PlaceCastsPass : impl::PlaceCastsPassBase<PlaceCastsPass> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &body = getOperation().front();
    // One way may clear the other.
    while (place(body))
      ;
  }

  bool place(Block &body) {
    // Casts come and go; movers stay.
    SmallVector<Operation *> ops;
    for (Operation &op : body)
      if (Mover::get(&op))
        ops.push_back(&op);
    bool changed = false;
    for (Operation *op : llvm::reverse(ops))
      if (llvm::any_of(op->getUsers(), llvm::IsaPred<CastOp>))
        if (std::optional<Mover> mover = Mover::get(op))
          changed |= moveUp(mover->operand->get());
    for (Operation *op : ops)
      if (std::optional<Mover> mover = Mover::get(op))
        changed |= moveDown(*mover);
    return changed;
  }
};
} // namespace
} // namespace mlir::binade
