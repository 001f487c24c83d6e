//===- Program.cpp - A compiled step for Python ---------------------------===//

#include "Failure.h"
#include "Modules.h"
#include "binade/Plan/PlanJson.h"
#include "binade/Plan/ShardStates.h"
#include "binade/Runtime/Evaluation.h"
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
using GivenBytes =
    nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static plan::Role getRole(std::string_view name) {
  if (std::optional<plan::Role> role = plan::parseRole(name))
    return *role;
  throw Failure(
      Error{"binade", "no role is called " + quote(name), ExitCode::Usage});
}

Program
python::start(const LoadArguments &arguments,
              const std::function<Result<Program>(const LoadOptions &)> &load) {
  LoadOptions options;
  std::optional<DeviceChoice> device = DeviceChoice::parse(arguments.device);
  if (!device)
    throw Failure(Error{"binade",
                        "no device is called " + quote(arguments.device),
                        ExitCode::Usage}
                      .withNote("there are auto, cpu, cuda and cuda:INDEX"));
  options.device = *device;
  options.threads = arguments.threads;
  options.failOnNonfinite = arguments.failOnNonfinite;
  for (const auto &[name, value] : arguments.settings)
    options.settings.push_back({name, value});
  for (const std::string &role : arguments.boundRoles)
    options.boundRoles.push_back(getRole(role));
  // The program keeps it.
  auto warnings = std::make_shared<std::vector<std::string>>();
  options.notify = [=](std::string_view text) { warnings->emplace_back(text); };
  Program program = [&] {
    nb::gil_scoped_release release;
    Program loaded = take(load(options));
    if (arguments.boundRoles.empty())
      check(loaded.initialize(arguments.seed));
    return loaded;
  }();
  warn(*warnings);
  return program;
}

/// Returns an array over a tensor's memory; the array keeps the program alive.
static Bytes share(nb::handle program, const Tensor &tensor) {
  return Bytes(reinterpret_cast<std::uint8_t *>(tensor.bytes.data()),
               {tensor.bytes.size()}, program);
}

static std::vector<std::tuple<std::string, std::string, std::string,
                              std::vector<std::int64_t>>>
listPorts(const Program &program) {
  std::vector<std::tuple<std::string, std::string, std::string,
                         std::vector<std::int64_t>>>
      ports;
  const Plan &plan = program.getPlan();
  for (const plan::Port &port : plan.ports) {
    const plan::Buffer &buffer = plan.buffers[port.buffer];
    ports.emplace_back(name(port.role), port.name, name(buffer.dtype),
                       buffer.shape);
  }
  return ports;
}

/// Returns the statistics that the program reports, with the period of each in
/// steps.
static std::map<std::string, std::int64_t> listPeriods(const Program &program) {
  std::map<std::string, std::int64_t> periods;
  for (const plan::Port &port : program.getPlan().ports)
    if (port.role == plan::Role::Statistic && port.every > 0)
      periods[port.name] = port.every;
  return periods;
}

/// Returns the shape of the whole tensor and the index of the first element of
/// each state that is sharded among the ranks of a group, in the plan's order.
static std::vector<
    std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>>
listShards(const Program &program) {
  std::vector<std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>>
      parts;
  const Plan &plan = program.getPlan();
  for (const plan::Port &port : plan.ports)
    if (const auto &shard = plan.buffers[port.buffer].shard)
      parts.emplace_back(port.name, shard->shape, shard->first);
  return parts;
}

/// Returns the bytes of states of the program, of all ranks, and of those that
/// each rank has.
static std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>
countStates(const Program &program) {
  StateBytes bytes = countStateBytes(program.getPlan());
  return {bytes.own, bytes.whole, bytes.repeated};
}

/// Writes the training state; `readWhole` returns the bytes of a sharded state.
static void save(const Program &program, const std::string &path,
                 nb::object readWhole) {
  if (readWhole.ptr() == Py_None)
    return check(program.save(path));
  check(program.save(path, [&](const Tensor &own) {
    auto bytes = nb::cast<GivenBytes>(readWhole(own.name));
    auto *data = reinterpret_cast<const std::byte *>(bytes.data());
    return std::vector<std::byte>(data, data + bytes.size());
  }));
}

static Restored restore(Program &program, const std::string &path) {
  return take(program.restore(take(Safetensors::open(path))));
}

/// Returns CPU memory that another library shares by DLPack: its bytes, the
/// code and bits of its element type, and the shape.
using SharedBytes = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
static std::tuple<SharedBytes, int, int, std::vector<std::int64_t>>
readDlpack(AnyArray array) {
  std::vector<std::int64_t> shape;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    shape.push_back(array.shape(axis));
  nb::dlpack::dtype type = array.dtype();
  nb::capsule owner(new AnyArray(array), [](void *kept) noexcept {
    delete static_cast<AnyArray *>(kept);
  });
  SharedBytes bytes(static_cast<const std::uint8_t *>(array.data()),
                    {array.nbytes()}, owner);
  return {std::move(bytes), type.code, type.bits, std::move(shape)};
}

void python::addProgram(nb::module_ &module) {
  nb::class_<Program>(module, "Program")
      .def("ports", &listPorts)
      .def("periods", &listPeriods)
      .def("tensor",
           [](nb::handle self, std::string_view role, std::string_view name) {
             auto &program = nb::cast<Program &>(self);
             std::optional<Tensor> found = program.find(getRole(role), name);
             if (!found)
               throw Failure(Error{"binade",
                                   "the program has no " + std::string(role) +
                                       " " + quote(name),
                                   ExitCode::Usage});
             return share(self, *found);
           })
      .def("set",
           [](Program &program, std::string_view role, std::string_view name,
              GivenBytes values) {
             check(program.set(
                 getRole(role), name,
                 std::as_bytes(std::span(values.data(), values.size()))));
           })
      .def("check",
           [](const Program &program, std::string_view role,
              std::string_view name, GivenBytes values) {
             check(program.check(
                 getRole(role), name,
                 std::as_bytes(std::span(values.data(), values.size()))));
           })
      .def("enqueue",
           [](Program &program, std::uintptr_t stream) {
             nb::gil_scoped_release release;
             check(program.enqueue(reinterpret_cast<void *>(stream)));
           })
      .def("bind",
           [](Program &program,
              const std::vector<std::pair<std::size_t, std::uintptr_t>>
                  &memory) {
             for (auto [port, address] : memory)
               check(program.bind(port, reinterpret_cast<void *>(address)));
           })
      .def("initialize",
           [](Program &program, std::uint64_t seed) {
             check(program.initialize(seed));
           })
      .def("run", &runStep)
      .def("set_exchange", &setExchange, "rank"_a, "size"_a,
           "callback"_a.none())
      .def("exchange", &python::describeExchange)
      .def("accumulate",
           [](Program &program) {
             nb::gil_scoped_release release;
             double loss = take(program.accumulate());
             check(program.checkIndices());
             return loss;
           })
      .def("evaluate",
           [](Program &program) {
             nb::gil_scoped_release release;
             double loss = take(program.evaluate());
             check(program.checkIndices());
             return loss;
           })
      .def("evaluate_metrics",
           [](Program &program) {
             nb::gil_scoped_release release;
             Evaluation found = take(evaluateBatch(program));
             check(program.checkIndices());
             std::map<std::string, double> metrics = {{"loss", found.loss}};
             for (const EvaluationMetric &metric : found.metrics)
               metrics[metric.name] = metric.value;
             return metrics;
           })
      .def("has_evaluation", &Program::hasEvaluation)
      .def("batches",
           [](const Program &program) { return program.getPlan().batches; })
      .def("save", &save, "path"_a, "read_whole"_a.none() = nb::none())
      .def("shard_states",
           [](const Program &program, std::uint32_t rank, std::uint32_t size) {
             nb::gil_scoped_release release;
             return take(program.shardStates({rank, size}));
           })
      .def("shards", &listShards)
      .def("state_bytes", &countStates)
      .def("restore",
           [](Program &program, const std::string &path) {
             Restored restored = restore(program, path);
             return std::tuple(restored.tensors, restored.missing,
                               restored.unknown);
           })
      .def("scalar",
           [](const Program &program, std::string_view role,
              std::string_view name) {
             return readScalar(program, getRole(role), name);
           })
      .def("plan",
           [](const Program &program) { return writePlan(program.getPlan()); })
      .def("device", &Program::formatDevice);
  module.def("read_dlpack", &readDlpack);
  module.def(
      "load_program",
      [](const std::string &path, const std::string &device, unsigned threads,
         std::uint64_t seed, const std::map<std::string, double> &settings,
         bool failOnNonfinite) {
        return start({device, threads, seed, settings, failOnNonfinite, {}},
                     [&](const LoadOptions &options) {
                       return Program::load(path, options);
                     });
      },
      "path"_a, "device"_a, "threads"_a, "seed"_a, "settings"_a,
      "fail_on_nonfinite"_a);
}
