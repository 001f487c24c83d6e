//===- StreamLaunch.cpp - Kernel launches on a stream ---------------------===//

#include "StreamOperation.h"
#include "binade/Container/Printable.h"
#include "binade/Plan/DeviceStarts.h"
#include <array>
#include <cstring>

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

/// The table of a multi-tensor kernel on the device; see plan::DeviceKernel.
/// Operands in memory of the caller have offsets, too: their distances from the
/// arena. The table is uploaded again when the caller binds other memory.
class OperandTable {
public:
  static Result<OperandTable> create(Device &device, DeviceStart &start,
                                     Address arena, const Memory &memory) {
    OperandTable table;
    table.rows = std::move(start.table);
    table.width = table.rows.size() / static_cast<std::size_t>(start.blocks);
    for (TableOperand &operand : start.tableOperands)
      if (memory.bound && memory.bound->contains(operand.view.buffer))
        table.bound.push_back({memory.addressOf(operand.view), operand});
    table.arena = arena;
    if (auto done = table.replace(device); !done)
      return done.takeError();
    if (table.bound.empty())
      table.rows = {};
    return table;
  }

  /// Uploads the table if operands have other addresses than before.
  Result<void> update(Device &device) {
    bool isOld = false;
    for (Bound &operand : bound)
      isOld |= write(operand);
    bool isCapturing = device.isCapturing();
    if (!isOld) {
      isInGraph |= isCapturing;
      return {};
    }
    // A graph reads the table that it was captured with.
    Result<void> done = isCapturing || isInGraph
                            ? device.prepare([&] { return replace(device); })
                            : upload(device);
    isInGraph = isCapturing;
    return done;
  }

  /// Returns its address on the device.
  Address get() const { return memories.back().get(); }

private:
  struct Bound {
    binade::Address address;
    TableOperand place;
  };

  /// Writes the offset of an operand to its rows. Returns whether it changed.
  bool write(const Bound &operand) {
    auto offset =
        static_cast<std::int64_t>(toDevice(operand.address.at({})) - arena);
    auto at = [&](std::size_t row) -> std::int64_t & {
      return rows[row * width + operand.place.column];
    };
    if (at(operand.place.begin) == offset)
      return false;
    for (std::size_t row = operand.place.begin; row < operand.place.end; ++row)
      at(row) = offset;
    return true;
  }

  std::uint64_t countBytes() const {
    return rows.size() * sizeof(std::int64_t);
  }

  /// Uploads the table in the order of the stream. The host waits only if
  /// neither of the two last uploads has been executed.
  Result<void> upload(Device &device) {
    Staging &staging = stagings[std::exchange(nextStaging, 1 - nextStaging)];
    if (!staging.memory) {
      Result<PinnedMemory> memory = device.allocatePinned(countBytes());
      if (!memory)
        return memory.takeError();
      staging.memory = *std::move(memory);
    } else if (auto done = device.wait(staging.isRead); !done) {
      return done;
    }
    std::memcpy(staging.memory.get(), rows.data(), countBytes());
    if (auto done = device.upload(get(), staging.memory.get(), countBytes());
        !done)
      return done;
    Result<Event> isRead = device.record();
    if (!isRead)
      return isRead.takeError();
    staging.isRead = *std::move(isRead);
    return {};
  }

  /// Uploads the table to new memory, and waits for it.
  Result<void> replace(Device &device) {
    Result<DeviceMemory> memory = device.allocate(countBytes());
    if (!memory)
      return memory.takeError();
    memories.push_back(*std::move(memory));
    if (auto done = device.upload(get(), rows.data(), countBytes()); !done)
      return done;
    return device.wait();
  }

  /// Pinned memory from which the device reads a table.
  struct Staging {
    PinnedMemory memory;
    Event isRead;
  };

  std::array<Staging, 2> stagings;
  std::size_t nextStaging = 0;
  std::vector<std::int64_t> rows;
  std::size_t width = 0; ///< Columns of a row.
  std::vector<Bound> bound;
  Address arena = 0;
  bool isInGraph = false; ///< Whether a graph reads the newest memory.
  /// The newest is the last one; graphs may read the others.
  std::vector<DeviceMemory> memories;
};

/// A multi-tensor launch, whose kernels read the offsets of their operands from
/// a table.
class TableLaunch : public StreamOperation {
public:
  /// One kernel for some of the segments, or the finish for all of them.
  struct Part {
    Entry entry;
    OperandTable table;
  };

  TableLaunch(Device &device, Address arena, std::string_view label)
      : device(device), arena(arena), label(label) {}

  void add(Part part) { parts.push_back(std::move(part)); }

  Result<void> run(std::span<const std::int64_t>) override {
    for (Part &part : parts) {
      if (Result<void> done = part.table.update(device); !done)
        return done;
      Address table = part.table.get();
      void *arguments[] = {&arena, &table};
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
  Address arena = toDevice(setup.memory.arena);
  auto made = std::make_unique<TableLaunch>(*setup.device, arena, label);
  for (DeviceStart &start : starts) {
    Result<Entry> entry = prepare(start, setup);
    if (!entry)
      return entry.takeError();
    Result<OperandTable> table =
        OperandTable::create(*setup.device, start, arena, setup.memory);
    if (!table)
      return table.takeError();
    made->add({*std::move(entry), *std::move(table)});
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
