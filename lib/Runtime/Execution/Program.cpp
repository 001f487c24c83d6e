//===- Program.cpp - Loading and running a bundle -------------------------===//

#include "../Cuda/OpenDevice.h"
#include "ProgramImplementation.h"
#include "binade/Container/Printable.h"
#include "binade/Plan/PlanJson.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace binade;
using namespace binade::plan;

Program::Program(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
Program::Program(Program &&) noexcept = default;
Program &Program::operator=(Program &&) noexcept = default;
Program::~Program() = default;

/// The prefix of the metrics that report an index out of range.
static constexpr std::string_view kOutOfRange = "out_of_range/";

static bool hasLaunch(const std::vector<Record> &records) {
  return std::any_of(records.begin(), records.end(), [](const Record &record) {
    auto *loop = std::get_if<Loop>(&record.body);
    return loop ? hasLaunch(loop->body)
                : std::holds_alternative<Launch>(record.body);
  });
}

/// Returns the best instruction set level that both this CPU and the bundle
/// have; empty if the plan has no kernels. For a GPU it is the plan's chip.
static Result<std::string> chooseLevel(const Plan &plan,
                                       const std::vector<std::string> &levels,
                                       const std::string &where) {
  if (!plan.chip.empty())
    return plan.chip;
  std::span<const std::string_view> supported = supportedIsaLevels();
  if (supported.empty())
    return Error{where, "this CPU is older than x86-64-v3 (AVX2, FMA, F16C)",
                 ExitCode::Device};
  if (!hasLaunch(plan.records) && !hasLaunch(plan.evaluation))
    return std::string();
  for (std::string_view level : supported)
    if (std::find(levels.begin(), levels.end(), level) != levels.end())
      return std::string(level);
  std::string found;
  for (const std::string &level : levels)
    found += (found.empty() ? "" : ", ") + printable(level);
  return Error{where,
               "no kernels for this CPU (" + std::string(supported.front()) +
                   "); the bundle has " + (found.empty() ? "none" : found),
               ExitCode::Device};
}

Result<Program> Program::load(const std::string &path,
                              const LoadOptions &options) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  std::size_t slash = path.rfind('/');
  return loadFile(*std::move(file),
                  slash == path.npos ? "" : path.substr(0, slash + 1), options);
}

Result<Program> Program::load(std::span<const std::byte> bytes,
                              std::string where, std::string directory,
                              const LoadOptions &options) {
  Result<Safetensors> file = Safetensors::fromMemory(bytes, std::move(where));
  if (!file)
    return file.takeError();
  return loadFile(*std::move(file), std::move(directory), options);
}

Result<Program> Program::loadFile(Safetensors file, std::string directory,
                                  const LoadOptions &options) {
  auto made = std::make_unique<Implementation>();
  made->where = file.getPath();
  made->directory = std::move(directory);
  made->options = options;
  Result<Plan> plan = readBundlePlan(file);
  if (!plan)
    return plan.takeError();
  made->plan = *std::move(plan);
  Result<std::string> level =
      chooseLevel(made->plan, bundleLevels(file), made->where);
  if (!level)
    return level.takeError();
  made->isa = *level;
  Result<std::vector<std::byte>> object = readBundleKernels(file, made->isa);
  if (!object)
    return object.takeError();
  Result<std::vector<ModuleImages>> modules = readBundleModules(file);
  if (!modules)
    return modules.takeError();
  made->initial =
      std::make_shared<InitialTensors>(InitialTensors{.file = std::move(file)});
  if (Result<void> done = made->prepare(*object, *modules); !done)
    return done.takeError();
  return Program(std::move(made));
}

Result<Program> Program::load(Bundle bundle, std::string where,
                              std::string directory,
                              const LoadOptions &options) {
  auto made = std::make_unique<Implementation>();
  made->where = std::move(where);
  made->directory = std::move(directory);
  made->options = options;
  if (Result<void> valid = validate(bundle.plan, made->where); !valid)
    return valid.takeError();
  made->plan = std::move(bundle.plan);
  made->initial = std::make_shared<InitialTensors>(
      InitialTensors{.stored = std::move(bundle.init)});
  std::vector<std::string> levels;
  for (const auto &[level, object] : bundle.kernels)
    levels.push_back(level);
  Result<std::string> level = chooseLevel(made->plan, levels, made->where);
  if (!level)
    return level.takeError();
  made->isa = *level;
  if (Result<void> done =
          made->prepare(bundle.kernels[made->isa], bundle.modules);
      !done)
    return done.takeError();
  return Program(std::move(made));
}

Result<void>
Program::Implementation::prepare(std::span<const std::byte> object,
                                 std::span<const ModuleImages> modules) {
  if (Result<void> done = applySettings(plan, options.settings, where); !done)
    return done;
  bound = BoundPorts::create(plan, options.boundRoles);
  if (Result<void> done = checkExchangedMemory(); !done)
    return done;
  if (const char *text = std::getenv("BINADE_CONTRACTION")) {
    std::optional<Contraction> choice = parseContraction(text);
    if (!choice)
      return Error{"BINADE_CONTRACTION",
                   "expected auto, library or own, got " + quote(text),
                   ExitCode::Usage};
    options.contraction = *choice;
  }
#ifdef NDEBUG
  constexpr bool debug = false;
#else
  constexpr bool debug = true;
#endif
  poisons = options.poison.value_or(debug);
  if (const char *text = std::getenv("BINADE_POISON"))
    poisons = std::string_view(text) == "1";
  threads = options.threads ? options.threads
            : plan.threads  ? plan.threads
                            : defaultThreadCount();
  if (auto done = plan.chip.empty() ? prepareCpu(object) : prepareCuda(modules);
      !done)
    return done;
  for (const Port &port : plan.ports) {
    if (port.role == Role::Metric && port.name.starts_with(kOutOfRange))
      indexFaults.push_back(&port);
    if (port.role == Role::Accumulator)
      accumulators.push_back(&port);
  }
  return {};
}

Result<void>
Program::Implementation::prepareCuda(std::span<const ModuleImages> modules) {
  if (options.loadsPlanOnly)
    return {};
  std::set<std::string> names;
  for (const ModuleImages &images : modules)
    for (const auto &[chip, image] : images)
      names.insert(chip);
  std::vector<Chip> chips;
  for (const std::string &name : names)
    if (std::optional<Chip> chip = Chip::parse(name))
      chips.push_back(*chip);
  if (options.device.kind == DeviceChoice::Cpu)
    return Error{where,
                 "its kernels are for cuda:" + plan.chip +
                     ", the selected device is the CPU",
                 ExitCode::Device}
        .withNote("to run on the CPU, compile without --target");
  Result<cuda::OpenedDevice> opened = cuda::openDevice(options.device, chips);
  // `auto` found no device. The CPU is not an alternative, so open a device
  // explicitly, which returns the reason as an error.
  if (opened && !opened->device)
    opened = cuda::openDevice({DeviceChoice::Cuda, 0}, chips);
  if (!opened)
    return opened.takeError();
  cuda::Engine::Setup setup{&plan,         &bound, std::move(opened->device),
                            modules,       where,  options.contraction,
                            options.notify};
  if (!plan.listBuckets().empty())
    setup.makeExchange = [&](const Memory &memory) {
      exchange = std::make_unique<exchange::Group>(plan, memory, where,
                                                   /*isOnDevice=*/true);
      return exchange.get();
    };
  Result<std::unique_ptr<cuda::Engine>> made =
      cuda::Engine::create(std::move(setup));
  if (!made)
    return made.takeError();
  engine = *std::move(made);
  findTransient();
  return {};
}

Result<void>
Program::Implementation::prepareCpu(std::span<const std::byte> object) {
  if (options.device.kind == DeviceChoice::Cuda)
    return Error{where,
                 "its kernels are for the CPU, the selected device is a GPU",
                 ExitCode::Device}
        .withNote("to run on a GPU, compile with --target cuda:sm_90");
  Result<Arena> memory = Arena::allocate(plan.arenaBytes, where);
  if (!memory)
    return std::move(memory).takeError().withNote(
        "a smaller batch or a narrower policy needs less");
  arena = *std::move(memory);
  if (!object.empty()) {
    Result<KernelObject> loaded = KernelObject::load(object, where);
    if (!loaded)
      return std::move(loaded).takeError().withPart(
          "tensor '" + std::string(kKernelTensorPrefix) + isa + "'");
    kernels = std::make_shared<KernelObject>(*std::move(loaded));
  }
  if (!plan.listBuckets().empty())
    exchange = std::make_unique<exchange::Group>(
        plan, Memory{arena.data(), plan.buffers, &bound}, where);
  if (const char *text = std::getenv("BINADE_PIN");
      text && std::string_view(text) == "1" &&
      !ThreadTeam::get().pin(threads) && options.notify)
    options.notify("warning: BINADE_PIN has no effect: " +
                   std::to_string(threads) + " threads need as many cores");
  Result<Executor> made = Executor::create(
      {&plan, arena.data(), &bound, kernels.get(), threads, options.contraction,
       exchange.get(), where, options.notify});
  if (!made)
    return made.takeError();
  executor = *std::move(made);
  findTransient();
  return {};
}

/// Whether a port of this role keeps its value between steps. This includes
/// batches, constants and hyper-parameters; results do not keep theirs.
static bool keepsValue(Role role) { return role < Role::Output; }

void Program::Implementation::findTransient() {
  std::vector<ArenaRange> kept;
  for (const Port &port : plan.ports)
    if (keepsValue(port.role) && !bound.contains(port.buffer)) {
      const Buffer &buffer = plan.buffers[port.buffer];
      kept.push_back({buffer.offset, buffer.offset + buffer.bytes});
    }
  std::sort(kept.begin(), kept.end(),
            [](ArenaRange a, ArenaRange b) { return a.begin < b.begin; });
  std::uint64_t position = 0;
  for (ArenaRange range : kept) {
    if (position < range.begin)
      transient.push_back({position, range.begin});
    position = std::max(position, range.end);
  }
  if (position < plan.arenaBytes)
    transient.push_back({position, plan.arenaBytes});
}

Result<void> Program::Implementation::fillTransient(std::byte value) {
  for (ArenaRange range : transient)
    if (!engine)
      std::fill_n(arena.data() + range.begin, range.size(), value);
    else if (Result<void> done = engine->fill(range, value); !done)
      return done;
  return {};
}

Tensor Program::Implementation::tensorOf(const Port &port,
                                         bool isReadOnly) const {
  const Buffer &buffer = plan.buffers[port.buffer];
  std::span<std::byte> bytes;
  if (engine)
    bytes = engine->access(static_cast<std::size_t>(&port - plan.ports.data()),
                           isReadOnly);
  else if (!bound.contains(port.buffer))
    bytes = {arena.data() + buffer.offset, buffer.bytes};
  else if (std::byte *address = bound.get(port.buffer))
    bytes = {address, buffer.bytes};
  return {port.role, port.name, buffer.dtype, buffer.shape, bytes};
}

const Plan &Program::getPlan() const { return implementation->plan; }
unsigned Program::getThreads() const { return implementation->threads; }
std::string_view Program::getIsa() const { return implementation->isa; }
std::string Program::formatDevice() const {
  if (implementation->plan.chip.empty())
    return "cpu";
  return implementation->engine ? implementation->engine->getDevice().format()
                                : "";
}
std::uint64_t Program::getExtraBytes() const {
  return implementation->executor.getExtraBytes();
}

Result<void> Program::Implementation::checkBound() const {
  std::optional<std::uint32_t> buffer = bound.findUnbound(plan);
  if (!buffer)
    return {};
  for (const Port &port : plan.ports)
    if (port.buffer == *buffer)
      return Error{"binade",
                   std::string(name(port.role)) + " " + quote(port.name) +
                       " is not bound to memory; call Program::bind first",
                   ExitCode::Usage};
  return Error{"binade", "a port has no memory", ExitCode::Usage};
}

Result<void> Program::bind(std::size_t port, void *memory) {
  const Plan &plan = implementation->plan;
  if (port >= plan.ports.size() ||
      !implementation->bound.contains(plan.ports[port].buffer))
    return Error{"binade",
                 "port " + std::to_string(port) +
                     " has no memory of the caller",
                 ExitCode::Usage};
  if (implementation->engine &&
      reinterpret_cast<std::uintptr_t>(memory) % plan::kDeviceAlignment != 0)
    return Error{"binade",
                 std::string(name(plan.ports[port].role)) + " " +
                     quote(plan.ports[port].name) +
                     " is at an address that is not a multiple of " +
                     std::to_string(plan::kDeviceAlignment) +
                     "; copy it to one that is",
                 ExitCode::Usage};
  implementation->bound.bind(plan.ports[port].buffer,
                             static_cast<std::byte *>(memory));
  return {};
}

Result<void>
Program::Implementation::download(const Port &port,
                                  std::span<std::byte> into) const {
  return engine->download(cuda::toDevice(bound.get(port.buffer)), into);
}

Result<void>
Program::Implementation::upload(const Port &port,
                                std::span<const std::byte> bytes) const {
  return engine->upload(cuda::toDevice(bound.get(port.buffer)), bytes);
}

std::optional<Tensor> Program::find(Role role, std::string_view name) const {
  if (const Port *port = implementation->plan.findPort(role, name))
    return implementation->tensorOf(*port);
  return std::nullopt;
}

std::vector<Tensor> Program::tensors() const {
  std::vector<Tensor> all;
  for (const Port &port : implementation->plan.ports)
    all.push_back(implementation->tensorOf(port));
  return all;
}

std::vector<Tensor> Program::read(Role role) const {
  std::vector<Tensor> all;
  for (const Port &port : implementation->plan.ports)
    if (port.role == role)
      all.push_back(implementation->tensorOf(port, /*isReadOnly=*/true));
  return all;
}

std::vector<Tensor> Program::tensors(Role role) const {
  std::vector<Tensor> all;
  for (const Port &port : implementation->plan.ports)
    if (port.role == role)
      all.push_back(implementation->tensorOf(port));
  return all;
}

Result<void> Program::Implementation::clear(const Port &port) {
  if (engine)
    return engine->clear(static_cast<std::size_t>(&port - plan.ports.data()));
  std::span<std::byte> bytes = tensorOf(port).bytes;
  std::memset(bytes.data(), 0, bytes.size());
  return {};
}

Result<void> Program::Implementation::clear() {
  if (poisons)
    if (Result<void> done = fillTransient(std::byte(0xff)); !done)
      return done;
  for (const Port *fault : indexFaults) {
    std::span<std::byte> bytes = tensorOf(*fault).bytes;
    std::memset(bytes.data(), 0, bytes.size());
  }
  return {};
}

Result<void> Program::Implementation::execute(RecordList list,
                                              const FillNext &fillNext) {
  if (Result<void> done = checkBound(); !done)
    return done;
  if (Result<void> done = checkAlone(list); !done)
    return done;
  if (Result<void> done = clear(); !done)
    return done;
  double begin = profiler ? profiler->now() : 0;
  bool isShared =
      exchange && exchange->isShared() && list != RecordList::Evaluation;
  if (auto done = isShared ? executeShared(list, fillNext)
                           : executeRecords(list, fillNext);
      !done)
    return done;
  if (profiler)
    profiler->add({list, begin, profiler->now()});
  return {};
}

Result<void> Program::Implementation::executeRecords(RecordList list,
                                                     const FillNext &fillNext) {
  if (engine)
    return engine->run(list, fillNext);
  executor.run(list);
  return {};
}

Result<void> Program::run(const FillNext &fillNext, bool observes) {
  RecordList list = observes && !getPlan().observation.empty()
                        ? RecordList::Observation
                        : RecordList::Step;
  Result<void> done = implementation->execute(list, fillNext);
  // Ranks have added to accumulators, even if the exchange failed.
  if (!done && !implementation->exchange)
    return done;
  Result<void> reset = resetAccumulators();
  return done ? reset : done;
}

Result<void> Program::enqueue(void *stream) {
  if (!implementation->engine || implementation->bound.empty())
    return Error{"binade",
                 "only a program with bound ports on a CUDA device executes a "
                 "step on a stream of the caller",
                 ExitCode::Usage};
  if (implementation->exchange && implementation->exchange->isShared())
    return Error{"binade",
                 "a step on a stream of the caller exchanges no gradients with "
                 "other ranks; call run instead",
                 ExitCode::Usage};
  if (Result<void> done = implementation->checkBound(); !done)
    return done;
  return implementation->engine->enqueue(RecordList::Step,
                                         static_cast<CUstream_st *>(stream));
}

Result<void> Program::resetAccumulators() {
  for (const Port *accumulator : implementation->accumulators)
    if (auto done = implementation->clear(*accumulator); !done)
      return done;
  return {};
}

Result<double> Program::accumulate(const FillNext &fillNext) {
  if (auto done = implementation->execute(RecordList::Accumulation, fillNext);
      !done)
    return done.takeError();
  return *readScalar(*this, Role::Metric, kBatchLoss);
}

bool Program::hasEvaluation() const { return !getPlan().evaluation.empty(); }

Result<double> Program::evaluate() {
  if (auto done = implementation->execute(RecordList::Evaluation); !done)
    return done.takeError();
  return *readScalar(*this, Role::Metric, kEvalLoss);
}

std::optional<std::string_view> Program::findIndexFault() const {
  for (const Port *fault : implementation->indexFaults) {
    std::span<std::byte> bytes = implementation->tensorOf(*fault).bytes;
    if (std::any_of(bytes.begin(), bytes.end(),
                    [](std::byte byte) { return byte != std::byte(0); }))
      return std::string_view(fault->name).substr(kOutOfRange.size());
  }
  return std::nullopt;
}

template <typename T> static double readAs(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

std::optional<double> binade::readScalar(const Program &program, Role role,
                                         std::string_view name) {
  std::vector<Tensor> tensors = program.read(role);
  auto tensor = std::ranges::find(tensors, name, &Tensor::name);
  if (tensor == tensors.end() ||
      tensor->bytes.size() != byteSize(tensor->dtype))
    return std::nullopt;
  switch (tensor->dtype) {
  case DType::F64:
    return readAs<double>(tensor->bytes);
  case DType::F32:
    return readAs<float>(tensor->bytes);
  case DType::I64:
    return readAs<std::int64_t>(tensor->bytes);
  case DType::I32:
    return readAs<std::int32_t>(tensor->bytes);
  case DType::U32:
    return readAs<std::uint32_t>(tensor->bytes);
  case DType::BOOL:
  case DType::U8:
    return readAs<std::uint8_t>(tensor->bytes);
  default:
    return std::nullopt;
  }
}
