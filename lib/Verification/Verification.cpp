//===- Verification.cpp - do two executions of a plan agree ---------------===//

#include "binade/Verification/Verification.h"
#include "CpuTwin.h"
#include "ReferenceBounds.h"
#include "SimulatedRunner.h"
#include "binade/IR/Diagnostics.h"
#include "binade/IR/ParseModule.h"
#include "binade/Pipelines/Pipelines.h"
#include "binade/Target/CUDA.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::binade;
namespace plan = ::binade::plan;
using ::binade::Bundle;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::Plan;
using ::binade::Program;
using ::binade::RecordList;
using ::binade::RecordPlace;
using ::binade::RecordRunner;
using ::binade::Result;
using ::binade::Safetensors;

/// What memory holds that a record is about to write: no number that passes for
/// one.
static constexpr auto kPoison = std::byte(0xff);

struct Verification::Implementation {
  VerifyOptions options;
  std::string where;
  Plan plan; ///< The bundle's.
  OwningOpRef<ModuleOp> source;
  std::optional<ModuleReport> modules;
  std::vector<std::string> code; ///< IR of the modules.
  /// Of a bundle for the CPU the bundle itself, else its twin.
  std::optional<Program> cpu;
  std::optional<Program> device; ///< None where it is simulated.
  std::unique_ptr<RecordRunner> cpuRunner;
  std::unique_ptr<RecordRunner>
      deviceRunner;               ///< Null for a bundle for the CPU.
  std::vector<uint32_t> statuses; ///< Buffers of words that say out of range.
  std::map<const plan::Record *, size_t> places;
  std::vector<RecordReport> reports;
  int64_t step = 0, executed = 0, executions = 0;

  Result<void> load(const std::string &path, MLIRContext &context);
  Result<void> compareModules(const std::vector<::binade::ModuleImages> &images,
                              MLIRContext &context);
  Result<void> loadTwin(const Safetensors &file, MLIRContext &context);
  Result<void> run(const std::vector<plan::Record> &records,
                   RecordPlace &place);
  Result<void> execute(const plan::Record &record, const RecordPlace &place);
  Result<void> compare(const plan::Record &record, const RecordPlace &place);
  Result<std::vector<Bytes>> readAll(RecordRunner &runner,
                                     ArrayRef<Access> accesses);
  Result<void> writeAll(RecordRunner &runner, ArrayRef<Access> accesses,
                        ArrayRef<Bytes> bytes);
  Result<void> clearStatuses(RecordRunner &runner);
  Result<std::optional<Difference>> compareStatuses();
  void note(RecordReport &report, const RecordPlace &place,
            const Access &access, Difference difference);
  RecordReport &getReport(const plan::Record &record);
};

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

static Error seenFrom(Error error, const std::string &where) {
  if (error.where.empty())
    error.where = where;
  return error;
}

/// The bundle's initial values.
static Result<std::vector<::binade::StoredTensor>>
readInitial(const Safetensors &file, const Plan &plan) {
  std::vector<::binade::StoredTensor> stored;
  for (const plan::Port &port : plan.ports) {
    auto *init = std::get_if<plan::BundleInit>(&port.init);
    const ::binade::TensorInfo *tensor =
        init ? file.find(init->tensor) : nullptr;
    if (!tensor)
      continue;
    ::binade::StoredTensor &copy = stored.emplace_back();
    copy.name = tensor->name;
    copy.dtype = tensor->dtype;
    copy.shape = tensor->shape;
    copy.bytes.resize(tensor->bytes);
    if (Result<void> done = file.read(*tensor, copy.bytes); !done)
      return done.takeError();
  }
  return stored;
}

static std::string getDirectory(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

Result<void> Verification::Implementation::loadTwin(const Safetensors &file,
                                                    MLIRContext &context) {
  DiagnosticCollector diagnostics(&context);
  FailureOr<Bundle> twin = makeCpuTwin(*source, plan);
  if (failed(twin))
    return diagnostics.takeError(where, "cannot be compiled for the CPU");
  auto stored = readInitial(file, plan);
  if (!stored)
    return stored.takeError();
  twin->init = *std::move(stored);
  ::binade::LoadOptions load;
  load.threads = options.threads;
  load.notify = options.notify;
  Result<Program> program =
      Program::load(std::move(*twin), where, getDirectory(where), load);
  if (!program)
    return program.takeError();
  cpu = *std::move(program);
  return {};
}

/// The kernels that lie in module `index`.
static void addKernels(const Plan &plan, size_t index,
                       std::vector<std::string> &names) {
  for (const plan::DeviceKernel &kernel : plan.deviceKernels)
    if (kernel.module == index)
      names.push_back(kernel.name);
}

Result<void> Verification::Implementation::compareModules(
    const std::vector<::binade::ModuleImages> &images, MLIRContext &context) {
  CompileOptions compile;
  compile.target = "cuda:" + plan.chip;
  compile.onGpuCode = [&](const GpuCode &made) { code.push_back(made.ir); };
  DiagnosticCollector diagnostics(&context);
  FailureOr<Bundle> again = recompileForCuda(*source, plan, compile);
  if (failed(again))
    return diagnostics.takeError(where, "cannot be compiled again");
  auto getEntries = [](const Plan &plan) {
    std::vector<std::string> entries;
    for (const plan::DeviceKernel &kernel : plan.deviceKernels)
      for (const plan::DeviceKernel::Entry &entry : kernel.entries)
        entries.push_back(entry.symbol);
    return entries;
  };
  // Entries are named after the kernel's text and the compiler.
  if (getEntries(plan) != getEntries(again->plan) ||
      images.size() != again->modules.size())
    return Error{where, "its kernels are not those that this compiler makes of "
                        "its source"}
        .withNote("it was compiled by another version of Binade, or edited: "
                  "compile it again");
  ModuleReport &report = modules.emplace();
  report.modules = images.size();
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip(images, again->modules))) {
    auto &[found, made] = pair;
    for (const auto &[chip, image] : made) {
      bool isPtx = llvm::StringRef(chip).starts_with("compute_");
      auto own = found.find(chip);
      if (own == found.end() && !isPtx)
        continue;
      report.machineCode += !isPtx;
      if (own == found.end() || own->second != image)
        addKernels(plan, index,
                   isPtx ? report.otherPtx : report.otherMachineCode);
    }
  }
  return {};
}

Result<void> Verification::Implementation::load(const std::string &path,
                                                MLIRContext &context) {
  Result<Safetensors> file = Safetensors::open(path);
  if (!file)
    return file.takeError();
  where = file->getPath();
  Result<Plan> read = readBundlePlan(*file);
  if (!read)
    return read.takeError();
  plan = *std::move(read);
  Result<std::string> text = readBundleSource(*file);
  if (!text)
    return text.takeError();
  if (text->empty())
    return Error{where, "the bundle does not say what its kernels were "
                        "compiled from"}
        .withNote("compile it again, with this version of Binade");
  auto parsed = parseModuleText(*text, where, context);
  if (!parsed)
    return std::move(parsed).takeError().withPart("tensor 'source'");
  source = *std::move(parsed);
  ::binade::LoadOptions load;
  load.threads = options.threads;
  load.notify = options.notify;
  load.device = options.device;
  if (plan.chip.empty()) {
    if (options.simulate)
      return Error{where, "its kernels are for the CPU, which is not simulated",
                   ExitCode::Device}
          .withNote("compile with --target cuda:sm_90");
    Result<Program> program = Program::load(path, load);
    if (!program)
      return program.takeError();
    cpu = *std::move(program);
    cpuRunner = cpu->createRecordRunner();
    return {};
  }
  auto images = readBundleModules(*file);
  if (!images)
    return images.takeError();
  if (Result<void> done = compareModules(*images, context); !done)
    return done;
  if (Result<void> done = loadTwin(*file, context); !done)
    return done;
  cpuRunner = cpu->createRecordRunner();
  if (options.simulate) {
    auto made = createSimulatedRunner(plan, code, where);
    if (!made)
      return made.takeError();
    deviceRunner = *std::move(made);
    return {};
  }
  Result<Program> program = Program::load(path, load);
  if (!program)
    return program.takeError();
  device = *std::move(program);
  deviceRunner = device->createRecordRunner();
  return {};
}

static void collectLabels(const std::vector<plan::Record> &records,
                          std::vector<StringRef> &labels) {
  for (const plan::Record &record : records) {
    if (auto *loop = std::get_if<plan::Loop>(&record.body))
      collectLabels(loop->body, labels);
    else
      labels.push_back(record.label);
  }
}

Result<Verification> Verification::create(const std::string &path,
                                          const VerifyOptions &options,
                                          MLIRContext &context) {
  auto made = std::make_unique<Implementation>();
  made->options = options;
  if (Result<void> done = made->load(path, context); !done)
    return seenFrom(done.takeError(), made->where);
  std::vector<StringRef> labels;
  for (auto list :
       {RecordList::Step, RecordList::Accumulation, RecordList::Evaluation})
    collectLabels(::binade::getRecords(made->plan, list), labels);
  if (llvm::none_of(labels, [&](StringRef label) {
        return label.contains(options.only);
      }))
    return Error{made->where,
                 "no record's label has " + ::binade::quote(options.only)}
        .withNote("'binade inspect' lists them");
  for (const plan::Port &port : made->plan.ports)
    if (port.role == plan::Role::Metric &&
        StringRef(port.name).starts_with("out_of_range/"))
      made->statuses.push_back(port.buffer);
  return Verification(std::move(made));
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Result<std::vector<Bytes>>
Verification::Implementation::readAll(RecordRunner &runner,
                                      ArrayRef<Access> accesses) {
  std::vector<Bytes> all;
  for (const Access &access : accesses) {
    Bytes &bytes = all.emplace_back(access.bytes);
    if (Result<void> done = runner.read(access.offset, bytes); !done)
      return done.takeError();
  }
  return all;
}

Result<void> Verification::Implementation::writeAll(RecordRunner &runner,
                                                    ArrayRef<Access> accesses,
                                                    ArrayRef<Bytes> bytes) {
  for (auto [access, own] : llvm::zip(accesses, bytes))
    if (Result<void> done = runner.write(access.offset, own); !done)
      return done;
  return {};
}

Result<void> Verification::Implementation::clearStatuses(RecordRunner &runner) {
  const Plan &own = &runner == cpuRunner.get() ? cpu->getPlan() : plan;
  for (uint32_t buffer : statuses) {
    Bytes zeros(own.buffers[buffer].bytes);
    if (auto done = runner.write(own.buffers[buffer].offset, zeros); !done)
      return done;
  }
  return {};
}

/// Whether both sides met an index out of range, or neither.
Result<std::optional<Difference>>
Verification::Implementation::compareStatuses() {
  for (uint32_t buffer : statuses) {
    Bytes value(plan.buffers[buffer].bytes), expected(value.size());
    for (const Result<void> &done :
         {deviceRunner->read(plan.buffers[buffer].offset, value),
          cpuRunner->read(cpu->getPlan().buffers[buffer].offset, expected)})
      if (!done)
        return done.error();
    if (auto found = compareBits(::binade::DType::I32, value, expected)) {
      found->what = "another answer to an index out of range";
      found->buffer = plan.buffers[buffer].name;
      return found;
    }
  }
  return std::optional<Difference>();
}

static bool overlaps(const Access &a, const Access &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// Fills what a launch writes and does not read.
static void poison(ArrayRef<Access> accesses, std::vector<Bytes> &bytes) {
  for (auto [access, own] : llvm::zip(accesses, bytes)) {
    bool isRead = llvm::any_of(accesses, [&](const Access &other) {
      return !other.isWritten && overlaps(access, other);
    });
    if (access.isWritten && !isRead)
      std::fill(own.begin(), own.end(), kPoison);
  }
}

RecordReport &
Verification::Implementation::getReport(const plan::Record &record) {
  static constexpr std::string_view kinds[] = {"launch", "matmul",
                                               "convolution", "copy"};
  auto [entry, isNew] = places.try_emplace(&record, reports.size());
  if (isNew) {
    RecordReport &report = reports.emplace_back();
    report.label = record.label;
    report.kind = kinds[record.body.index()];
    if (auto *launch = std::get_if<plan::Launch>(&record.body))
      report.kernel = launch->kernel;
  }
  return reports[entry->second];
}

void Verification::Implementation::note(RecordReport &report,
                                        const RecordPlace &place,
                                        const Access &access,
                                        Difference difference) {
  if (report.difference)
    return;
  const plan::Buffer &buffer = plan.buffers[access.buffer];
  difference.buffer = buffer.name.empty()
                          ? "buffer " + std::to_string(access.buffer)
                          : ::binade::printable(buffer.name);
  difference.element += access.first;
  report.difference = std::move(difference);
  report.step = step;
  report.iteration = place.iteration;
}

Result<void> Verification::Implementation::compare(const plan::Record &record,
                                                   const RecordPlace &place) {
  RecordRunner &runner = deviceRunner ? *deviceRunner : *cpuRunner;
  Execution execution{
      record, listAccesses(plan, *source, record, place.iteration), {}, {}};
  ArrayRef<Access> accesses = execution.accesses;
  auto before = readAll(*cpuRunner, accesses);
  if (!before)
    return before.takeError();
  execution.before = *std::move(before);
  if (std::holds_alternative<plan::Launch>(record.body))
    poison(accesses, execution.before);
  RecordReport &report = getReport(record);
  ++report.executions;

  // Any side, from the same bytes.
  auto run = [&](RecordRunner &side) -> Result<std::vector<Bytes>> {
    if (auto done = clearStatuses(side); !done)
      return done.takeError();
    if (auto done = writeAll(side, accesses, execution.before); !done)
      return done.takeError();
    if (Result<void> done = side.run(place); !done)
      return done.takeError();
    return readAll(side, accesses);
  };
  std::optional<std::pair<size_t, Difference>> found;
  auto compareWith = [&](ArrayRef<Bytes> other, const char *what) {
    for (auto [index, access] : llvm::enumerate(accesses)) {
      if (!access.isWritten || found)
        continue;
      auto difference =
          compareBits(access.dtype, execution.after[index], other[index]);
      if (!difference)
        continue;
      difference->what = what;
      found.emplace(index, std::move(*difference));
    }
  };

  for (int64_t i = 0; i < options.repeat; ++i) {
    auto after = run(runner);
    if (!after)
      return after.takeError();
    if (i > 0)
      compareWith(*after, "other bits when it runs again");
    else
      execution.after = *std::move(after);
  }
  bool isRepeatable = !found;
  bool isJudged = !deviceRunner;
  if (deviceRunner) {
    auto expected = run(*cpuRunner);
    if (!expected)
      return expected.takeError();
    auto statuses = compareStatuses();
    if (!statuses)
      return statuses.takeError();
    if (*statuses && !report.difference) {
      report.difference = std::move(**statuses);
      report.step = step;
    }
    if (isRepeatable) {
      compareWith(*expected, "other bits than the CPU's");
      isJudged = found && mayDiffer(*source, record);
    }
  }
  if (isRepeatable && isJudged) {
    found.reset();
    auto judged = judge(*source, execution);
    if (!judged)
      return seenFrom(judged.takeError(), where);
    if (!*judged) {
      report.isSkipped = true;
      return {};
    }
    report.ratio = std::max(report.ratio, (*judged)->ratio);
    report.equal += (*judged)->ratio == 0;
    if ((*judged)->difference)
      found.emplace((*judged)->access, std::move(*(*judged)->difference));
    if (found && found->second.what.empty())
      found->second.what = "beyond the bound of the reference";
  } else if (!found) {
    ++report.equal;
  }
  if (found)
    note(report, place, accesses[found->first], std::move(found->second));
  return {};
}

Result<void> Verification::Implementation::execute(const plan::Record &record,
                                                   const RecordPlace &place) {
  if (options.progress)
    options.progress(++executed, executions);
  if (!StringRef(record.label).contains(options.only))
    return cpuRunner->run(place);
  return compare(record, place);
}

Result<void>
Verification::Implementation::run(const std::vector<plan::Record> &records,
                                  RecordPlace &place) {
  place.path.push_back(0);
  for (auto [number, record] : llvm::enumerate(records)) {
    place.path.back() = number;
    auto *loop = std::get_if<plan::Loop>(&record.body);
    if (!loop) {
      if (Result<void> done = execute(record, place); !done)
        return done;
      continue;
    }
    place.iteration.push_back(0);
    for (int64_t n = 0; n < loop->count; ++n) {
      place.iteration.back() = n;
      if (Result<void> done = run(loop->body, place); !done)
        return done;
    }
    place.iteration.pop_back();
  }
  place.path.pop_back();
  return {};
}

static int64_t countExecutions(const std::vector<plan::Record> &records) {
  int64_t count = 0;
  for (const plan::Record &record : records) {
    auto *loop = std::get_if<plan::Loop>(&record.body);
    count += loop ? loop->count * countExecutions(loop->body) : 1;
  }
  return count;
}

Result<void> Verification::run(RecordList list) {
  Implementation &own = *implementation;
  const std::vector<plan::Record> &records =
      ::binade::getRecords(own.plan, list);
  own.executed = 0;
  own.executions = countExecutions(records);
  if (list == RecordList::Step)
    ++own.step;
  RecordPlace place;
  place.list = list;
  if (Result<void> done = own.run(records, place); !done)
    return done;
  if (list == RecordList::Step)
    for (::binade::Tensor &sum : own.cpu->tensors(plan::Role::Accumulator))
      llvm::fill(sum.bytes, std::byte(0));
  return {};
}

//===----------------------------------------------------------------------===//
// What was found
//===----------------------------------------------------------------------===//

Verification::Verification(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
Verification::Verification(Verification &&) noexcept = default;
Verification::~Verification() = default;

Program &Verification::getProgram() { return *implementation->cpu; }

const std::optional<ModuleReport> &Verification::getModules() const {
  return implementation->modules;
}

std::vector<RecordReport> Verification::getRecords() const {
  return implementation->reports;
}

std::string Verification::describe() const {
  if (!implementation->deviceRunner)
    return "the CPU with the reference";
  return (implementation->device ? implementation->device->formatDevice()
                                 : "the simulator") +
         " with the CPU";
}
