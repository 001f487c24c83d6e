//===- CAPI.cpp - C interface of the runtime ------------------------------===//

#include "CAPI.h"
#include <algorithm>
#include <cstring>
#include <optional>

using namespace binade;
using namespace binade::capi;
using namespace binade::plan;

static thread_local std::string lastError;

int capi::fail(const Error &error) {
  lastError = render(error);
  return error.exitCode;
}

int capi::usage(std::string message) {
  return fail(Error{"binade", std::move(message), ExitCode::Usage});
}

using File = std::shared_ptr<const std::vector<std::byte>>;

static int finishLoading(Result<Program> loaded, File file, std::uint64_t seed,
                         binade_program **program) {
  if (!loaded)
    return fail(loaded.error());
  if (Result<void> done = loaded->initialize(seed); !done)
    return fail(done.error());
  *program = new binade_program{*std::move(loaded), std::move(file)};
  return ExitCode::Ok;
}

const char *binade_version(void) { return BINADE_VERSION; }

int binade_c_api_version(void) { return BINADE_C_API_VERSION; }

const char *binade_last_error(void) { return lastError.c_str(); }

int binade_program_load(const char *path, uint32_t threads, uint64_t seed,
                        binade_program **program) {
  return guard([&] {
    if (!path || !program)
      return usage("null pointer");
    LoadOptions options;
    options.threads = threads;
    return finishLoading(Program::load(path, options), {}, seed, program);
  });
}

int binade_program_load_memory(const void *bundle, size_t bytes,
                               const char *directory, uint32_t threads,
                               uint64_t seed, binade_program **program) {
  return guard([&] {
    if (!bundle || !program)
      return usage("null pointer");
    auto *start = static_cast<const std::byte *>(bundle);
    File file = std::make_shared<std::vector<std::byte>>(start, start + bytes);
    LoadOptions options;
    options.threads = threads;
    Result<Program> loaded = Program::load(*file, "bundle in memory",
                                           directory ? directory : "", options);
    return finishLoading(std::move(loaded), std::move(file), seed, program);
  });
}

void binade_program_free(binade_program *program) { delete program; }

/// Parses roles that are separated by commas. Returns the first text that does
/// not name one, if any.
static std::optional<std::string_view> parseRoles(std::string_view text,
                                                  std::vector<Role> &roles) {
  while (!text.empty()) {
    std::size_t end = std::min(text.find(','), text.size());
    std::optional<Role> role = parseRole(text.substr(0, end));
    if (!role)
      return text.substr(0, end);
    roles.push_back(*role);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

int binade_program_load_bound(const char *path, const char *device,
                              uint32_t threads, const char *roles,
                              binade_program **program) {
  return guard([&] {
    if (!path || !device || !roles || !program)
      return usage("null pointer");
    LoadOptions options;
    options.threads = threads;
    std::optional<DeviceChoice> choice = DeviceChoice::parse(device);
    if (!choice)
      return usage("no device is called " + quote(device));
    options.device = *choice;
    if (auto wrong = parseRoles(roles, options.boundRoles))
      return usage("no role is called " + quote(*wrong));
    Result<Program> loaded = Program::load(path, options);
    if (!loaded)
      return fail(loaded.error());
    *program = new binade_program{*std::move(loaded), {}};
    return +ExitCode::Ok;
  });
}

int binade_program_bind(binade_program *program, size_t index, void *memory) {
  return guard([&] { return finish(program->program.bind(index, memory)); });
}

int binade_program_initialize(binade_program *program, uint64_t seed) {
  return guard([&] { return finish(program->program.initialize(seed)); });
}

int binade_program_enqueue(binade_program *program, void *stream) {
  return guard([&] { return finish(program->program.enqueue(stream)); });
}

static int checkIndices(const binade_program *program) {
  Result<void> inside = program->program.checkIndices();
  return inside ? +ExitCode::Ok : fail(inside.error());
}

int binade_program_run(binade_program *program) {
  return guard([&] {
    if (auto done = program->program.run({}, /*observes=*/true); !done)
      return fail(done.takeError());
    return checkIndices(program);
  });
}

int binade_program_accumulate(binade_program *program, double *loss) {
  return guard([&] {
    if (!loss)
      return usage("null pointer");
    if (program->program.getPlan().batches == 1)
      return usage("the program was compiled for one batch per step");
    Result<double> mean = program->program.accumulate();
    if (!mean)
      return fail(mean.takeError());
    *loss = *mean;
    return checkIndices(program);
  });
}

int binade_program_evaluate(binade_program *program, double *loss) {
  return guard([&] {
    if (!loss)
      return usage("null pointer");
    if (!program->program.hasEvaluation())
      return usage("the program has no loss to evaluate");
    Result<double> mean = program->program.evaluate();
    if (!mean)
      return fail(mean.takeError());
    *loss = *mean;
    return checkIndices(program);
  });
}

size_t binade_program_tensor_count(const binade_program *program) {
  return program->program.getPlan().ports.size();
}

/// Sets `result` to refer to `tensor`. All names are literals or belong to the
/// plan, so they are null-terminated and stay valid.
static void describe(const Tensor &tensor, binade_tensor *result) {
  *result = {
      name(tensor.role).data(),  tensor.name.data(),
      name(tensor.dtype).data(), tensor.bytes.data(),
      tensor.bytes.size(),       static_cast<int64_t>(tensor.shape.size()),
      tensor.shape.data()};
}

int binade_program_tensor_at(const binade_program *program, size_t index,
                             binade_tensor *tensor) {
  return guard([&] {
    const std::vector<Port> &ports = program->program.getPlan().ports;
    if (index >= ports.size())
      return usage("no tensor " + std::to_string(index) + ", the program has " +
                   std::to_string(ports.size()));
    describe(*program->program.find(ports[index].role, ports[index].name),
             tensor);
    return +ExitCode::Ok;
  });
}

/// Returns the tensor of a role and name; otherwise sets the last error.
static std::optional<Tensor> find(const binade_program *program,
                                  const char *role, const char *tensor) {
  std::optional<Role> parsed = parseRole(role ? role : "");
  if (!parsed) {
    usage("no role is called " + quote(role ? role : ""));
    return std::nullopt;
  }
  std::optional<Tensor> found =
      program->program.find(*parsed, tensor ? tensor : "");
  if (!found)
    usage("the program has no " + std::string(role) + " " +
          quote(tensor ? tensor : ""));
  return found;
}

int binade_program_tensor(const binade_program *program, const char *role,
                          const char *name, binade_tensor *tensor) {
  return guard([&] {
    std::optional<Tensor> found = find(program, role, name);
    if (!found)
      return +ExitCode::Usage;
    describe(*found, tensor);
    return +ExitCode::Ok;
  });
}

int binade_program_set(binade_program *program, const char *role,
                       const char *name, const void *data, size_t bytes) {
  return guard([&] {
    std::optional<Tensor> found = find(program, role, name);
    if (!found)
      return +ExitCode::Usage;
    Result<void> done = program->program.set(
        found->role, name, {static_cast<const std::byte *>(data), bytes});
    return done ? +ExitCode::Ok : fail(done.error());
  });
}

int binade_program_save(const binade_program *program, const char *path) {
  return guard([&] {
    Result<void> done = program->program.save(path);
    return done ? +ExitCode::Ok : fail(done.error());
  });
}

int binade_program_restore(binade_program *program, const char *path) {
  return guard([&] {
    Result<Safetensors> file = Safetensors::open(path);
    if (!file)
      return fail(file.error());
    Result<Restored> restored = program->program.restore(*file);
    return restored ? +ExitCode::Ok : fail(restored.error());
  });
}
