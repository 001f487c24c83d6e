//===- Numbers.cpp - Arithmetic of kernels --------------------------------===//

#include "Arithmetic.h"
#include "LaneMovement.h"
#include "ProgramBuilder.h"

using namespace mlir;
using namespace mlir::binade;

LogicalResult ProgramBuilder::emit(arith::ConstantOp op) {
  Registers to = get(op.getResult());
  SmallVector<uint64_t> lanes;
  if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue()))
    for (Attribute number : elements.getValues<Attribute>())
      lanes.push_back(getBits(number));
  else
    lanes.push_back(getBits(op.getValue()));
  add(op, [=](Machine &, Thread &t) {
    llvm::copy(lanes, t.registers.begin() + to.first);
  });
  return success();
}

LogicalResult ProgramBuilder::emit(vector::ReductionOp op) {
  Registers from = get(op.getVector()), to = get(op.getDest());
  std::optional<uint32_t> start;
  if (Value acc = op.getAcc())
    start = get(acc).first;
  LaneFunction combine = getCombiner(op.getKindAttr(), op.getDest().getType());
  if (!combine)
    return op.emitOpError("is a reduction that the simulator does not support");
  add(op, [=](Machine &, Thread &t) {
    uint64_t total = t.registers[start ? *start : from.first];
    for (uint32_t i = start ? 0 : 1; i < from.count; ++i) {
      uint64_t both[] = {total, t.registers[from.first + i]};
      total = combine(both);
    }
    t.registers[to.first] = total;
  });
  return success();
}

LogicalResult ProgramBuilder::emit(vector::DeinterleaveOp op) {
  Registers from = get(op.getSource()), even = get(op.getRes1()),
            odd = get(op.getRes2());
  add(op, [=](Machine &, Thread &t) {
    for (uint32_t i = 0; i < even.count; ++i) {
      t.registers[even.first + i] = t.registers[from.first + 2 * i];
      t.registers[odd.first + i] = t.registers[from.first + 2 * i + 1];
    }
  });
  return success();
}

LogicalResult ProgramBuilder::emitLanes(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() > 0)
    return op->emitOpError("is not simulated");
  Registers to = get(op->getResult(0));
  if (isa<vector::StepOp>(op)) {
    add(op, [=](Machine &, Thread &t) {
      for (uint32_t i = 0; i < to.count; ++i)
        t.registers[to.first + i] = i;
    });
    return success();
  }
  if (std::optional<SmallVector<LaneSource>> lanes = findLaneSources(op)) {
    SmallVector<uint32_t> from;
    for (auto [operand, lane] : *lanes)
      from.push_back(get(op->getOperand(operand)).first + lane);
    add(op, [=](Machine &, Thread &t) {
      for (uint32_t i = 0; i < to.count; ++i)
        t.registers[to.first + i] = t.registers[from[i]];
    });
    return success();
  }
  LaneFunction compute = getLaneFunction(op);
  if (!compute)
    return op->emitOpError("is not simulated");
  SmallVector<Registers> operands = getAll(op->getOperands());
  add(op, [=](Machine &, Thread &t) {
    SmallVector<uint64_t, 4> lane(operands.size());
    for (uint32_t i = 0; i < to.count; ++i) {
      for (auto [value, from] : llvm::zip(lane, operands))
        value = t.registers[from.first + (from.count == 1 ? 0 : i)];
      t.registers[to.first + i] = compute(lane.data());
    }
  });
  return success();
}
