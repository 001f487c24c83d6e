//===- StateGroups.h - updates of quantized states --------------*- C++ -*-===//
//
// The numbers of a group are known before its scale is. So an update runs block
// by block: new states wait in memory of the thread, are measured group by
// group, get their scales, many groups at once, and are encoded.
//
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_CONVERSION_KERNEL_STATEGROUPS_H
#define BINADE_LIB_CONVERSION_KERNEL_STATEGROUPS_H

#include "../LaneCodec.h"
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
    /// A number for each group. Magnitudes until factors are chosen, then the
    /// factor, k and c.
    SmallVector<Value> ofGroups;
  };
  void measure(const State &state, Value count, Value groups);
  void choose(const State &state, const Offset &base, Value groups);
  void encode(const State &state, const Offset &base, Value count,
              Value groups);
  void storeCodes(const State &state, IntLanes code, const Offset &offset);
  void
  forEachGroup(const State &state, Value count, Value groups,
               llvm::function_ref<void(const Offset &, Value, Value)> body);
  Value getOperand(unsigned state) { return update.getStates()[state]; }

  Emitter &e;
  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp update;
  SmallVector<State> states; ///< Those that are quantized.
  int64_t block = 0;         ///< Elements that are done at a time.
};

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_KERNEL_STATEGROUPS_H
