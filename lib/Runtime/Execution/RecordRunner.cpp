//===- RecordRunner.cpp - Execution of single records ---------------------===//

#include "binade/Runtime/RecordRunner.h"
#include "ProgramImplementation.h"
#include <cstring>

using namespace binade;

namespace {
class CpuRunner : public RecordRunner {
public:
  CpuRunner(Executor &executor, std::byte *arena)
      : executor(executor), arena(arena) {}

  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    std::memcpy(into.data(), arena + offset, into.size());
    return {};
  }
  Result<void> write(std::uint64_t offset,
                     std::span<const std::byte> bytes) override {
    std::memcpy(arena + offset, bytes.data(), bytes.size());
    return {};
  }
  Result<void> run(const RecordPlace &place) override {
    executor.run(place);
    return {};
  }

private:
  Executor &executor;
  std::byte *arena;
};

class CudaRunner : public RecordRunner {
public:
  explicit CudaRunner(cuda::Engine &engine) : engine(engine) {}

  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    return engine.read(offset, into);
  }
  Result<void> write(std::uint64_t offset,
                     std::span<const std::byte> bytes) override {
    return engine.write(offset, bytes);
  }
  Result<void> run(const RecordPlace &place) override {
    return engine.run(place);
  }

private:
  cuda::Engine &engine;
};
} // namespace

std::unique_ptr<RecordRunner> Program::createRecordRunner() {
  if (implementation->engine)
    return std::make_unique<CudaRunner>(*implementation->engine);
  return std::make_unique<CpuRunner>(implementation->executor,
                                     implementation->arena.data());
}
