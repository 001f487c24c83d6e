//===- ProgramImplementation.h - What a program consists of -----*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H
#define BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H

#include "../Cuda/Engine.h"
#include "Executor.h"

namespace binade {

struct Program::Implementation {
  Plan plan;
  std::string where, directory;
  /// Of the initial values that the bundle holds: one of the two.
  std::optional<Safetensors> file;
  std::vector<StoredTensor> stored;
  LoadOptions options;
  bool poisons = false;
  unsigned threads = 1;
  std::string isa;
  Arena arena;
  KernelObject kernels;
  Executor executor;
  /// Of a CUDA device, which then is what executes.
  std::unique_ptr<cuda::Engine> engine;
  std::unique_ptr<Profiler> profiler; ///< Null unless profiling.
  std::vector<const plan::Port *> accumulators;
  /// What says that a launch met an index out of range.
  std::vector<const plan::Port *> indexFaults;
  /// Parts of the arena without a meaning before a step.
  std::vector<ArenaRange> transient;

  /// Reads settings and the environment, and finds what runs the plan.
  Result<void> prepare(std::span<const std::byte> object,
                       std::span<const ModuleImages> modules);
  Result<void> prepareCpu(std::span<const std::byte> object);
  Result<void> prepareCuda(std::span<const ModuleImages> modules);
  void findTransient();
  /// Writes `value` to all memory that has no meaning before a step.
  Result<void> fillTransient(std::byte value);
  Result<void> execute(RecordList list, const FillNext &fillNext = {});
  Profiler::Implementations getImplementations() const;
  Result<Ceilings> measureCeilings();
  /// Before a step or an evaluation.
  Result<void> clear();
  Tensor tensorOf(const plan::Port &port, bool isToBeRead = false) const;
  /// Writes zeros to a port of training state.
  Result<void> clear(const plan::Port &port);

  // Initial values.
  Result<void> start(const plan::Port &port, std::uint64_t seed) const;
  Result<void> fill(const plan::Port &port, const Tensor &tensor,
                    std::uint64_t seed) const;
  bool startsWide(const plan::Port &port) const;
  Result<std::vector<float>> readWide(const plan::Port &port,
                                      std::uint64_t seed) const;
  /// Says that a weight which `from` brought is not finite, or fails because of
  /// that, as `options` have it.
  Result<void> checkFinite(const plan::Port &port,
                           const std::string &from) const;
  /// Gives a parameter of 16 bits, and what is kept beside it, `values`.
  void keep(const plan::Port &parameter, std::span<const float> values) const;

  void notify(std::string_view text) const {
    if (options.notify)
      options.notify(text);
  }
};

} // namespace binade

#endif // BINADE_LIB_RUNTIME_EXECUTION_PROGRAMIMPLEMENTATION_H
