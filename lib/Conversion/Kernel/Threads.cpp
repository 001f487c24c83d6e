//===- Threads.cpp - how threads of a GPU share a kernel ------------------===//
//
// A team of threads of one warp has an item, and walks over its columns side by
// side, a vector each. All teams of a block do the same, so that threads meet
// at every shuffle and barrier: a team without an item does another's again,
// and stores nothing.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::binade;

/// Holds all kernels.
static constexpr StringLiteral kGpuModule = "kernels";

static gpu::GPUModuleOp getGpuModule(ModuleOp module, Location loc) {
  if (auto found = module.lookupSymbol<gpu::GPUModuleOp>(kGpuModule))
    return found;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  return gpu::GPUModuleOp::create(b, loc, kGpuModule);
}

void Emitter::startOnGpu(ModuleOp module, StringRef name, TypeRange buffers) {
  gpu::GPUModuleOp kernels = getGpuModule(module, kernel.getLoc());
  b.setInsertionPointToEnd(kernels.getBody());
  auto function =
      gpu::GPUFuncOp::create(b, name, b.getFunctionType(buffers, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  auto threads = static_cast<int32_t>(shape->threads);
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({threads, 1, 1}));
  target = function;
  width = shape->lanes;
  Block *entry = &function.getBody().front();
  b.setInsertionPointToStart(entry);
  gpu::ReturnOp::create(b);
  push(entry, nullptr);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  teamNumber = arith::DivUIOp::create(b, thread, index(shape->team));
  team = {shape->team, arith::RemUIOp::create(b, thread, index(shape->team))};
}

Value Emitter::allocateForTeam(int64_t count, Type storage) {
  auto function = cast<gpu::GPUFuncOp>(*target);
  int64_t bytes = llvm::alignTo(
      count * llvm::divideCeil(storage.getIntOrFloatBitWidth(), 8), 16);
  int64_t teams = shape->threads / shape->team;
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  Value all = function.addWorkgroupAttribution(
      MemRefType::get({teams * bytes}, b.getI8Type(),
                      MemRefLayoutAttrInterface(), space),
      kernel.getLoc());
  Value start = arith::MulIOp::create(b, teamNumber, index(bytes));
  auto type =
      MemRefType::get({count}, storage, MemRefLayoutAttrInterface(), space);
  return memref::ViewOp::create(b, type, all, start, ValueRange());
}

void Emitter::forItems(int64_t extent,
                       llvm::function_ref<void(const Offset &)> body) {
  if (!shape) {
    loop(argument(0), argument(1), 1, {}, [&](Value item, ValueRange) {
      body(space.counter(item, extent, depth()));
      return SmallVector<Value>();
    });
    return;
  }
  int64_t teams = shape->threads / shape->team;
  int64_t blocks = llvm::divideCeil(extent, teams);
  cast<gpu::GPUFuncOp>(*target).setKnownGridSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(blocks), 1, 1}));
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value item = arith::AddIOp::create(
      b, arith::MulIOp::create(b, block, index(teams)), teamNumber);
  if (extent % teams != 0) {
    isActive = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, item,
                                     index(extent));
    item = arith::MinUIOp::create(b, item, index(extent - 1));
  }
  body(space.counter(item, extent, depth()));
}

SmallVector<Value> Emitter::groups(int64_t count, int64_t size,
                                   ValueRange carried, Columns body) {
  if (!shape)
    return loop(index(0), index(count), 1, carried,
                [&](Value group, ValueRange now) {
                  return body(space.counter(group, count, depth()), now);
                });
  Team whole = team;
  // No more parts than groups, and no more threads than vectors if possible.
  uint64_t vectors = std::max<int64_t>(1, size / width);
  uint64_t most =
      team.size / std::min<uint64_t>(team.size, llvm::bit_floor(vectors));
  auto parts = static_cast<int64_t>(
      std::min(most, llvm::bit_floor(static_cast<uint64_t>(count))));
  int64_t part = team.size / parts;
  Value number = arith::DivUIOp::create(b, team.member, index(part));
  team = {part, arith::RemUIOp::create(b, whole.member, index(part))};
  // As many turns for all: who has no group does its last one again.
  int64_t turns = llvm::divideCeil(count, parts);
  SmallVector<Value> values =
      loop(index(0), index(turns), 1, carried, [&](Value turn, ValueRange now) {
        Value group = arith::AddIOp::create(
            b, arith::MulIOp::create(b, turn, index(parts)), number);
        Value exists;
        if (count % parts != 0) {
          exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, group,
                                         index(count));
          Value last = arith::SubIOp::create(b, group, index(parts));
          group = arith::SelectOp::create(b, exists, group, last);
        }
        SmallVector<Value> next =
            body(space.counter(group, count, depth()), now);
        if (exists)
          for (auto [value, before] : llvm::zip(next, now))
            value = arith::SelectOp::create(b, exists, value, before);
        return next;
      });
  team = whole;
  return values;
}

void Emitter::endWalk(bool isForOthers) {
  nextPass();
  if (shape && isForOthers)
    gpu::BarrierOp::create(b);
}

Value Emitter::combineThreads(Value own,
                              llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t distance = team.size / 2; distance > 0; distance /= 2) {
    auto other = gpu::ShuffleOp::create(b, own, static_cast<int32_t>(distance),
                                        32, gpu::ShuffleMode::XOR);
    own = combine(own, other.getShuffleResult());
  }
  return own;
}

SmallVector<Value>
Emitter::whereFirst(ValueRange carried,
                    llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  if (!team.member)
    return body(carried);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, team.member, index(0));
  return conditional(isFirst, carried, [&] { return body(carried); });
}

void Emitter::guarded(bool isOfAll, llvm::function_ref<void()> store) {
  Value condition = isActive;
  // What is no vector is one number, for all threads the same.
  if (isOfAll && team.member && team.size > 1) {
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          team.member, index(0));
    condition = condition
                    ? arith::AndIOp::create(b, condition, isFirst).getResult()
                    : isFirst;
  }
  if (!condition)
    return store();
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  store();
}
