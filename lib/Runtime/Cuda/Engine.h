//===- Engine.h - A program on a CUDA device --------------------*- C++ -*-===//
// The arena is the device's, and the host has copies of the ports. From its
// second run on a list of records is one graph, where the driver can make one.
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

class Engine {
public:
  struct Setup {
    const Plan *plan = nullptr;
    std::unique_ptr<Device> device;
    std::span<const ModuleImages> modules;
    std::string where;
    /// Otherwise the plan's own kernels compute all contractions.
    bool usesLibraries = true;
    Notify notify = {};
  };
  static Result<std::unique_ptr<Engine>> create(Setup setup);
  Engine(const Engine &) = delete;

  /// What is on the host goes to the device first, and what small ports hold
  /// comes back. While the device is at work `fillNext` is called, if there is
  /// one and nothing is measured: it may write the batch of the next run, of
  /// another list than the evaluation's, to what `access` gives it then.
  Result<void> run(RecordList list, const std::function<void()> &fillNext = {});

  /// Gets all executions from now on; null for none. They are not put together
  /// in graphs, whose parts have no time of their own.
  void setProfiler(Profiler *to);
  Profiler::Implementations getImplementations() const;
  /// Lets the library try its algorithms for each product; an error where there
  /// is none. What memory holds is lost.
  Result<void> tune();
  /// Who chose the algorithms of products, and what they are, by record.
  std::string getLibrary() const { return library ? library->identify() : ""; }
  std::map<const plan::Record *, std::string> getAlgorithms() const;
  /// What the libraries that were found do not compute.
  const std::vector<Refusal> &getRefusals() const { return refusals; }
  Result<Ceilings> measureCeilings();

  /// Puts all that ports hold on the device.
  Result<void> upload();
  /// Executes the step's records one by one, without the ports' moving, and
  /// calls `after` with the number of each until it says false.
  Result<void> run(const std::function<bool(std::size_t)> &after);
  Result<void> fill(ArenaRange range, std::byte value);

  /// Executes one record, and waits for it. Ports are not moved: what counts is
  /// the arena, of which `read` and `write` move pieces.
  Result<void> run(const RecordPlace &place);
  Result<void> read(std::uint64_t offset, std::span<std::byte> into);
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);

  /// See HostPorts.
  std::span<std::byte> access(std::size_t port, bool isToBeRead = false) {
    return ports.access(port, isToBeRead);
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
  Result<void> captureGraph(RecordList list);
  Result<void> enqueue(RecordList list);
  Result<void> mark(const plan::Record &transfer);

  // In this order: what was allocated is given back before its device.
  std::unique_ptr<Device> device;
  std::vector<Module> modules;
  DeviceMemory arena;
  std::shared_ptr<CublasLt> library; ///< Null where there is none.
  HostPorts ports;
  std::vector<Refusal> refusals;
  /// For each list of records.
  std::array<StreamProgram, kNumRecordLists> programs;
  std::array<std::optional<Graph>, kNumRecordLists> graphs;
  std::array<bool, kNumRecordLists> hasRun = {};
  bool makesGraphs = true;
  Notify notify;
  bool hasNextBatch = false;
  Profiler *profiler = nullptr;
  std::optional<StreamTimer> timer; ///< While there is a profiler.
};

} // namespace binade::cuda

#endif // BINADE_RUNTIME_CUDA_ENGINE_H
