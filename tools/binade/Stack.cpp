//===- Stack.cpp - Blocks that a model repeats ----------------------------===//
// Finds the ops of a block by data flow: the ops that depend on parameters of
// the second to last block, but not on those of the last block, form the second
// to last block. Names of ops are ignored, since they differ between exporters.
//===----------------------------------------------------------------------===//

#include "Stack.h"
#include "binade/IR/AddPorts.h"
#include "binade/IR/Binade.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::binade;

namespace {
/// A parameter or buffer of a block.
struct Member {
  Role role;
  StringRef name, suffix; ///< Suffix: the text after the block's number.
  BlockArgument argument;
};

/// The members of each block, by its number.
using Members = std::map<int64_t, SmallVector<Member>>;

/// The second to last block and its connections to other blocks.
struct StackBlock {
  ArrayRef<Member> members;
  SmallVector<Operation *> ops; ///< In order.
  Value input, output;          ///< Of one type.
  /// New values of the members that a step updates.
  SmallVector<std::pair<StringRef, Value>> state; ///< By suffix.
};
} // namespace

static std::map<std::string, Members> collect(func::FuncOp forward) {
  std::map<std::string, Members> stacks;
  for (Role role : {Role::Parameter, Role::Buffer})
    for (const Port &port : getArguments(forward, role))
      for (size_t dot = port.name.find('.'); dot != StringRef::npos;
           dot = port.name.find('.', dot + 1)) {
        auto [number, suffix] = port.name.substr(dot + 1).split('.');
        int64_t index;
        if (!number.getAsInteger(10, index))
          stacks[port.name.take_front(dot).str()][index].push_back(
              {role, port.name, suffix, forward.getArgument(port.index)});
      }
  return stacks;
}

static bool isSame(ArrayRef<Member> left, ArrayRef<Member> right) {
  return llvm::equal(left, right, [](const Member &l, const Member &r) {
    return l.role == r.role && l.suffix == r.suffix &&
           l.argument.getType() == r.argument.getType();
  });
}

/// Returns the ops that depend on `members`, except the terminator.
static DenseSet<Operation *> findDependent(func::FuncOp forward,
                                           ArrayRef<Member> members) {
  DenseSet<Value> values;
  DenseSet<Operation *> ops;
  for (const Member &member : members)
    values.insert(member.argument);
  for (Operation &op : forward.front().without_terminator())
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return values.contains(value); })) {
      ops.insert(&op);
      values.insert_range(op.getResults());
    }
  return ops;
}

/// Returns whether `use` returns the value as a buffer for the next step.
static bool isState(func::FuncOp forward, OpOperand &use) {
  if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
    return false;
  std::optional<Port> port = getResult(forward, use.getOperandNumber());
  return port && port->role == Role::Buffer;
}

/// Returns the only value of `block` that ops outside read; null if there are
/// several or none.
static Value findOutput(func::FuncOp forward, const StackBlock &block) {
  DenseSet<Operation *> inside(block.ops.begin(), block.ops.end());
  Value output;
  for (Operation *op : block.ops)
    for (OpOperand &use : op->getUses()) {
      if (inside.contains(use.getOwner()) || isState(forward, use))
        continue;
      if (output && output != use.get())
        return {};
      output = use.get();
    }
  return output;
}

/// Returns the only value of the output's type that `block` reads from outside,
/// or null. Values of other types, such as a mask, are shared by all blocks.
static Value findInput(const StackBlock &block) {
  DenseSet<Operation *> inside(block.ops.begin(), block.ops.end());
  DenseSet<Value> own;
  for (const Member &member : block.members)
    own.insert(member.argument);
  Value input;
  for (Operation *op : block.ops)
    for (Value operand : op->getOperands()) {
      if (operand.getType() != block.output.getType() ||
          own.contains(operand) || inside.contains(operand.getDefiningOp()) ||
          operand.getDefiningOp<ConstantOp>())
        continue;
      if (input && input != operand)
        return {};
      input = operand;
    }
  return input;
}

/// Returns nothing if the last two blocks differ, or if more than one value
/// connects a block to others.
static std::optional<StackBlock> findBlock(func::FuncOp forward,
                                           const Members &members) {
  if (members.size() < 2)
    return std::nullopt;
  const auto &last = members.rbegin()->second;
  StackBlock block{std::next(members.rbegin())->second, {}, {}, {}, {}};
  if (!isSame(block.members, last))
    return std::nullopt;
  DenseSet<Operation *> after = findDependent(forward, last);
  DenseSet<Operation *> dependent = findDependent(forward, block.members);
  for (Operation &op : forward.front())
    if (dependent.contains(&op) && !after.contains(&op))
      block.ops.push_back(&op);
  block.output = findOutput(forward, block);
  // All readers of the output follow the last op of the block, so they also
  // follow the clones.
  if (!block.output || block.output.getDefiningOp() != block.ops.back())
    return std::nullopt;
  block.input = findInput(block);
  for (const Member &member : block.members)
    if (auto port = findResult(forward, Role::Buffer, member.name))
      block.state.emplace_back(member.suffix,
                               getResultValue(forward, port->index));
  return block.input ? std::optional(std::move(block)) : std::nullopt;
}

std::vector<Stack> findStacks(func::FuncOp forward) {
  std::vector<Stack> found;
  for (const auto &[name, members] : collect(forward)) {
    bool isNested = llvm::any_of(found, [&](const Stack &outer) {
      return StringRef(name).starts_with(outer.name + ".");
    });
    if (!isNested && findBlock(forward, members))
      found.push_back({name, static_cast<int64_t>(members.size())});
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Other depths
//===----------------------------------------------------------------------===//

/// Adds arguments of `role` for a block named `name`.
static void addMembers(func::FuncOp forward, const StackBlock &block, Role role,
                       const std::string &name, IRMapping &mapping) {
  SmallVector<NewArgument> added;
  SmallVector<Value> old;
  for (const Member &member : block.members) {
    if (member.role != role)
      continue;
    unsigned index = member.argument.getArgNumber();
    added.push_back({name + "." + member.suffix.str(),
                     member.argument.getType(), member.argument.getLoc(),
                     forward.getArgAttr(index, kInitAttr)});
    old.push_back(member.argument);
  }
  if (!added.empty())
    mapping.map(old, addArguments(forward, role, added));
}

/// Clones the block under a new name with `input` as its input; returns the
/// output of the clone.
static Value repeat(func::FuncOp forward, const StackBlock &block,
                    const std::string &name, Value input) {
  IRMapping mapping;
  mapping.map(block.input, input);
  for (Role role : {Role::Parameter, Role::Buffer})
    addMembers(forward, block, role, name, mapping);
  OpBuilder b(forward.getContext());
  b.setInsertionPointAfter(input.getDefiningOp());
  for (Operation *op : block.ops)
    b.clone(*op, mapping);
  SmallVector<NewResult> state;
  for (auto [suffix, value] : block.state)
    state.push_back({Role::Buffer, name + "." + suffix.str(),
                     mapping.lookupOrDefault(value)});
  if (!state.empty())
    addResults(forward, state);
  return mapping.lookup(block.output);
}

static void drop(func::FuncOp forward, StackBlock block) {
  block.output.replaceAllUsesWith(block.input);
  llvm::BitVector results(forward.getNumResults());
  llvm::BitVector arguments(forward.getNumArguments());
  for (const Member &member : block.members) {
    arguments.set(member.argument.getArgNumber());
    if (auto port = findResult(forward, Role::Buffer, member.name))
      results.set(port->index);
  }
  forward.front().getTerminator()->eraseOperands(results);
  (void)forward.eraseResults(results);
  for (Operation *op : llvm::reverse(block.ops))
    op->erase();
  (void)forward.eraseArguments(arguments);
}

void setDepth(func::FuncOp forward, StringRef stack, int64_t depth) {
  Members members = collect(forward)[stack.str()];
  int64_t count = members.size();
  std::optional<StackBlock> block = findBlock(forward, members);
  if (!block)
    return;
  if (depth >= count) {
    SmallVector<OpOperand *> readers;
    for (OpOperand &use : block->output.getUses())
      readers.push_back(&use);
    Value output = block->output;
    const int64_t first = members.rbegin()->first + 1;
    for (int64_t i = 0; i < depth - count; ++i)
      output = repeat(forward, *block,
                      stack.str() + "." + std::to_string(first + i), output);
    for (OpOperand *reader : readers)
      reader->set(output);
    return;
  }
  drop(forward, *block);
  setDepth(forward, stack, depth);
}
