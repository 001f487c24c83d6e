//===- Operation.h - Executable form of a plan record -----------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H
#define BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H

#include "BoundPorts.h"
#include "ThreadTeam.h"
#include "binade/Plan/Plan.h"
#include "binade/Runtime/Library.h"
#include <memory>
#include <span>

namespace binade {

/// The threads and loop iteration with which operations run.
struct ExecutionContext {
  ThreadTeam *team = nullptr;
  unsigned threads = 1;
  /// The profiler's lane: the slot of the surrounding parallel loop plus 1, or
  /// 0 outside of parallel loops.
  std::size_t lane = 0;
  /// The iteration of each loop around the record, outermost first.
  std::vector<std::int64_t> iteration;
};

struct Memory;

/// The address of a view, which depends on the loop iteration, and on the
/// memory to which a port of the caller is bound.
class Address {
public:
  Address() = default;
  Address(const Memory &memory, const plan::View &view);

  std::byte *at(std::span<const std::int64_t> iteration) const {
    std::byte *address = port && *port ? *port + offset : base;
    for (std::size_t d = 0; d < steps.size(); ++d)
      address += steps[d] * iteration[d];
    return address;
  }
  bool isFixed() const { return steps.empty() && !port; }
  /// Whether `iteration` has an entry for each loop that moves the view.
  bool covers(std::span<const std::int64_t> iteration) const {
    return iteration.size() >= steps.size();
  }

private:
  std::byte *base = nullptr; ///< In the arena.
  /// Where the address of the caller's memory is stored, and the distance of
  /// the view from there; null for a view of the arena.
  std::byte *const *port = nullptr;
  std::int64_t offset = 0;
  std::vector<std::int64_t> steps; ///< Bytes per iteration of each loop.
};

/// A record, prepared for execution on the CPU.
class Operation {
public:
  virtual ~Operation() = default;
  virtual void run(const ExecutionContext &context) = 0;

  /// Returns the bytes of scratch memory that `run` needs. `setScratch` sets it
  /// before the first run, aligned to 64 bytes.
  virtual std::uint64_t getScratchBytes() const { return 0; }
  virtual void setScratch(std::byte *) {}
  /// Returns the name of the implementation for reports.
  virtual std::string getImplementation() const { return {}; }
  /// Returns whether f16 operands are multiplied as such. If not, they are
  /// converted to f32 first.
  virtual bool multipliesF16() const { return false; }
};

/// The arena and the buffers that views refer to. `arena` may be null if
/// operations are created only to query their scratch memory. `slot` is the
/// slot of the parallel loop around a record.
struct Memory {
  std::byte *arena = nullptr;
  std::span<const plan::Buffer> buffers;
  const BoundPorts *bound = nullptr; ///< Null if no ports are bound.
  std::uint64_t slot = 0;

  DType typeOf(const plan::View &view) const {
    return buffers[view.buffer].dtype;
  }
  Address addressOf(const plan::View &view) const {
    return Address(*this, view);
  }
};

// An operation that depends on no library and no compiled kernel.
std::unique_ptr<Operation> createOperation(const plan::Copy &copy,
                                           const Memory &memory);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_OPERATION_H
