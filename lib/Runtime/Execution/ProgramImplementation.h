//===- ProgramImplementation.h - Members of Program -------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H
#define BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H

#include "../Cuda/Engine.h"
#include "../Exchange/Group.h"
#include "Executor.h"

namespace binade {

/// The initial values in a bundle: `file` for a bundle file, `stored` for a
/// bundle that was compiled in this process.
struct InitialTensors {
  std::optional<Safetensors> file = {};
  std::vector<StoredTensor> stored = {};
};

struct Program::Implementation {
  Plan plan;
  std::string where, directory;
  std::shared_ptr<const InitialTensors> initial;
  LoadOptions options;
  BoundPorts bound; ///< The ports in memory of the caller.
  bool poisons = false;
  unsigned threads = 1;
  std::string isa;
  Arena arena;
  std::shared_ptr<const KernelObject> kernels =
      std::make_shared<KernelObject>();
  /// The exchange of gradients with other ranks; null if the plan has none.
  std::unique_ptr<exchange::Group> exchange;
  Executor executor;
  /// Executes the plan on a CUDA device; null for the CPU.
  std::unique_ptr<cuda::Engine> engine;
  std::unique_ptr<Profiler> profiler; ///< Null unless profiling.
  std::vector<const plan::Port *> accumulators;
  /// Metrics that report an index out of range in a launch.
  std::vector<const plan::Port *> indexFaults;
  /// Parts of the arena that are not live between steps.
  std::vector<ArenaRange> transient;

  /// Applies settings and environment variables, and prepares the device.
  Result<void> prepare(std::span<const std::byte> object,
                       std::span<const ModuleImages> modules);
  Result<void> prepareCpu(std::span<const std::byte> object);
  Result<void> prepareCuda(std::span<const ModuleImages> modules);
  void findTransient();
  /// Writes `value` to all memory that is not live between steps.
  Result<void> fillTransient(std::byte value);
  Result<void> execute(RecordList list, const FillNext &fillNext = {});
  /// Executes records on the device.
  Result<void> executeRecords(RecordList list, const FillNext &fillNext);
  /// Fails if the caller has memory that exchanges need to be adjacent.
  Result<void> checkExchangedMemory() const;
  /// Fails if other ranks have states that the records need.
  Result<void> checkAlone(RecordList list) const;
  /// Copies the values that `whole`, a program of all ranks, keeps.
  void copyFrom(const Implementation &whole);
  /// Executes a batch of a step that ranks exchange.
  Result<void> executeShared(RecordList list, const FillNext &fillNext);
  Profiler::Implementations getImplementations() const;
  Result<Ceilings> measureCeilings();
  /// Resets the index faults before a run, and poisons unused memory if
  /// enabled.
  Result<void> clear();
  Tensor tensorOf(const plan::Port &port, bool isReadOnly = false) const;
  /// Writes zeros to a port.
  Result<void> clear(const plan::Port &port);
  /// Whether the caller supplies the value of a port, not only its memory.
  bool isGiven(const plan::Port &port) const;
  /// Fails if a port of the caller has no memory.
  Result<void> checkBound() const;
  /// Whether a port is in memory of the caller on a device, so that `tensorOf`
  /// returns no bytes.
  bool isOnDevice(const plan::Port &port) const {
    return engine && bound.contains(port.buffer);
  }
  /// Copy from and to such a port.
  Result<void> download(const plan::Port &port,
                        std::span<std::byte> into) const;
  Result<void> upload(const plan::Port &port,
                      std::span<const std::byte> bytes) const;

  // Initial values.
  Result<void> initialize(const plan::Port &port, std::uint64_t seed) const;
  /// Writes the initial value of `port` to `tensor`.
  Result<void> start(const plan::Port &port, const Tensor &tensor,
                     std::uint64_t seed) const;
  Result<void> fill(const plan::Port &port, const Tensor &tensor,
                    std::uint64_t seed) const;
  bool startsWide(const plan::Port &port) const;
  Result<std::vector<float>> readWide(const plan::Port &port,
                                      std::uint64_t seed) const;
  /// Warns if a parameter or buffer read from `from` is not finite, or fails
  /// with `LoadOptions::failOnNonfinite`.
  Result<void> checkFinite(const plan::Port &port,
                           const std::string &from) const;
  /// Returns the values of the elements of a whole tensor that `port` has.
  std::span<const float> takePart(std::span<const float> values,
                                  const plan::Port &port) const;
  /// Rounds `values` into a 16-bit parameter, and sets its master weight,
  /// remainder or compensation.
  void keep(const plan::Port &parameter, std::span<const float> values) const;

  void notify(std::string_view text) const {
    if (options.notify)
      options.notify(text);
  }
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H
