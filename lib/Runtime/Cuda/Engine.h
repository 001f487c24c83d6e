//===- Engine.h - Execution of a plan on a CUDA device ----------*- C++ -*-===//
// The arena is in device memory, and the host has copies of the ports. From its
// second run on, a list of records is executed as a CUDA graph if possible.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_CUDA_ENGINE_H
#define BINADE_RUNTIME_CUDA_ENGINE_H

#include "DeviceCeilings.h"
#include "Graph.h"
#include "HostPorts.h"
#include "StreamProgram.h"
#include "binade/Plan/Bundle.h"
#include "binade/Runtime/Program.h"
#include "binade/Runtime/RecordRunner.h"

namespace binade::cuda {

/// Executes the record lists of a plan on a CUDA device.
class Engine {
public:
  struct Setup {
    const Plan *plan = nullptr;
    const BoundPorts *bound = nullptr; ///< The ports in memory of the caller.
    std::unique_ptr<Device> device;
    std::span<const ModuleImages> modules;
    std::string where;
    /// The implementation of matmuls, convolutions and attention.
    Contraction contraction = Contraction::Auto;
    Notify notify = {};
    /// Calls its transport between graphs; null without exchanges. Has to
    /// outlive the engine, as `bound`. Created by `makeExchange` from the
    /// memory of the arena.
    std::function<exchange::Group *(const binade::Memory &)> makeExchange = {};
  };
  static Result<std::unique_ptr<Engine>> create(Setup setup);
  Engine(const Engine &) = delete;
  /// Waits for work that `enqueue` has put on streams of the caller.
  ~Engine();

  /// Uploads changed ports, executes `list`, and downloads small ports. While
  /// the device executes, calls `fillNext` if it is set and no profiler is:
  /// it may write the batch of the next run, other than an evaluation, to the
  /// memory that `access` returns then.
  Result<void> run(RecordList list, const std::function<void()> &fillNext = {});

  /// Enqueues `list` on a stream of the caller, and does not wait for it. Ports
  /// that the host has changed are uploaded before; the caller has waited for
  /// work that uses them.
  Result<void> enqueue(RecordList list, CUstream_st *stream);

  /// Reports all following executions to `to`, unless it is null. Graphs are
  /// not used then, because their records cannot be timed.
  void setProfiler(Profiler *to);
  Profiler::Implementations getImplementations() const;
  /// Measures the library's algorithms for each matmul, and selects the
  /// fastest; an error without a library. Overwrites the arena.
  Result<void> tune();
  /// Returns the key of the library, and its algorithms by record.
  std::string getLibrary() const { return library ? library->identify() : ""; }
  std::map<const plan::Record *, std::string> getAlgorithms() const;
  /// Returns the contractions that the libraries do not support.
  const std::vector<Refusal> &getRefusals() const { return refusals; }
  Result<Ceilings> measureCeilings();

  /// Uploads all changed ports.
  Result<void> upload();
  /// Executes the step's records one by one, without transferring ports, and
  /// calls `after` with the index of each; stops when it returns false.
  Result<void> run(const std::function<bool(std::size_t)> &after);
  Result<void> fill(ArenaRange range, std::byte value);

  /// Executes one record and waits for it, without transferring ports. `read`
  /// and `write` access the arena directly.
  Result<void> run(const RecordPlace &place);
  Result<void> read(std::uint64_t offset, std::span<std::byte> into);
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Copies from and to memory of the caller, and waits.
  Result<void> download(Address from, std::span<std::byte> into);
  Result<void> upload(Address to, std::span<const std::byte> bytes);

  /// See HostPorts.
  std::span<std::byte> access(std::size_t port, bool isReadOnly = false) {
    return ports.access(port, isReadOnly);
  }
  Result<void> clear(std::size_t port);
  const CudaDevice &getDevice() const { return device->getProperties(); }

private:
  Engine() = default;
  Result<void> prepare(const Setup &setup);
  Result<void> prepareMemory(const Setup &setup);
  Result<void> preparePrograms(const Setup &setup);
  void openLibraries(const Plan &plan, StreamSetup &setup);
  void reportRefusals(const Plan &plan) const;
  Result<void> start(RecordList list);
  Result<void> captureGraphs(RecordList list);
  Result<void> launchGraphs(RecordList list);
  Result<void> enqueue(RecordList list);
  Result<void> mark(const plan::Record &transfer);

  // The device comes first, because it has to be destroyed last.
  std::unique_ptr<Device> device;
  std::vector<Module> modules;
  DeviceMemory arena;
  std::shared_ptr<CublasLt> library; ///< Null without cuBLASLt.
  HostPorts ports;
  std::vector<Refusal> refusals;
  /// Indexed by RecordList.
  std::array<StreamProgram, kNumRecordLists> programs;
  /// The graphs before, between and after the exchanges of each list; without
  /// exchanges, one. Empty until captured.
  std::array<std::vector<std::optional<Graph>>, kNumRecordLists> graphs;
  std::array<bool, kNumRecordLists> hasRun = {};
  bool makesGraphs = true;
  bool hasEnqueued = false;
  Notify notify;
  bool hasNextBatch = false;
  Profiler *profiler = nullptr;
  std::optional<StreamTimer> timer; ///< Set while there is a profiler.
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_ENGINE_H
