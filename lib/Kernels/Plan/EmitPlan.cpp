//===- EmitPlan.cpp - Emission of a plan from launches --------------------===//

#include "binade/Kernels/EmitPlan.h"
#include "../Layout/IndexRanges.h"
#include "LibraryCalls.h"
#include "PlanEmitter.h"
#include "Ports.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/Metrics.h"
#include "binade/IR/Watch.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;

std::string mlir::binade::describe(Operation *op, StringRef what) {
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

plan::Copy mlir::binade::buildCopy(plan::View from, plan::View to,
                                   RankedTensorType type) {
  from.strides = to.strides = {1};
  return {std::move(from), std::move(to), {type.getNumElements()}};
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

uint32_t PlanEmitter::getBuffer(Value value) {
  return getBuffer(storages.of(value), cast<RankedTensorType>(value.getType()));
}

uint32_t PlanEmitter::getBuffer(unsigned storage, RankedTensorType type) {
  type = RankedTensorType::get(type.getShape(), type.getElementType());
  auto [entry, isNew] =
      buffers.try_emplace({storage, type}, plan().buffers.size());
  if (isNew) {
    plan::Buffer buffer;
    buffer.dtype = getDType(type.getElementType());
    buffer.shape = std::vector<int64_t>(type.getShape());
    buffer.bytes = getByteSize(type);
    buffer.category = storages.get(storage).category;
    plan().buffers.push_back(std::move(buffer));
    storageOfBuffer.push_back(storage);
  }
  return entry->second;
}

plan::View PlanEmitter::getView(Value value) {
  for (Value base = value;; base = base.getDefiningOp()->getOperand(0)) {
    if (auto found = pieces.find(base); found != pieces.end())
      return found->second;
    if (!isView(base.getDefiningOp()))
      return {getBuffer(value), 0, {}, {}};
  }
}

plan::View PlanEmitter::getBytes(unsigned storage, uint64_t bytes) {
  Type byte = IntegerType::get(step.getContext(), 8);
  auto type = RankedTensorType::get({static_cast<int64_t>(bytes)}, byte);
  return {getBuffer(storage, type), 0, {}, {}};
}

uint32_t PlanEmitter::getZero() {
  return getBuffer(
      *zero, RankedTensorType::get({}, Float32Type::get(step.getContext())));
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

LogicalResult PlanEmitter::emit(Block &block, std::vector<plan::Record> &into) {
  auto *outer = std::exchange(records, &into);
  for (Operation &op : block.without_terminator()) {
    size_t first = records->size();
    if (failed(emit(&op)))
      return failure();
    ends[&op] = records->size();
    if (getEvery(&op) > 1 && records == &plan().records)
      llvm::append_range(observing, llvm::seq(first, records->size()));
  }
  records = outer;
  return success();
}

LogicalResult PlanEmitter::emit(Operation *op) {
  if (auto tile = dyn_cast<TileOp>(op))
    return emitTile(tile);
  if (auto launch = dyn_cast<LaunchOp>(op))
    return emitLaunch(launch);
  if (auto exchange = dyn_cast<ExchangeOp>(op))
    return emitExchange(exchange);
  if (auto add = dyn_cast<ExchangeAddOp>(op))
    return emitExchangeAdd(add);
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (constantStorages.insert(storages.of(constant)).second)
      constants.push_back(constant);
    return success();
  }
  auto kernelOp = dyn_cast<KernelOpInterface>(op);
  if (kernelOp && kernelOp.getSchedule() == Schedule::View)
    return success();
  return emitLibraryCall(op);
}

/// Adds scratch memory for Binade's own kernel and for the library. Only one of
/// them computes the record, so that they share the memory.
void PlanEmitter::addScratch(plan::Record &record, Operation *op) {
  uint64_t own = 0;
  std::vector<uint64_t> sizes;
  if (options.queryScratch)
    own = options.queryScratch(record, plan(), isAlone);
  if (options.queryLibraryScratch)
    sizes = options.queryLibraryScratch(record, plan());
  uint64_t library = sizes.empty() ? 0 : sizes.front();
  if (own == 0 && library == 0)
    return;
  unsigned storage =
      storages.addScratch(std::max(own, library), op, plan::Category::Library);
  if (auto *scratch = plan::findScratch(record); scratch && own)
    *scratch = getBytes(storage, own);
  auto *scratch = plan::findLibraryScratch(record);
  if (!scratch || library == 0)
    return;
  *scratch = getBytes(storage, library);
  if (sizes.size() > 1 && library >= own) {
    storages.allowLarger(storage, {sizes.begin() + 1, sizes.end()});
    growing.push_back((*scratch)->buffer);
  }
}

LogicalResult PlanEmitter::emitLibraryCall(Operation *op) {
  FailureOr<plan::Record> record =
      buildLibraryCall(op, [&](Value value) { return getView(value); });
  if (failed(record))
    return failure();
  record->label = describe(op, op->getName().stripDialect());
  record->fallback = getFallback(op);
  if (isSummand(op))
    std::get<plan::Matmul>(record->body).accumulate = true;
  addScratch(*record, op);
  records->push_back(std::move(*record));
  return success();
}

LogicalResult PlanEmitter::emitProgram(unsigned index,
                                       std::vector<plan::Record> &into) {
  func::FuncOp function = programs[index].function;
  if (failed(emit(function.front(), into)))
    return failure();
  for (const FinalCopy &copy : storages.getCopies(index)) {
    if (hasNoElements(copy.type))
      continue;
    plan::View from{getBuffer(copy.from, copy.type), 0, {}, {}};
    plan::View to{getBuffer(copy.to, copy.type), 0, {}, {}};
    into.push_back({"copy " + copy.name, buildCopy(from, to, copy.type)});
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

void PlanEmitter::addArgumentPorts() {
  llvm::BitVector isReplaced(step.getNumArguments());
  for (std::optional<unsigned> argument : programs.front().replaced)
    if (argument)
      isReplaced.set(*argument);
  for (BlockArgument argument : step.getArguments()) {
    std::optional<Port> port = getArgument(step, argument.getArgNumber());
    if (!port)
      continue;
    unsigned index = argument.getArgNumber();
    plan::Init init =
        getInit(step.getArgAttr(index, kInitAttr), port->name, result.tensors);
    addPort(getPlanRole(port->role), port->name, argument, std::move(init));
    plan().ports.back().frozen =
        port->role == Role::Buffer && !isReplaced[index];
  }
}

/// Adds ports for results that have memory of their own.
void PlanEmitter::addResultPorts(unsigned program) {
  func::FuncOp function = programs[program].function;
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    std::optional<Port> port = getResult(function, index);
    if (!port || programs[program].replaced[index])
      continue;
    auto type = cast<RankedTensorType>(function.getResultTypes()[index]);
    addPort(getPlanRole(port->role), port->name,
            getBuffer(storages.ofResult(program, index), type), {});
    if (auto every =
            function.getResultAttrOfType<IntegerAttr>(index, kEveryAttr))
      plan().ports.back().every = every.getInt();
  }
}

/// Moves the records that are not executed in every step out of the step.
void PlanEmitter::separateObservation() {
  if (observing.empty())
    return;
  plan().observation = std::exchange(plan().records, {});
  for (const auto &[index, record] : llvm::enumerate(plan().observation))
    if (!llvm::binary_search(observing, index))
      plan().records.push_back(record);
}

void PlanEmitter::addPorts() {
  addArgumentPorts();
  for (auto [index, constant] : llvm::enumerate(constants)) {
    std::string name = "constant" + std::to_string(index);
    addPort(plan::Role::Constant, name, constant,
            getInit(constant.getValue(), name, result.tensors));
  }
  if (zero)
    addPort(plan::Role::Constant, "zero", getZero(), plan::FillInit{0});
  for (unsigned program = 0; program < programs.size(); ++program)
    addResultPorts(program);
  llvm::StringMap<unsigned> counts;
  for (const auto &[label, storage] : statuses) {
    std::string name = "out_of_range/" + label;
    if (unsigned count = counts[label]++)
      name += " #" + std::to_string(count + 1);
    addPort(
        plan::Role::Metric, name,
        getBuffer(storage, RankedTensorType::get(
                               {}, IntegerType::get(step.getContext(), 32))),
        {});
  }
}

void PlanEmitter::addPort(plan::Role role, StringRef name, Value value,
                          plan::Init init) {
  addPort(role, name, getBuffer(value), std::move(init));
  if (role == plan::Role::Hyper)
    plan().ports.back().range = findNumberRange(value);
  if (role != plan::Role::Batch)
    return;
  if (std::optional<IndexRange> range = findIndexRange(value))
    plan().ports.back().check =
        plan::IndexCheck{range->low, range->high, range->ignored};
}

void PlanEmitter::addPort(plan::Role role, StringRef name, uint32_t buffer,
                          plan::Init init) {
  plan::Port port;
  port.role = role;
  port.name = name.str();
  port.buffer = buffer;
  port.init = std::move(init);
  plan().buffers[port.buffer].name = name.str();
  plan().ports.push_back(std::move(port));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void PlanEmitter::finish() {
  plan().arenaBytes = storages.assignOffsets();
  plan().ledger = storages.getLedger(plan().arenaBytes);
  for (auto [buffer, storage] : llvm::zip(plan().buffers, storageOfBuffer)) {
    buffer.offset = storages.get(storage).offset;
    buffer.slot = storages.get(storage).slot;
  }
  for (uint32_t index : growing) {
    plan::Buffer &buffer = plan().buffers[index];
    buffer.bytes = storages.get(storageOfBuffer[index]).bytes;
    buffer.shape = {static_cast<int64_t>(buffer.bytes)};
  }
  plan().threads = options.threads;
  plan().skipsNonFinite = findResult(step, Role::Metric, kFoundInf).has_value();
  auto module = step->getParentOfType<ModuleOp>();
  if (auto policy = module->getAttrOfType<PolicyAttr>(kPolicyAttr)) {
    plan().policy = policy.getName().str();
    plan().policyHash = policy.getHash().str();
    for (PolicyAttr text = policy; text; text = text.getExtends())
      plan().policyTexts.push_back(
          {text.getName().str(), text.getHash().str(), text.getText().str(),
           text.getCosts() ? text.getCosts().str() : std::string()});
  }
  if (auto hash = module->getAttrOfType<StringAttr>(kComputationAttr))
    plan().computation = hash.str();
  if (std::optional<StringRef> name = module.getSymName())
    plan().model = name->str();
}

/// Checks that the policy texts in the module match their hashes: a policy is
/// edited in its file, not in a module.
LogicalResult PlanEmitter::checkPolicy() {
  StringRef base;
  for (const plan::PolicyText &text : llvm::reverse(plan().policyTexts)) {
    if (plan::hashPolicy(text, base) != text.hash)
      return step->getParentOfType<ModuleOp>().emitError()
             << "policy '" << text.name
             << "' was edited in the module: its text does not match its "
                "SHA-256; edit the policy's file instead";
    base = text.hash;
  }
  return success();
}

FailureOr<EmittedPlan> PlanEmitter::run() {
  for (unsigned index = 0; index < programs.size(); ++index) {
    StringRef name = func::FuncOp(programs[index].function).getName();
    std::vector<plan::Record> &into =
        name == kAccumulationName ? plan().accumulation
        : name == kEvaluationName ? plan().evaluation
                                  : plan().records;
    if (auto batches =
            programs[index].function->getAttrOfType<IntegerAttr>(kBatchesAttr))
      plan().batches = batches.getInt();
    if (failed(emitProgram(index, into)))
      return failure();
  }
  separateObservation();
  addPorts();
  plan().quantizedStates = findQuantizedStates(step);
  finish();
  if (failed(checkPolicy()))
    return failure();
  return std::move(result);
}

FailureOr<EmittedPlan> mlir::binade::emitPlan(ModuleOp module,
                                              const PlanOptions &options) {
  FailureOr<SmallVector<Program>> programs = findPrograms(module);
  if (failed(programs))
    return failure();
  return PlanEmitter(*programs, options).run();
}
