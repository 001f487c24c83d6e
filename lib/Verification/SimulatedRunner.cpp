//===- SimulatedRunner.cpp - Records in the simulator ---------------------===//

#include "SimulatedRunner.h"
#include "binade/Container/Printable.h"
#include "binade/IR/Diagnostics.h"
#include "binade/Plan/DeviceStarts.h"
#include "binade/Simulator/Simulator.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::DeviceStart;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::Plan;
using ::binade::RecordPlace;
using ::binade::Result;

namespace {
class SimulatedRunner : public ::binade::RecordRunner {
public:
  SimulatedRunner(const Plan &plan, std::string where)
      : plan(plan), where(std::move(where)), arena(plan.arenaBytes) {
    loadKernelDialects(context);
  }

  Result<void> parse(ArrayRef<std::string> code);

  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    std::memcpy(into.data(), arena.data() + offset, into.size());
    return {};
  }
  Result<void> write(std::uint64_t offset,
                     std::span<const std::byte> bytes) override {
    std::memcpy(arena.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  Result<void> run(const RecordPlace &place) override;

private:
  /// Returns the memory of a kernel's argument of type `type`.
  Result<MutableArrayRef<char>> find(const plan::View &view, Type type,
                                     ArrayRef<int64_t> iteration);
  Result<void> run(DeviceStart &start, ArrayRef<int64_t> iteration);

  const Plan &plan;
  std::string where;
  std::vector<char> arena;
  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
  std::vector<llvm::StringMap<gpu::GPUFuncOp>> kernels; ///< By module.
  std::map<const plan::Record *, std::vector<DeviceStart>> starts;
  uint64_t executions = 0; ///< Selects the order of threads.
};
} // namespace

Result<void> SimulatedRunner::parse(ArrayRef<std::string> code) {
  DiagnosticCollector diagnostics(&context);
  for (const std::string &text : code) {
    modules.push_back(parseSourceString<ModuleOp>(text, &context));
    if (!modules.back())
      return diagnostics.takeError(where,
                                   "the IR of a module cannot be parsed");
    auto &known = kernels.emplace_back();
    modules.back()->walk(
        [&](gpu::GPUFuncOp kernel) { known[kernel.getName()] = kernel; });
  }
  return {};
}

static size_t countBytes(MemRefType memory) {
  return memory.getNumElements() *
         llvm::divideCeil(memory.getElementTypeBitWidth(), 8);
}

Result<MutableArrayRef<char>>
SimulatedRunner::find(const plan::View &view, Type type,
                      ArrayRef<int64_t> iteration) {
  const plan::Buffer &buffer = plan.buffers[view.buffer];
  int64_t element = view.offset;
  for (auto [step, index] : llvm::zip(view.steps, iteration))
    element += step * index;
  size_t offset = buffer.offset + element * byteSize(buffer.dtype);
  size_t bytes = countBytes(cast<MemRefType>(type));
  if (offset + bytes > arena.size())
    return Error{where, "a kernel reads or writes " + std::to_string(bytes) +
                            " bytes at " + std::to_string(offset) +
                            " of the arena, which has " +
                            std::to_string(arena.size())};
  return MutableArrayRef<char>(arena).slice(offset, bytes);
}

Result<void> SimulatedRunner::run(DeviceStart &start,
                                  ArrayRef<int64_t> iteration) {
  const std::string &symbol = start.entry->symbol;
  gpu::GPUFuncOp kernel = start.kernel->module < kernels.size()
                              ? kernels[start.kernel->module].lookup(symbol)
                              : nullptr;
  size_t arguments = start.table.empty() ? start.operands.size() : 2;
  if (!kernel || kernel.getNumArguments() != arguments)
    return Error{where, "no module has a kernel " + ::binade::quote(symbol) +
                            " of " + std::to_string(arguments) + " arguments"};
  SimulatedLaunch launch;
  llvm::copy(start.entry->grid, launch.grid.begin());
  llvm::copy(start.entry->block, launch.block.begin());
  launch.grid.front() = start.blocks;
  launch.order = executions++;
  if (start.table.empty()) {
    for (auto [view, type] :
         llvm::zip(start.operands, kernel.getArgumentTypes())) {
      auto memory = find(view, type, iteration);
      if (!memory)
        return memory.takeError();
      launch.arguments.emplace_back(*memory);
    }
  } else {
    launch.arguments.emplace_back(MutableArrayRef<char>(arena));
    launch.arguments.emplace_back(
        MutableArrayRef<char>(reinterpret_cast<char *>(start.table.data()),
                              start.table.size() * sizeof(int64_t)));
  }
  DiagnosticCollector diagnostics(&context);
  if (succeeded(simulate(kernel, launch)))
    return {};
  Error error = diagnostics.takeError(where, "cannot be simulated");
  error.exitCode = ExitCode::Device;
  return error;
}

Result<void> SimulatedRunner::run(const RecordPlace &place) {
  const std::vector<plan::Record> *list = &getRecords(plan, place.list);
  for (size_t number : ArrayRef(place.path).drop_back())
    list = &std::get<plan::Loop>((*list)[number].body).body;
  const plan::Record &record = (*list)[place.path.back()];
  auto [entry, isNew] = starts.try_emplace(&record);
  if (isNew) {
    Result<std::vector<DeviceStart>> made = listStarts(plan, record, where);
    if (!made)
      return std::move(made).takeError().withPart("record '" + record.label +
                                                  "'");
    entry->second = *std::move(made);
  }
  for (DeviceStart &start : entry->second)
    if (Result<void> done = run(start, place.iteration); !done)
      return std::move(done).takeError().withPart("record '" + record.label +
                                                  "'");
  return {};
}

Result<std::unique_ptr<::binade::RecordRunner>>
mlir::binade::createSimulatedRunner(const Plan &plan,
                                    ArrayRef<std::string> code,
                                    const std::string &where) {
  auto runner = std::make_unique<SimulatedRunner>(plan, where);
  if (Result<void> done = runner->parse(code); !done)
    return done.takeError();
  return std::unique_ptr<::binade::RecordRunner>(std::move(runner));
}
