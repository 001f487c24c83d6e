//===- MoveCasts.cpp - Placement of casts where the fewest bytes move -----===//
//
// A cast and an op that only moves data give the same bits in either order. The
// pass swaps them if fewer bytes are then read and written, or as many and the
// op moves a narrower format. One traversal, from the last op, moves casts up;
// another one, from the first op, moves them down.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "binade/Precision/Passes.h"
#include "binade/Precision/Policy.h"

namespace mlir::binade {
#define GEN_PASS_DEF_MOVECASTSPASS
#include "binade/Precision/Passes.h.inc"

namespace {
/// An op that copies the elements of one operand, and perhaps adds zeros (a
/// pad), without computing.
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
        // Copies only; an op that computes implements ElementwiseOpInterface.
        (schedule == Schedule::Elementwise && op->getNumOperands() == 1 &&
         !isa<ElementwiseOpInterface>(op));
    PrecisionAttr decision = precision.getPrecisionAttr();
    if (!moves || !decision || decision.isPin())
      return std::nullopt;
    // A rule of the policy fixes the saved format; the class of `save` does
    // not.
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

  /// Returns the bits that the op reads and writes in `format`: 0 for a view;
  /// for a slice, only the elements that it copies are read.
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

  /// Makes the op move `x`, and updates its result type and decision to the
  /// format of `x`.
  void setOperand(Value x) const {
    auto format = mlir::cast<FloatType>(getElementTypeOrSelf(x.getType()));
    operand->set(x);
    Value y = getResult();
    y.setType(mlir::cast<RankedTensorType>(y.getType()).clone(format));
    auto precision = mlir::cast<PrecisionOpInterface>(op);
    if (PrecisionAttr decision = precision.getPrecisionAttr())
      precision.setPrecisionAttr(
          PrecisionAttr::get(decision.getContext(), format, FloatType(), format,
                             ArrayAttr(), TransformAttr(), AccumulationAttr(),
                             decision.getClamp(), decision.getRule()));
  }
};

/// The target format of a cast between float formats, and whether it saturates
/// (1) or not (0).
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

/// Whether only `save` moves values of the format: ops of models have no
/// operands of 8 bits.
bool isOnlySaved(Type format) {
  constexpr unsigned kByte = 8;
  return format.getIntOrFloatBitWidth() <= kByte;
}

bool isNarrower(Type lhs, Type rhs) {
  return lhs.getIntOrFloatBitWidth() < rhs.getIntOrFloatBitWidth();
}

/// Equal casts of a mover's result that one cast of its operand can replace.
struct UpwardMove {
  Mover mover;
  SmallVector<Operation *> casts;

  /// Returns a mover whose only users are these casts: a clone if the mover, a
  /// view, has other users.
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

/// Returns the casts that can move up, by their rounding. All users must be
/// equal casts, except for users of a view, which costs nothing to clone. A
/// widening cast does not move before a `save`, where it would widen the saved
/// value.
llvm::MapVector<Rounding, UpwardMove> getUpwardMoves(Mover mover) {
  Value y = mover.getResult();
  bool isSaved = isa<SaveOp>(mover.op), isShared = false;
  llvm::MapVector<Rounding, UpwardMove> moves;
  for (Operation *user : y.getUsers()) {
    std::optional<Rounding> rounding = getRounding(user);
    if (rounding && (isSaved || !isOnlySaved(rounding->first)) &&
        !(isSaved && !isNarrower(rounding->first, getElementTypeOrSelf(y))))
      moves.try_emplace(*rounding, UpwardMove{mover, {}})
          .first->second.casts.push_back(user);
    else
      isShared = true;
  }
  if ((isShared || moves.size() > 1) && (isSaved || !mover.isView()))
    moves.clear();
  return moves;
}

CastOp createCast(OpBuilder &b, Value x, Rounding rounding, Phase phase) {
  auto type = cast<RankedTensorType>(x.getType()).clone(rounding.first);
  auto op = CastOp::create(b, x.getLoc(), type, x, rounding.second);
  setPhase(op, phase);
  return op;
}

/// Casts `x` instead of the results of its movers, and returns whether this
/// changed anything. Movers whose results are cast to the same format are
/// considered together, because they share the cast.
bool moveUp(Value x) {
  auto wide = dyn_cast<FloatType>(getElementTypeOrSelf(x.getType()));
  if (!wide)
    return false;
  bool changed = false;
  llvm::MapVector<Rounding, SmallVector<UpwardMove>> groups;
  for (OpOperand &use : x.getUses())
    if (std::optional<Mover> mover = Mover::get(use.getOwner());
        mover && mover->operand == &use)
      for (auto &[rounding, move] : getUpwardMoves(*mover))
        groups[rounding].push_back(move);
  for (auto &[rounding, group] : groups) {
    Type narrow = rounding.first;
    auto found = llvm::find_if(x.getUsers(), [&](Operation *user) {
      return getRounding(user) == rounding;
    });
    auto sharedCast = found == x.user_end() ? CastOp() : cast<CastOp>(*found);
    int64_t bitsNow = 0;
    int64_t bitsMoved = sharedCast ? 0 : getCastBits(x, wide, narrow);
    for (const UpwardMove &move : group) {
      const Mover &mover = move.mover;
      bitsNow +=
          mover.getBits(wide) + getCastBits(mover.getResult(), wide, narrow);
      bitsMoved += mover.getBits(narrow);
    }
    if (bitsMoved > bitsNow ||
        (bitsMoved == bitsNow && !isNarrower(narrow, wide)))
      continue;
    changed = true;
    Operation *producer = x.getDefiningOp();
    Operation *origin = producer;
    OpBuilder b(x.getContext());
    b.setInsertionPointAfterValue(x);
    if (isa_and_present<SaveOp>(producer)) {
      // Cast at the first use, so that the result has a short lifetime.
      origin = group.front().mover.op;
      for (const UpwardMove &move : group)
        if (move.mover.op->isBeforeInBlock(origin))
          origin = move.mover.op;
      if (sharedCast && sharedCast->isBeforeInBlock(origin))
        origin = sharedCast;
      b.setInsertionPoint(origin);
    }
    if (!sharedCast)
      sharedCast = createCast(b, x, rounding,
                              origin ? getPhase(origin) : Phase::Forward);
    else if (b.getInsertionPoint() != sharedCast->getIterator())
      sharedCast->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    for (const UpwardMove &move : group) {
      Mover mover = move.split();
      mover.setOperand(sharedCast);
      for (Operation *op : move.casts) {
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

/// Casts the result of a mover instead of its operand; returns whether it did.
bool moveDown(Mover mover) {
  auto operandCast = mover.operand->get().getDefiningOp<CastOp>();
  std::optional<Rounding> rounding = getRounding(operandCast);
  if (!rounding)
    return false;
  Value x = operandCast.getX(), y = mover.getResult();
  if (y.use_empty())
    return false;
  Type from = getElementTypeOrSelf(x.getType()), to = rounding->first;
  if (isOnlySaved(from) && !isa<SaveOp>(mover.op))
    return false;
  int64_t bitsNow = mover.getBits(to), bitsMoved = mover.getBits(from);
  if (operandCast->hasOneUse())
    bitsNow += getCastBits(x, from, to);
  // A kernel that reads a narrow saved value widens it itself.
  if (!isa<SaveOp>(mover.op) || !llvm::all_of(y.getUsers(), isKernel))
    bitsMoved += getCastBits(y, from, to);
  if (bitsMoved > bitsNow || (bitsMoved == bitsNow && !isNarrower(from, to)))
    return false;
  mover.setOperand(x);
  OpBuilder b(mover.op->getContext());
  b.setInsertionPointAfter(mover.op);
  Operation *origin = mover.op;
  if (isa<SaveOp>(origin)) {
    // Cast at the first use, so that the result has a short lifetime.
    origin = *llvm::min_element(y.getUsers(), [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    b.setInsertionPoint(origin);
  }
  CastOp cast = createCast(b, y, *rounding, getPhase(origin));
  y.replaceAllUsesExcept(cast.getY(), cast);
  if (operandCast->use_empty())
    operandCast.erase();
  return true;
}

struct MoveCastsPass : impl::MoveCastsPassBase<MoveCastsPass> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &body = getOperation().front();
    // A move in one direction may enable one in the other.
    while (place(body))
      ;
  }

  bool place(Block &body) {
    // Casts are created and erased, but movers stay.
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
