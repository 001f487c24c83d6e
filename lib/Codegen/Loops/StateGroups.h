//===- StateGroups.h - Updates of quantized optimizer states ----*- C++ -*-===//
//
// The scale of a group is known only after all its values are. Thus an update
// proceeds in blocks: new states are kept in memory of the thread, the largest
// magnitude of each group is computed, the scales of many groups are chosen at
// once, and the states are quantized.
//
// On a GPU the new states stay in registers if a warp has room for a group: a
// warp processes a span of elements, and thread i has the vectors i, i + 32 and
// so on of it. One thread per group computes what depends only on the group,
// different groups in parallel, and shuffles distribute the results.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H
#define BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H

#include "../Casts/LaneCodec.h"
#include "Emitter.h"

namespace mlir::binade {

/// Emits an optimizer update with quantized states.
class StateGroups {
public:
  /// Whether `update` has quantized states.
  static bool isNeeded(OptimizerUpdateOp update);

  /// `emitter` must be for a kernel that contains `update` and returns its
  /// results.
  StateGroups(Emitter &emitter, OptimizerUpdateOp update);

  /// Emits the update of elements [argument 0, argument 1).
  void emit();
  /// Emits copies of the operands to results that have memory of their own.
  void emitCopies();

private:
  /// A quantized state, and memory for intermediate values of a block.
  struct State {
    KeptState kept;
    int64_t size; ///< Elements per group.
    Value numbers;
    /// One value per group: the largest magnitude until factors are chosen,
    /// then what quantization needs.
    SmallVector<Value> ofGroups;
  };
  void emitBlocks();
  /// Returns the results that are not part of a quantized state.
  SmallVector<unsigned> listPlain();
  /// Returns what is stored for a group in addition to the quantized values.
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

  /// The elements of a warp, and how threads share them and their groups.
  struct Span {
    int64_t lanes, vectors; ///< Per thread.
    Offset start, own;      ///< Of the span, and of the thread in it.
    Value lane;             ///< The thread's number in the warp.
    Value end;              ///< End of all elements; null: the span is full.
  };
  /// The groups of some states in a span.
  struct Slots {
    SmallVector<unsigned> states; ///< These have one format.
    int64_t threads;              ///< Threads that share a group.
    int64_t vectors;              ///< Vectors per thread and group.
    int64_t count;                ///< Groups per state and thread.
    Value member;                 ///< The thread's number in its group.
    Value first;                  ///< The lane of the group's first thread.
    Offset group;                 ///< The group that this thread computes,
    SmallVector<Value> exists;    ///< and whether it does, per state.
  };
  bool hasExpansion();
  int64_t countVectors();
  int64_t countResidentBlocks();
  bool fitsWarpSpans();
  void emitSpans();
  void emitSpan(const Span &span);
  Offset getColumn(const Span &span, int64_t vector);
  Value getExistence(const Span &span, const Offset &element);
  Offset keepInBranch(const Offset &offset);
  /// Returns the operands with a state's scales and, if any, powers and
  /// centres.
  ValueRange getFactors(const State &state) {
    return update.getStates().slice(state.kept.first + 1, state.kept.count - 1);
  }
  SmallVector<Slots> getSlots(const Span &span);
  /// Returns the values `own` of thread `member` of those that share a group.
  SmallVector<Value> broadcastFactors(const Slots &slots,
                                      ArrayRef<FloatLanes> own, int64_t member);
  LaneCodec::Shared loadFactors(const Slots &slots);
  Value combine(const Slots &slots, ArrayRef<Value> words,
                vector::CombiningKind kind);
  void encodeSpan(const Span &span, const Slots &slots,
                  ArrayRef<SmallVector<Value>> numbers);

  Emitter &e;
  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp update;
  SmallVector<State> states; ///< The quantized states.
  int64_t block = 0;         ///< Elements processed at a time.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H
