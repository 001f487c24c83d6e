//===- CAPIRecords.cpp - Profiles and single records for C ----------------===//

#include "CAPI.h"
#include <algorithm>

using namespace binade;
using namespace binade::capi;

int binade_program_set_profiling(binade_program *program, int on) {
  return guard([&] {
    program->program.setProfiling(on != 0);
    return +ExitCode::Ok;
  });
}

int binade_program_write_trace(binade_program *program, const char *path) {
  return guard([&] {
    if (!path)
      return usage("null pointer");
    Profile profile = program->program.getProfile();
    profile.ceilings = program->program.measureCeilings();
    return finish(program->program.writeTrace(path, profile));
  });
}

static RecordRunner &getRunner(binade_program &program) {
  if (!program.runner)
    program.runner = program.program.createRecordRunner();
  return *program.runner;
}

/// Returns why a range of the arena is invalid; empty if it is valid.
static std::string explain(const binade_program &program, std::uint64_t offset,
                           const void *data, std::size_t bytes) {
  std::uint64_t all = program.program.getPlan().arenaBytes;
  if (!data && bytes > 0)
    return "null pointer";
  if (offset <= all && bytes <= all - offset)
    return "";
  return std::to_string(bytes) + " bytes at " + std::to_string(offset) +
         ", the arena has " + std::to_string(all);
}

int binade_program_read_arena(binade_program *program, uint64_t offset,
                              void *data, size_t bytes) {
  return guard([&] {
    if (std::string wrong = explain(*program, offset, data, bytes);
        !wrong.empty())
      return usage(std::move(wrong));
    return finish(getRunner(*program).read(
        offset, {static_cast<std::byte *>(data), bytes}));
  });
}

int binade_program_write_arena(binade_program *program, uint64_t offset,
                               const void *data, size_t bytes) {
  return guard([&] {
    if (std::string wrong = explain(*program, offset, data, bytes);
        !wrong.empty())
      return usage(std::move(wrong));
    return finish(getRunner(*program).write(
        offset, {static_cast<const std::byte *>(data), bytes}));
  });
}

static std::optional<RecordList> parseList(std::string_view text) {
  for (RecordList list : kRecordLists)
    if (name(list) == text)
      return list;
  return std::nullopt;
}

/// Whether `place` identifies a record that is not a loop.
static bool exists(const Plan &plan, const RecordPlace &place) {
  const std::vector<plan::Record> *records = &getRecords(plan, place.list);
  for (std::size_t depth = 0; depth < place.path.size(); ++depth) {
    if (place.path[depth] >= records->size())
      return false;
    auto *loop = std::get_if<plan::Loop>(&(*records)[place.path[depth]].body);
    bool isLast = depth + 1 == place.path.size();
    if (isLast || !loop)
      return isLast && !loop;
    if (place.iteration[depth] < 0 || place.iteration[depth] >= loop->count)
      return false;
    records = &loop->body;
  }
  return false;
}

int binade_program_run_record(binade_program *program, const char *list,
                              const size_t *path, size_t depth,
                              const int64_t *iteration) {
  return guard([&] {
    std::optional<RecordList> parsed = parseList(list ? list : "");
    if (!parsed)
      return usage("no record list is called " + quote(list ? list : ""));
    if (!path || depth == 0 || (depth > 1 && !iteration))
      return usage("null pointer");
    RecordPlace place;
    place.list = *parsed;
    place.path.assign(path, path + depth);
    place.iteration.assign(iteration, iteration + depth - 1);
    if (!exists(program->program.getPlan(), place))
      return usage("the plan has no such record");
    return finish(getRunner(*program).run(place));
  });
}
