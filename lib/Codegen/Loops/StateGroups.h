//===- StateGroups.h - updates of quantized states --------------*- C++ -*-===//
//
// The numbers of a group are known before its scale is. So an update runs block
// by block: new states wait in memory of the thread, are measured group by
// group, get their scales, many groups at once, and are encoded.
//
// On a GPU they wait in registers, where a warp has room for a group: a warp
// has a span of elements, thread i the vectors i, i + 32 and so on of it. What
// follows from a group's numbers alone is computed by one of its threads, that
// of the next group by another at the same time, and handed to all by shuffles.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H
#define BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H

#include "../Casts/LaneCodec.h"
#include "Emitter.h"

namespace mlir::binade {

class StateGroups {
public:
  /// Whether `update` keeps states quantized.
  static bool isNeeded(OptimizerUpdateOp update);

  /// `emitter` is of a kernel that holds `update` and returns its results.
  StateGroups(Emitter &emitter, OptimizerUpdateOp update);

  /// The update of elements [argument 0, argument 1).
  void emit();
  /// Results that have memory of their own become what the operands are.
  void emitCopies();

private:
  /// A state, and memory for what is known of it while a block is done.
  struct State {
    KeptState kept;
    int64_t size; ///< Of a group.
    Value numbers;
    /// A number for each group. Magnitudes until factors are chosen, then what
    /// they are encoded with.
    SmallVector<Value> ofGroups;
  };
  void emitBlocks();
  /// Results that are no part of a quantized state.
  SmallVector<unsigned> listPlain();
  /// What is stored of a group beside its codes.
  SmallVector<Value> listParts(const State &state,
                               const LaneCodec::Factors &factors);
  void measure(const State &state, Value count, Value groups);
  void choose(const State &state, const Offset &base, Value groups);
  void encode(const State &state, const Offset &base, Value count,
              Value groups);
  void storeCodes(const State &state, IntLanes code, const Offset &offset);
  void
  forEachGroup(const State &state, Value count, Value groups,
               llvm::function_ref<void(const Offset &, Value, Value)> body);
  Value getOperand(unsigned state) { return update.getStates()[state]; }
  IntLanes encode(const State &state, FloatLanes x, ArrayRef<Value> shared,
                  const Offset &offset);

  //===--------------------------------------------------------------------===//
  // Spans of a warp
  //===--------------------------------------------------------------------===//

  /// Elements of a warp, and how they and groups belong to its threads.
  struct Span {
    int64_t lanes, vectors; ///< Of a thread.
    Offset start, own;      ///< Of the span; of the thread in it.
    Value lane;             ///< The thread's number in the warp.
    Value end;              ///< Of all elements; null where all of these exist.
  };
  /// The groups of some states in a span.
  struct Slots {
    SmallVector<unsigned> states; ///< Of one format.
    int64_t threads;              ///< That share a group.
    int64_t vectors;              ///< Of each of them in it.
    int64_t count; ///< Groups of a state that a thread has vectors of.
    Value member;  ///< The thread's number among those that share one.
    Value first;   ///< The lane of the first of these.
    Offset group;  ///< The one that this thread stands for,
    SmallVector<Value> exists; ///< if it does so, of each state.
  };
  bool hasExpansion();
  int64_t countVectors();
  int64_t countResidentBlocks();
  bool fitsSpans();
  void emitSpans();
  void emitSpan(const Span &span);
  Offset getColumn(const Span &span, int64_t vector);
  Value getExistence(const Span &span, const Offset &element);
  Offset stayInside(const Offset &offset);
  /// The operands that a state's scales are, and with them powers and centres.
  ValueRange getFactors(const State &state) {
    return update.getStates().slice(state.kept.first + 1, state.kept.count - 1);
  }
  SmallVector<Slots> getSlots(const Span &span);
  /// The numbers that thread `member` of those that share a group has.
  SmallVector<Value> handOut(const Slots &slots, ArrayRef<FloatLanes> own,
                             int64_t member);
  LaneCodec::Shared loadFactors(const Slots &slots);
  Value combine(const Slots &slots, ArrayRef<Value> words,
                vector::CombiningKind kind);
  void encodeSpan(const Span &span, const Slots &slots,
                  ArrayRef<SmallVector<Value>> numbers);

  Emitter &e;
  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp update;
  SmallVector<State> states; ///< Those that are quantized.
  int64_t block = 0;         ///< Elements that are done at a time.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H
