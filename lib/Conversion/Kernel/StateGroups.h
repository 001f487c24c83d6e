//===- StateGroups.h - updates of quantized states --------------*- C++ -*-===//
//
// The numbers of a group are known before its scale is. So an update runs group
// by group: new states wait in memory of the thread, are measured, and encoded.
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
  struct State {
    KeptState kept;
    int64_t size; ///< Of a group.
    Value buffer; ///< The new numbers of the longest group of all states.
  };
  void encode(const State &state, const Offset &base, Value count);
  LaneCodec::Factors measure(const State &state, Value begin, Value end);
  void encodeGroup(const State &state, const Offset &base, const Offset &local,
                   Value begin, Value end);
  void storePacked(Value memory, IntLanes code, const Offset &offset);
  Value getOperand(unsigned state) { return update.getStates()[state]; }

  Emitter &e;
  ImplicitLocOpBuilder &b;
  OptimizerUpdateOp update;
  SmallVector<State> states; ///< Those that are quantized.
  int64_t longest = 0;
};

} // namespace mlir::binade

#endif // BINADE_LIB_CONVERSION_KERNEL_STATEGROUPS_H
