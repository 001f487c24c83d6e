//===- EmitPlan.cpp - From launches to a plan -----------------------------===//

#include "binade/Kernels/EmitPlan.h"
#include "IndexRanges.h"
#include "LibraryCalls.h"
#include "Ports.h"
#include "Storage.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

/// What a record is for, in a reader's words: op, first node, and how many more
/// nodes there are; a line and column where nodes have no names.
static std::string describe(Operation *op, StringRef what) {
  llvm::SmallSetVector<StringRef, 4> nodes;
  op->getLoc()->walk([&](Location location) {
    if (auto name = dyn_cast<NameLoc>(location))
      nodes.insert(name.getName());
    return WalkResult::advance();
  });
  std::string place = nodes.empty() ? describeLocation(op->getLoc()).second
                                    : nodes.front().str();
  if (nodes.size() > 1)
    place += " +" + std::to_string(nodes.size() - 1);
  return place.empty() ? what.str() : (what + " " + place).str();
}

namespace {
class Emitter {
public:
  Emitter(func::FuncOp step, const PlanOptions &options)
      : step(step), options(options), storages(step, options) {}

  FailureOr<EmittedPlan> run() {
    if (failed(emit(step.front(), plan().records)))
      return failure();
    emitCopies();
    addPorts();
    finish();
    return std::move(result);
  }

private:
  ::binade::Plan &plan() { return result.plan; }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  /// The buffer of a value: its storage under the value's type.
  uint32_t getBuffer(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return getBuffer(storages.of(value), type.getElementType(),
                     type.getShape());
  }

  uint32_t getBuffer(unsigned storage, Type element, ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, element);
    auto [entry, isNew] =
        buffers.try_emplace({storage, type}, plan().buffers.size());
    if (isNew) {
      plan::Buffer buffer;
      buffer.dtype = getDType(element);
      buffer.shape = std::vector<int64_t>(shape);
      buffer.bytes = getByteSize(type);
      buffer.category = storages.get(storage).category;
      plan().buffers.push_back(std::move(buffer));
      storageOfBuffer.push_back(storage);
    }
    return entry->second;
  }

  /// The place of a value. Values of a tile's body lie in pieces of buffers
  /// outside, or in buffers of their own.
  plan::View getView(Value value) {
    for (Value base = value;; base = base.getDefiningOp()->getOperand(0)) {
      if (auto found = pieces.find(base); found != pieces.end())
        return found->second;
      if (!isView(base.getDefiningOp()))
        return {getBuffer(value), 0, {}, {}};
    }
  }

  /// The part of `whole` that is as long as `piece` and moves with the
  /// innermost loop.
  plan::View getPiece(Value whole, Value piece) {
    plan::View view = getView(whole);
    view.steps.resize(depth - 1, 0);
    view.steps.push_back(getNumElements(piece));
    return view;
  }

  plan::View getScratch(uint64_t bytes, Operation *op,
                        plan::Category category) {
    return getBytes(storages.addScratch(bytes, op, category), bytes);
  }

  plan::View getBytes(unsigned storage, uint64_t bytes) {
    Type byte = IntegerType::get(step.getContext(), 8);
    return {getBuffer(storage, byte, static_cast<int64_t>(bytes)), 0, {}, {}};
  }

  //===--------------------------------------------------------------------===//
  // Records
  //===--------------------------------------------------------------------===//

  /// Appends what `block` does to `into`.
  LogicalResult emit(Block &block, std::vector<plan::Record> &into) {
    auto *outer = std::exchange(records, &into);
    for (Operation &op : block.without_terminator())
      if (failed(emit(&op)))
        return failure();
    records = outer;
    return success();
  }

  LogicalResult emit(Operation *op) {
    if (auto tile = dyn_cast<TileOp>(op))
      return emitTile(tile);
    if (auto launch = dyn_cast<LaunchOp>(op))
      return emitLaunch(launch);
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      constants.push_back(constant);
      return success();
    }
    auto kernelOp = dyn_cast<KernelOpInterface>(op);
    if (kernelOp && kernelOp.getSchedule() == Schedule::View)
      return success();
    FailureOr<plan::Record> record =
        buildLibraryCall(op, [&](Value value) { return getView(value); });
    if (failed(record))
      return failure();
    record->label = describe(op, op->getName().stripDialect());
    if (isSummand(op))
      std::get<plan::Matmul>(record->body).accumulate = true;
    if (options.queryScratch) {
      uint64_t bytes = options.queryScratch(*record, plan(), isAlone);
      if (bytes)
        setScratch(*record, getScratch(bytes, op, plan::Category::Library));
    }
    records->push_back(std::move(*record));
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Tiles
  //===--------------------------------------------------------------------===//

  LogicalResult emitTile(TileOp op) {
    Block &body = op.getBody().front();
    ++depth;
    for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
      BlockArgument argument = body.getArgument(index);
      pieces[argument] = index < op.getSlices() ? getPiece(operand, argument)
                                                : getView(operand);
    }
    for (OpResult result : op->getResults()) {
      unsigned index = result.getResultNumber();
      bool isJoined = index < op.getJoins();
      Value base = findYielded(op, index);
      if (!base || !(isJoined || isSummand(base.getDefiningOp())))
        return op.emitOpError("yields value ")
               << index
               << (isJoined ? ", which its body does not compute"
                            : " to be added up, which is no matrix product of "
                              "its own");
      pieces[base] = isJoined ? getPiece(result, base) : getView(result);
      if (!isJoined)
        clear(result);
    }
    plan::Loop loop;
    loop.count = op.getCount();
    loop.slots = storages.getSlots(op);
    {
      llvm::SaveAndRestore alone(isAlone, isAlone || loop.slots > 0);
      if (failed(emit(body, loop.body)))
        return failure();
    }
    --depth;
    records->push_back({describe(op, "tile"), std::move(loop)});
    return success();
  }

  /// Whether `op` is a product that is added to what is there already.
  static bool isSummand(Operation *op) {
    auto tile = dyn_cast<TileOp>(op->getParentOp());
    if (!tile || !isa<MatmulOp>(op))
      return false;
    // Nobody else may see the sum before it is complete.
    Operation *user = op;
    while (user->hasOneUse() && (user == op || isView(user)))
      user = *user->getUsers().begin();
    if (user != tile.getYield())
      return false;
    for (unsigned index = tile.getJoins(); index < tile->getNumResults();
         ++index)
      if (findYielded(tile, index) == op->getResult(0))
        return true;
    return false;
  }

  /// Writes zeros: copies of one.
  void clear(Value sum) {
    if (!zero) {
      zero = storages.addScratch(sizeof(float), step, plan::Category::Constant,
                                 /*persistent=*/true);
    }
    plan::Copy copy;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
    copy.from = {getZero(), 0, std::vector<int64_t>(shape.size(), 0), {}};
    copy.to = getView(sum);
    copy.to.strides = getStrides(shape);
    copy.sizes = std::vector<int64_t>(shape);
    records->push_back({"clear", std::move(copy)});
  }

  uint32_t getZero() {
    return getBuffer(*zero, Float32Type::get(step.getContext()), {});
  }

  static void setScratch(plan::Record &record, plan::View scratch) {
    if (auto *matmul = std::get_if<plan::Matmul>(&record.body))
      matmul->scratch = scratch;
    if (auto *conv = std::get_if<plan::Convolution>(&record.body))
      conv->scratch = scratch;
  }

  LogicalResult emitLaunch(LaunchOp op) {
    plan::Launch launch;
    auto symbols =
        llvm::to_vector(op.getKernels().getAsRange<FlatSymbolRefAttr>());
    auto first = lookUp(op, symbols.front());
    bool overMany =
        first->getAttrOfType<ScheduleAttr>(kKernelAttr).getValue() ==
        Schedule::MultiTensor;
    auto shape = options.kernels.find(symbols.front().getValue());
    if (shape == options.kernels.end())
      return op.emitError("kernel ") << symbols.front() << " was not compiled";
    launch.kernel = symbols.front().getValue().str();
    launch.grain = shape->second.grain;
    launch.finish = shape->second.finish;

    auto operands = op.getOperands().begin();
    auto results = op.getResults().begin();
    SmallVector<plan::View> shared;
    if (overMany)
      for (Value value : op.getResults())
        if (cast<RankedTensorType>(value.getType()).getRank() == 0)
          shared.push_back(getView(value));
    for (FlatSymbolRefAttr symbol : symbols) {
      func::FuncOp kernel = lookUp(op, symbol);
      plan::Segment segment;
      segment.kernel = symbol.getValue().str();
      segment.extent = shape->second.extent;
      for (unsigned i = 0; i < kernel.getNumArguments(); ++i, ++operands) {
        segment.operands.push_back(getView(*operands));
        if (overMany)
          segment.extent = std::max(segment.extent, getNumElements(*operands));
      }
      unsigned own = kernel.getNumResults() - shared.size();
      for (unsigned i = 0; i < own; ++i, ++results)
        segment.operands.push_back(getView(*results));
      llvm::append_range(segment.operands, shared);
      launch.segments.push_back(std::move(segment));
    }
    if (shape->second.workspaceBytes)
      addWorkspace(op, launch, shape->second, overMany);
    plan::Record record{describe(op, symbols.front().getValue()),
                        std::move(launch)};
    records->push_back(std::move(record));
    return success();
  }

  /// One workspace for all segments, each from where the one before ends.
  void addWorkspace(LaunchOp op, plan::Launch &launch, const KernelShape &shape,
                    bool overMany) {
    auto blocks = [&](const plan::Segment &segment) -> uint64_t {
      return overMany ? llvm::divideCeil(segment.extent, shape.grain) : 1;
    };
    uint64_t total = 0;
    for (const plan::Segment &segment : launch.segments)
      total += blocks(segment) * shape.workspaceBytes;
    // A status is read after the step.
    unsigned storage = storages.addScratch(total, op, plan::Category::Workspace,
                                           /*persistent=*/shape.hasStatus);
    plan::View view = getBytes(storage, total);
    if (shape.hasStatus)
      statuses.push_back({describe(op, launch.kernel), storage});
    if (launch.finish) {
      launch.finishOperands = launch.segments.front().operands;
      launch.finishOperands.push_back(view);
    }
    for (plan::Segment &segment : launch.segments) {
      segment.operands.push_back(view);
      view.offset += blocks(segment) * shape.workspaceBytes;
    }
  }

  static func::FuncOp lookUp(Operation *op, FlatSymbolRefAttr symbol) {
    return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, symbol);
  }

  static int64_t getNumElements(Value value) {
    return cast<RankedTensorType>(value.getType()).getNumElements();
  }

  void emitCopies() {
    for (auto [from, to] : storages.getCopies()) {
      plan::Copy copy;
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(from.getType()).getShape();
      copy.from = getView(from);
      copy.to = getView(to);
      copy.from.strides = copy.to.strides = getStrides(shape);
      copy.sizes = std::vector<int64_t>(shape);
      plan().records.push_back({"copy", std::move(copy)});
    }
  }

  //===--------------------------------------------------------------------===//
  // Ports
  //===--------------------------------------------------------------------===//

  void addPorts() {
    for (BlockArgument argument : step.getArguments()) {
      std::optional<Port> port = getArgument(step, argument.getArgNumber());
      if (!port)
        continue;
      unsigned index = argument.getArgNumber();
      plan::Init init = getInit(step.getArgAttr(index, kInitAttr), port->name,
                                result.tensors);
      addPort(getPlanRole(port->role), port->name, argument, std::move(init));
    }
    for (auto [index, constant] : llvm::enumerate(constants)) {
      std::string name = "constant" + std::to_string(index);
      addPort(plan::Role::Constant, name, constant,
              getInit(constant.getValue(), name, result.tensors));
    }
    if (zero)
      addPort(plan::Role::Constant, "zero", getZero(), plan::FillInit{0});
    for (unsigned index = 0; index < step.getNumResults(); ++index) {
      std::optional<Port> port = getResult(step, index);
      if (port && !findArgument(step, port->role, port->name))
        addPort(getPlanRole(port->role), port->name,
                step.front().getTerminator()->getOperand(index), {});
    }
    llvm::StringMap<unsigned> counts;
    for (const auto &[label, storage] : statuses) {
      std::string name = "out_of_range/" + label;
      if (unsigned count = counts[label]++)
        name += " #" + std::to_string(count + 1);
      addPort(plan::Role::Metric, name,
              getBuffer(storage, IntegerType::get(step.getContext(), 32), {}),
              {});
    }
  }

  void addPort(plan::Role role, StringRef name, Value value, plan::Init init) {
    addPort(role, name, getBuffer(value), std::move(init));
    if (role == plan::Role::Hyper)
      plan().ports.back().range = findNumberRange(value);
    if (role != plan::Role::Batch)
      return;
    if (std::optional<IndexRange> range = findIndexRange(value))
      plan().ports.back().check =
          plan::IndexCheck{range->low, range->high, range->ignored};
  }

  void addPort(plan::Role role, StringRef name, uint32_t buffer,
               plan::Init init) {
    plan::Port port;
    port.role = role;
    port.name = name.str();
    port.buffer = buffer;
    port.init = std::move(init);
    plan().buffers[port.buffer].name = name.str();
    plan().ports.push_back(std::move(port));
  }

  //===--------------------------------------------------------------------===//
  // The whole
  //===--------------------------------------------------------------------===//

  void finish() {
    plan().arenaBytes = storages.assignOffsets();
    plan().ledger = storages.getLedger(plan().arenaBytes);
    for (auto [buffer, storage] : llvm::zip(plan().buffers, storageOfBuffer)) {
      buffer.offset = storages.get(storage).offset;
      buffer.slot = storages.get(storage).slot;
    }
    plan().threads = options.threads;
    plan().skipsNonFinite =
        findResult(step, Role::Metric, "found_inf").has_value();
    auto module = step->getParentOfType<ModuleOp>();
    if (auto policy = module->getAttrOfType<PolicyAttr>(kPolicyAttr)) {
      plan().policy = policy.getName().str();
      plan().policyHash = policy.getHash().str();
    }
    if (std::optional<StringRef> name = module.getSymName())
      plan().model = name->str();
  }

  func::FuncOp step;
  const PlanOptions &options;
  StorageMap storages;
  EmittedPlan result;
  DenseMap<std::pair<unsigned, Type>, uint32_t> buffers;
  std::vector<unsigned> storageOfBuffer;
  SmallVector<ConstantOp> constants;
  std::vector<plan::Record> *records = nullptr; ///< Where to append.
  /// Values of tiles' bodies that lie in buffers from outside.
  DenseMap<Value, plan::View> pieces;
  unsigned depth = 0;           ///< Tiles around what is emitted.
  bool isAlone = false;         ///< One of them runs in parallel.
  std::optional<unsigned> zero; ///< Storage of one f32 that is 0.
  /// Labels and workspaces of launches that report indices out of range.
  std::vector<std::pair<std::string, unsigned>> statuses;
};
} // namespace

FailureOr<EmittedPlan> mlir::binade::emitPlan(ModuleOp module,
                                              const PlanOptions &options) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return module.emitError("expected a function '@step' to plan");
  return Emitter(step, options).run();
}
