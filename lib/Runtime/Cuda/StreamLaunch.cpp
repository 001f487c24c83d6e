//===- StreamLaunch.cpp - Kernel launches on a stream ---------------------===//

#include "StreamOperation.h"
#include "binade/Container/Printable.h"
#include "binade/Plan/DeviceStarts.h"

namespace binade::cuda {

namespace {
/// A kernel's function and its launch shape.
struct Entry {
  CUfunc_st *function = nullptr;
  LaunchShape shape;
  std::string symbol;
};

/// A launch whose arguments are the addresses of the operands.
class KernelLaunch : public StreamOperation {
public:
  KernelLaunch(Device &device, std::vector<Entry> entries,
               std::vector<binade::Address> operands, std::string_view label)
      : device(device), entries(std::move(entries)),
        operands(std::move(operands)), label(label),
        addresses(this->operands.size()) {
    for (Address &address : addresses)
      arguments.push_back(&address);
  }

  Result<void> run(std::span<const std::int64_t> iteration) override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      addresses[i] = toDevice(operands[i].at(iteration));
    for (const Entry &entry : entries) {
      Result<void> done = device.launch(entry.function, entry.shape, arguments,
                                        {entry.symbol, label});
      if (!done)
        return done;
    }
    return {};
  }

private:
  Device &device;
  std::vector<Entry> entries;
  std::vector<binade::Address> operands;
  std::string_view label;
  std::vector<Address> addresses;
  std::vector<void *> arguments;
};

/// A multi-tensor launch, whose kernels read the offsets of their operands from
/// a table; see plan::DeviceKernel.
class TableLaunch : public StreamOperation {
public:
  /// One kernel for some of the segments, or the finish for all of them.
  struct Part {
    Entry entry;
    std::vector<std::int64_t> table;
    Address address;
  };

  TableLaunch(Device &device, Address arena, std::string_view label)
      : device(device), arena(arena), label(label) {}

  Result<void> add(Part part) {
    std::uint64_t bytes = part.table.size() * sizeof(std::int64_t);
    Result<DeviceMemory> memory = device.allocate(bytes);
    if (!memory)
      return memory.takeError();
    part.address = memory->get();
    if (auto done = device.upload(part.address, part.table.data(), bytes);
        !done)
      return done;
    // Wait for the upload before the host's table is freed.
    if (auto done = device.wait(); !done)
      return done;
    part.table.clear();
    memories.push_back(*std::move(memory));
    parts.push_back(std::move(part));
    return {};
  }

  Result<void> run(std::span<const std::int64_t>) override {
    for (Part &part : parts) {
      void *arguments[] = {&arena, &part.address};
      Result<void> done = device.launch(part.entry.function, part.entry.shape,
                                        arguments, {part.entry.symbol, label});
      if (!done)
        return done;
    }
    return {};
  }

private:
  Device &device;
  Address arena;
  std::string_view label;
  std::vector<Part> parts;
  std::vector<DeviceMemory> memories;
};

/// Returns the function and the launch shape of `start`.
Result<Entry> prepare(const DeviceStart &start, const StreamSetup &setup) {
  const plan::DeviceKernel &kernel = *start.kernel;
  if (kernel.module >= setup.modules.size())
    return Error{setup.where,
                 "kernel " + quote(kernel.name) + " is in module " +
                     std::to_string(kernel.module) + ", and there are " +
                     std::to_string(setup.modules.size())};
  Result<CUfunc_st *> function =
      setup.modules[kernel.module].find(start.entry->symbol);
  if (!function)
    return function.takeError();
  Entry found{*function, {}, start.entry->symbol};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    found.shape.grid[axis] = static_cast<unsigned>(start.entry->grid[axis]);
    found.shape.block[axis] = static_cast<unsigned>(start.entry->block[axis]);
  }
  found.shape.grid[0] = static_cast<unsigned>(start.blocks);
  return found;
}

MadeOperation createTableLaunch(std::vector<DeviceStart> starts,
                                std::string_view label,
                                const StreamSetup &setup) {
  auto made = std::make_unique<TableLaunch>(
      *setup.device, toDevice(setup.memory.arena), label);
  for (DeviceStart &start : starts) {
    Result<Entry> entry = prepare(start, setup);
    if (!entry)
      return entry.takeError();
    auto added = made->add({*std::move(entry), std::move(start.table), 0});
    if (!added)
      return added.takeError();
  }
  return std::unique_ptr<StreamOperation>(std::move(made));
}

/// Creates a launch from `starts`, which are all of one kernel.
MadeOperation createKernelLaunch(const std::vector<DeviceStart> &starts,
                                 std::string_view label,
                                 const StreamSetup &setup) {
  std::vector<Entry> entries;
  for (const DeviceStart &start : starts) {
    Result<Entry> entry = prepare(start, setup);
    if (!entry)
      return entry.takeError();
    entries.push_back(*std::move(entry));
  }
  std::vector<binade::Address> operands;
  for (const plan::View &view : starts.front().operands)
    operands.push_back(setup.memory.addressOf(view));
  return std::unique_ptr<StreamOperation>(std::make_unique<KernelLaunch>(
      *setup.device, std::move(entries), std::move(operands), label));
}
} // namespace

MadeOperation createKernels(const plan::Record &record,
                            const StreamSetup &setup) {
  auto starts = listStarts(*setup.plan, record, setup.where);
  if (!starts)
    return starts.takeError();
  if (starts->front().kernel->isMultiTensor())
    return createTableLaunch(*std::move(starts), record.label, setup);
  return createKernelLaunch(*starts, record.label, setup);
}

MadeOperation fallBackToKernels(MadeOperation made, const plan::Record &record,
                                std::string_view deviceKernel,
                                const StreamSetup &setup) {
  if (made || deviceKernel.empty() || setup.device->hasFailed())
    return made;
  setup.refusals->push_back({&record, made.error().message});
  return createKernels(record, setup);
}
} // namespace binade::cuda
