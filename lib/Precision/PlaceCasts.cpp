//===- PlaceCasts.cpp - Cast where the fewest bytes move ------------------===//
// A cast and an op that only moves data give the same bits in either order. A
// walk from the end takes casts up, one from the beginning takes them down,
// each step past one mover and only where fewer bytes are read and written.
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"

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
    if (!precision || !kernel || isa<SaveOp>(op) || op->getNumResults() != 1 ||
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

  /// Bits that it reads and writes in a format: a view none, a slice only what
  /// it takes.
  int64_t getBits(Type format) const {
    if (cast<KernelOpInterface>(op).getSchedule() == Schedule::View)
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
      precision.setPrecisionAttr(PrecisionAttr::get(decision.getContext(),
                                                    format, FloatType(), format,
                                                    decision.getRule()));
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

/// How all users of a value cast it; nothing where one does not.
std::optional<Rounding> getOnlyRounding(Value value) {
  std::optional<Rounding> rounding;
  for (Operation *user : value.getUsers()) {
    std::optional<Rounding> found = getRounding(user);
    if (!found || (rounding && *rounding != *found))
      return std::nullopt;
    rounding = found;
  }
  return rounding;
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
  llvm::MapVector<Rounding, SmallVector<Mover>> movers;
  for (OpOperand &use : x.getUses())
    if (std::optional<Mover> mover = Mover::get(use.getOwner());
        mover && mover->operand == &use)
      if (auto rounding = getOnlyRounding(mover->getResult()))
        movers[*rounding].push_back(*mover);
  for (auto &[rounding, group] : movers) {
    Type narrow = rounding.first;
    auto found = llvm::find_if(x.getUsers(), [&](Operation *user) {
      return getRounding(user) == rounding;
    });
    auto there = found == x.user_end() ? CastOp() : cast<CastOp>(*found);
    int64_t before = 0;
    int64_t after = there ? 0 : getCastBits(x, wide, narrow);
    for (const Mover &mover : group) {
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
      // What was saved waits as it is, and is cast where it is read.
      origin = group.front().op;
      for (const Mover &mover : group)
        if (mover.op->isBeforeInBlock(origin))
          origin = mover.op;
      if (there && there->isBeforeInBlock(origin))
        origin = there;
      b.setInsertionPoint(origin);
    }
    if (!there)
      there = createCast(b, x, rounding,
                         origin ? getPhase(origin) : Phase::Forward);
    else if (b.getInsertionPoint() != there->getIterator())
      there->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    for (const Mover &mover : group) {
      SmallVector<Operation *> casts(mover.getResult().getUsers());
      mover.setOperand(there);
      for (Operation *op : casts) {
        op->replaceAllUsesWith(ValueRange(mover.getResult()));
        op->erase();
      }
    }
  }
  return changed;
}

/// Casts what a mover makes, instead of what it reads.
bool moveDown(Mover mover) {
  auto before = mover.operand->get().getDefiningOp<CastOp>();
  std::optional<Rounding> rounding = getRounding(before);
  if (!rounding)
    return false;
  Value x = before.getX(), y = mover.getResult();
  Type from = getElementTypeOrSelf(x.getType()), to = rounding->first;
  int64_t early = mover.getBits(to), late = mover.getBits(from);
  if (before->hasOneUse())
    early += getCastBits(x, from, to);
  late += getCastBits(y, from, to);
  if (late > early || (late == early && !isNarrower(from, to)))
    return false;
  mover.setOperand(x);
  OpBuilder b(mover.op->getContext());
  b.setInsertionPointAfter(mover.op);
  CastOp cast = createCast(b, y, *rounding, getPhase(mover.op));
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
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (!op.use_empty() && isa<CastOp>(*op.user_begin()))
        if (std::optional<Mover> mover = Mover::get(&op))
          changed |= moveUp(mover->operand->get());
    for (Operation &op : llvm::make_early_inc_range(body))
      if (llvm::any_of(op.getOperands(), [](Value operand) {
            return isa_and_present<CastOp>(operand.getDefiningOp());
          }))
        if (std::optional<Mover> mover = Mover::get(&op))
          changed |= moveDown(*mover);
    return changed;
  }
};
} // namespace
} // namespace mlir::binade
