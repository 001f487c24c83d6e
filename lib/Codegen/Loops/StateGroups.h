//===- StateGroups.h - Updates of quantized optimizer states ----*- C++ -*-===//
//
// The scale of a group is known only after all its values are. Thus an update
// proceeds in blocks: the new states are stored in scratch memory, the largest
// magnitude of each group is computed, the scales of many groups are chosen at
// once, and the states are quantized.
//
// On a GPU each thread keeps its own new states if those of a warp can hold a
// group. A warp processes a span of elements, of which thread i has the vectors
// i, i + 32, ... One thread per group computes the values that depend only on
// the group, such as its scale, and shuffles distribute them. Different threads
// do so for different groups in parallel.
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
  /// Emits copies of the old parameter and states to the results, for a step
  /// whose update is skipped.
  void emitCopies();

private:
  /// A quantized state, and memory for intermediate values of a block.
  struct State {
    KeptState kept;
    int64_t size;  ///< Elements per group.
    Value numbers; ///< The new state of a block, in f32, or its square roots;
                   ///< null: in registers.
    /// Memories with one value per group, with range expansion only: those of
    /// `LaneCodec::prepareDecoding` for the old state.
    SmallVector<Value> old;
    /// Memories with one value per group: the largest magnitude (and, with
    /// range expansion, the smallest) until factors are chosen; then the values
    /// of `LaneCodec::prepareEncoding`.
    SmallVector<Value> ofGroups;
  };
  void emitBlocks();
  /// Returns the results that are not part of a quantized state.
  SmallVector<unsigned> listPlain();
  /// Returns what is stored for a group in addition to the quantized values.
  SmallVector<Value> listParts(const State &state,
                               const LaneCodec::Factors &factors);
  // The steps of a block of `count` elements, `groups` groups: prepare the
  // dequantization, update, find the largest magnitudes, choose the scales,
  // quantize.
  void prepare(const State &state, const Offset &base, Value groups);
  void updateBlock(const Offset &base, Value count);
  void measure(const State &state, Value count, Value groups);
  void measureFullGroups(const State &state, Value groups);
  bool isShort(const State &state);
  void choose(const State &state, const Offset &base, Value groups);
  void encode(const State &state, const Offset &base, Value count,
              Value groups);
  SmallVector<Value> listStreams();
  void prefetchNextBlock(const State &state, const Offset &element);
  void storeCodes(const State &state, IntLanes code, const Offset &offset);
  void
  forEachGroup(const State &state, Value count, Value first, Value groups,
               llvm::function_ref<void(const Offset &, Value, Value)> body);
  /// Returns an operand with an old state, or a part of one.
  Value getOperand(unsigned state) { return update.getStates()[state]; }
  IntLanes encode(const State &state, FloatLanes x, ArrayRef<Value> shared,
                  const Offset &offset);
  /// Returns what is measured and encoded for a new state: `number`, or its
  /// square root.
  Value takeRoot(const State &state, Value number);

  //===--------------------------------------------------------------------===//
  // Spans of a warp
  //===--------------------------------------------------------------------===//

  /// The elements that a warp processes at a time, and those of this thread.
  struct Span {
    int64_t lanes, vectors; ///< Elements per vector, vectors per thread.
    Offset start, own;      ///< Of the span, and of the thread in it.
    Offset thread;          ///< The number of the thread in the block.
    Value lane;             ///< The number of the thread in the warp.
    Value end;              ///< End of all elements; null: the span is full.
  };
  /// How threads share the groups of some states in a span: which elements of
  /// groups a thread has, and of which group it computes the scale.
  struct Slots {
    SmallVector<unsigned> states; ///< All have the same format.
    int64_t threads;              ///< Threads that share a group.
    int64_t vectors;              ///< Vectors per thread and group.
    int64_t count; ///< Groups per state of which a thread has elements.
    Value member;  ///< The number of the thread among those of its groups.
    Value first;   ///< The number in the warp of the first of these threads.
    Value which;   ///< The number in `states` of the state whose scale this
                   ///< thread computes, if `exists`.
    Offset group;  ///< The group whose scale this thread computes.
    Value exists;  ///< Whether it computes one.
  };
  /// The largest and the smallest magnitude of some elements as integers; null
  /// if there is none yet. The smallest is kept as `measure` says.
  struct Extremes {
    Value amax, least;
  };
  bool hasExpansion();
  bool keepsInMemory();
  int64_t countVectors();
  int64_t countResidentBlocks();
  bool fitsWarpSpans();
  void emitSpans();
  void emitSpan(const Span &span);
  Offset getColumn(const Span &span, int64_t vector);
  Offset getPlace(const Span &span, unsigned index, int64_t vector);
  Value getExistence(const Span &span, const Offset &element);
  Offset keepInBranch(const Offset &offset);
  void loadOperands(const Offset &column);
  /// Returns the operands with a state's scales and, if any, powers and
  /// centres.
  ValueRange getFactors(const State &state) {
    return update.getStates().slice(state.kept.first + 1, state.kept.count - 1);
  }
  SmallVector<Slots> getSlots(const Span &span);
  /// Returns the values `own` of thread `member` to all threads that share a
  /// group.
  SmallVector<Value> broadcastFactors(const Slots &slots,
                                      ArrayRef<FloatLanes> own, int64_t member);
  Value chooseMemory(const Slots &slots,
                     llvm::function_ref<Value(const State &)> get);
  LaneCodec::Shared loadFactors(const Slots &slots);
  Value combine(const Slots &slots, Value word, vector::CombiningKind kind);
  void measure(const Slots &slots, size_t number, int64_t vector, FloatLanes x,
               Extremes &group, Extremes &own);
  void encodeSpan(const Span &span, const Slots &slots,
                  const Extremes &extremes,
                  llvm::function_ref<Value(unsigned, int64_t)> getNumber);

  Emitter &e;
  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp update;
  SmallVector<State> states; ///< The quantized states.
  int64_t block = 0;         ///< Elements processed at a time.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CODEGEN_LOOPS_STATEGROUPS_H
