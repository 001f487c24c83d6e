//===- Operation.h - A record, ready to run ---------------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H
#define BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H

#include "ThreadTeam.h"
#include "binade/Plan/Plan.h"
#include "binade/Runtime/Library.h"
#include <memory>
#include <span>

namespace binade {

/// What the records of one program share while they run.
struct ExecutionContext {
  ThreadTeam *team = nullptr;
  unsigned threads = 1;
  /// 0, or the slot of the parallel loop around the record and 1.
  std::size_t lane = 0;
  /// Of the loops around the record, outermost first.
  std::vector<std::int64_t> iteration;
};

/// The address of a view in each iteration.
class Address {
public:
  Address() = default;
  Address(std::byte *arena, std::span<const plan::Buffer> buffers,
          const plan::View &view, std::uint64_t slot);

  std::byte *at(std::span<const std::int64_t> iteration) const {
    std::byte *address = base;
    for (std::size_t d = 0; d < steps.size(); ++d)
      address += steps[d] * iteration[d];
    return address;
  }
  bool isFixed() const { return steps.empty(); }

private:
  std::byte *base = nullptr;
  std::vector<std::int64_t> steps; ///< Bytes per iteration of each loop.
};

class Operation {
public:
  virtual ~Operation() = default;
  virtual void run(const ExecutionContext &context) = 0;

  /// Scratch memory that `run` needs, aligned to 64 bytes, given before.
  virtual std::uint64_t getScratchBytes() const { return 0; }
  virtual void setScratch(std::byte *) {}
  /// For people.
  virtual std::string getImplementation() const { return {}; }
};

/// The arena and the types that views refer to. `arena` may be null where only
/// needs are asked for. `slot` is that of the parallel loop around a record.
struct Memory {
  std::byte *arena = nullptr;
  std::span<const plan::Buffer> buffers;
  std::uint64_t slot = 0;

  DType typeOf(const plan::View &view) const {
    return buffers[view.buffer].dtype;
  }
  Address addressOf(const plan::View &view) const {
    return Address(arena, buffers, view, slot);
  }
};

// The operations of records that need nothing but memory.
std::unique_ptr<Operation> createOperation(const plan::Copy &copy,
                                           const Memory &memory);
/// Attention or its gradients, plain and correct: to compare a device with.
/// Plans for CPUs have products and kernels in its place. Bits do not depend on
/// the number of threads.
std::unique_ptr<Operation> createOperation(const plan::Attention &attention,
                                           const Memory &memory);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H
