//===- StreamLaunch.cpp - Kernels on a stream -----------------------------===//

#include "StreamOperation.h"
#include "binade/Container/Printable.h"
#include <algorithm>
#include <map>

namespace binade::cuda {

namespace {
/// Of a kernel: its function and how it is launched.
struct Entry {
  CUfunc_st *function = nullptr;
  LaunchShape shape;
  std::string symbol;
};

/// A kernel whose arguments are the addresses of its operands.
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

/// Kernels that find their operands in a table; see plan::DeviceKernel.
class TableLaunch : public StreamOperation {
public:
  /// One kernel over some of the segments, or the finish over all.
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
    // The table is not kept on the host.
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

/// Of a launch over many tensors: the elements of any device's memory in blocks
/// of the compiler's, in a table that is small beside it.
constexpr std::int64_t kMostBlocks = 1 << 24;

class LaunchBuilder {
public:
  LaunchBuilder(const plan::Launch &launch, std::string_view label,
                const StreamSetup &setup)
      : launch(launch), label(label), setup(setup) {}

  MadeOperation build() {
    const plan::DeviceKernel *kernel =
        setup.plan->findDeviceKernel(getKernel(launch.segments.front()));
    if (!kernel)
      return fail("the plan has no device kernel " +
                  quote(getKernel(launch.segments.front())));
    return kernel->isOverMany() ? buildOverMany() : buildOne(*kernel);
  }

private:
  Error fail(std::string message) const {
    return Error{setup.where, std::move(message)};
  }

  const std::string &getKernel(const plan::Segment &segment) const {
    return segment.kernel.empty() ? launch.kernel : segment.kernel;
  }

  Result<Entry> find(const plan::DeviceKernel &kernel, std::size_t number) {
    if (kernel.module >= setup.modules.size())
      return fail("kernel " + quote(kernel.name) + " is in module " +
                  std::to_string(kernel.module) + ", and there are " +
                  std::to_string(setup.modules.size()));
    if (number >= kernel.entries.size())
      return fail("kernel " + quote(kernel.name) + " has no finish");
    const plan::DeviceKernel::Entry &entry = kernel.entries[number];
    Result<CUfunc_st *> function =
        setup.modules[kernel.module].find(entry.symbol);
    if (!function)
      return function.takeError();
    Entry found{*function, {}, entry.symbol};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      found.shape.grid[axis] = static_cast<unsigned>(entry.grid[axis]);
      found.shape.block[axis] = static_cast<unsigned>(entry.block[axis]);
    }
    return found;
  }

  /// Kernels read vectors.
  Result<void> checkAligned(const std::vector<plan::View> &views,
                            const plan::DeviceKernel &kernel) const {
    for (std::size_t i = 0; i < views.size(); ++i) {
      std::int64_t wanted = kernel.getAlignment(i);
      if (plan::findAlignment(setup.plan->buffers, views[i]) % wanted == 0)
        continue;
      return fail(
          "kernel " + quote(kernel.name) + " of '" + std::string(label) +
          "' gets buffer " + quote(setup.plan->buffers[views[i].buffer].name) +
          " at an address that is no multiple of " + std::to_string(wanted));
    }
    return {};
  }

  MadeOperation buildOne(const plan::DeviceKernel &kernel) {
    if (launch.segments.size() != 1)
      return fail("kernel " + quote(kernel.name) + " has " +
                  std::to_string(launch.segments.size()) + " segments");
    const std::vector<plan::View> &operands = launch.segments.front().operands;
    if (auto aligned = checkAligned(operands, kernel); !aligned)
      return aligned.takeError();
    return build(kernel, operands);
  }

public:
  MadeOperation build(const plan::DeviceKernel &kernel,
                      std::span<const plan::View> views) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < kernel.entries.size(); ++i) {
      Result<Entry> entry = find(kernel, i);
      if (!entry)
        return entry.takeError();
      entries.push_back(*std::move(entry));
    }
    std::vector<binade::Address> operands;
    for (const plan::View &view : views)
      operands.push_back(setup.memory.addressOf(view));
    return std::unique_ptr<StreamOperation>(std::make_unique<KernelLaunch>(
        *setup.device, std::move(entries), std::move(operands), label));
  }

private:
  Result<void> addOperands(const std::vector<plan::View> &views,
                           const plan::DeviceKernel &kernel,
                           std::vector<std::int64_t> &row) const {
    if (auto aligned = checkAligned(views, kernel); !aligned)
      return aligned;
    for (const plan::View &view : views) {
      if (!view.steps.empty())
        return fail("'" + std::string(label) +
                    "' runs over many tensors inside of a loop");
      row.push_back(setup.memory.addressOf(view).at({}) - setup.memory.arena);
    }
    return {};
  }

  MadeOperation buildOverMany() {
    auto made = std::make_unique<TableLaunch>(
        *setup.device, toDevice(setup.memory.arena), label);
    // One launch for each kernel, in the order of their first segments.
    std::vector<TableLaunch::Part> parts;
    std::map<std::string_view, std::size_t> places;
    std::int64_t all = 0;
    for (const plan::Segment &segment : launch.segments) {
      const std::string &name = getKernel(segment);
      const plan::DeviceKernel *kernel = setup.plan->findDeviceKernel(name);
      if (!kernel)
        return fail("the plan has no device kernel " + quote(name));
      auto [place, isNew] = places.try_emplace(name, parts.size());
      if (isNew) {
        Result<Entry> entry = find(*kernel, 0);
        if (!entry)
          return entry.takeError();
        parts.push_back({*std::move(entry), {}, 0});
      }
      TableLaunch::Part &part = parts[place->second];
      std::vector<std::int64_t> row;
      if (auto added = addOperands(segment.operands, *kernel, row); !added)
        return added.takeError();
      all += (segment.extent - 1) / launch.grain + 1;
      if (all > kMostBlocks)
        return fail("'" + std::string(label) + "' has more than " +
                    std::to_string(kMostBlocks) + " blocks of " +
                    std::to_string(launch.grain) + " items");
      unsigned &blocks = part.entry.shape.grid[0];
      for (std::int64_t begin = 0; begin < segment.extent;
           begin += launch.grain) {
        part.table.insert(part.table.end(), row.begin(), row.end());
        part.table.push_back(begin);
        part.table.push_back(std::min(begin + launch.grain, segment.extent));
        ++blocks;
      }
    }
    if (launch.finish) {
      const plan::DeviceKernel *kernel =
          setup.plan->findDeviceKernel(launch.kernel);
      if (!kernel)
        return fail("the plan has no device kernel " + quote(launch.kernel));
      Result<Entry> entry = find(*kernel, 1);
      if (!entry)
        return entry.takeError();
      TableLaunch::Part &part =
          parts.emplace_back(TableLaunch::Part{*std::move(entry), {}, 0});
      if (auto added = addOperands(launch.finishOperands.empty()
                                       ? launch.segments.front().operands
                                       : launch.finishOperands,
                                   *kernel, part.table);
          !added)
        return added.takeError();
      part.table.push_back(all);
    }
    for (TableLaunch::Part &part : parts)
      if (auto added = made->add(std::move(part)); !added)
        return added.takeError();
    return std::unique_ptr<StreamOperation>(std::move(made));
  }

  const plan::Launch &launch;
  std::string_view label;
  const StreamSetup &setup;
};
} // namespace

MadeOperation createKernel(const std::string &name,
                           std::span<const plan::View> operands,
                           std::string_view label, const StreamSetup &setup) {
  plan::Launch launch;
  launch.kernel = name;
  if (const plan::DeviceKernel *kernel = setup.plan->findDeviceKernel(name))
    return LaunchBuilder(launch, label, setup).build(*kernel, operands);
  return Error{setup.where, "the plan has no device kernel " + quote(name)};
}

MadeOperation createLaunch(const plan::Launch &launch, std::string_view label,
                           const StreamSetup &setup) {
  return LaunchBuilder(launch, label, setup).build();
}
} // namespace binade::cuda
