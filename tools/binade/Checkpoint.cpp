//===- Checkpoint.cpp - binade ckpt ---------------------------------------===//

#include "binade/Runtime/Checkpoint.h"
#include "Commands.h"
#include "Requantize.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/Report.h"
#include "binade/CommandLine/ResumeCommand.h"
#include "binade/Container/Numbers.h"
#include "binade/Runtime/ConvertCheckpoint.h"
#include "binade/Runtime/NonFiniteWeights.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include <filesystem>
#include <iostream>

using ::binade::DiagnosticFormat;
using ::binade::Error;
using ::binade::ExitCode;
using ::binade::formatBytes;
using ::binade::Manifest;
using ::binade::NonFiniteTensor;
using ::binade::printable;
using ::binade::readManifest;
using ::binade::Result;
using ::binade::Safetensors;
using ::binade::Shard;

namespace {
struct CheckpointCommand {
  std::string path, bundle, out;
  DiagnosticFormat format = DiagnosticFormat::Text;

  int fail(const Error &error) const {
    std::cerr << render(error, format) << "\n";
    return error.exitCode;
  }
  Result<std::vector<std::string>> find() const;
  int show() const;
  int verify() const;
  int convert() const;

private:
  int warnOfNonFinite(const std::string &path,
                      const std::vector<Safetensors> &shards) const;
};
} // namespace

/// Returns `path` if it is a checkpoint, else the checkpoints of the run in
/// that directory, oldest first.
Result<std::vector<std::string>> CheckpointCommand::find() const {
  std::error_code ignored;
  std::string trimmed =
      ::binade::findRunDirectory(llvm::StringRef(path).rtrim('/').str());
  if (std::filesystem::exists(trimmed + "/" + ::binade::kManifestName.data(),
                              ignored))
    return std::vector{trimmed};
  auto found = ::binade::listCheckpoints(trimmed);
  if (!found)
    return found.takeError();
  if (found->empty())
    return Error{printable(path),
                 "expected a checkpoint or a run that contains checkpoints"};
  std::vector<std::string> paths;
  for (const auto &[step, checkpoint] : *found)
    paths.push_back(checkpoint);
  return paths;
}

static Error makeVersionError(const std::string &path,
                              const Manifest &manifest) {
  return {printable(path), "is of format version " +
                               std::to_string(manifest.formatVersion) +
                               ", this program reads " +
                               std::to_string(::binade::kCheckpointVersion)};
}

static void print(llvm::StringRef key, llvm::StringRef value) {
  std::cout << llvm::formatv("  {0,-24} {1}\n", key, value).str();
}

static void print(const std::string &path, const Manifest &manifest) {
  std::cout << printable(path) << "\n";
  print("format version", std::to_string(manifest.formatVersion));
  print("step", std::to_string(manifest.step));
  print("skipped", std::to_string(manifest.skipped));
  print("skipped in a row", std::to_string(manifest.skippedInRow));
  if (const auto &lowest = manifest.evaluations.lowest)
    print("lowest eval_loss", ::binade::formatNumber(lowest->value) +
                                  " after step " +
                                  std::to_string(lowest->step));
  for (const auto *part : {&manifest.run, &manifest.machine})
    for (const auto &[key, value] : *part)
      print(::binade::describeProperty(key), printable(value));
  for (const Shard &shard : manifest.shards)
    print(printable(shard.file),
          formatBytes(shard.bytes) + ", " + printable(shard.sha256));
}

/// Prints the manifest of the newest checkpoint.
int CheckpointCommand::show() const {
  Result<std::vector<std::string>> paths = find();
  if (!paths)
    return fail(paths.error());
  const std::string &newest = paths->back();
  Result<Manifest> manifest = readManifest(newest);
  if (!manifest)
    return fail(manifest.error());
  if (manifest->formatVersion != ::binade::kCheckpointVersion)
    return fail(makeVersionError(newest, *manifest));
  print(newest, *manifest);
  return ExitCode::Ok;
}

/// Reports tensors that are not finite: training cannot continue from them.
int CheckpointCommand::warnOfNonFinite(
    const std::string &path, const std::vector<Safetensors> &shards) const {
  std::vector<NonFiniteTensor> all;
  for (const Safetensors &shard : shards) {
    Result<std::vector<NonFiniteTensor>> found = findNonFiniteState(shard);
    if (!found)
      return fail(found.error());
    all.insert(all.end(), found->begin(), found->end());
  }
  if (all.empty())
    return ExitCode::Ok;
  return fail(Error{printable(path), ::binade::describe(all, "tensor"),
                    ExitCode::NumericGuard});
}

int CheckpointCommand::verify() const {
  Result<std::vector<std::string>> paths = find();
  if (!paths)
    return fail(paths.error());
  int code = ExitCode::Ok;
  for (const std::string &path : *paths) {
    Result<Manifest> manifest = readManifest(path);
    if (manifest && manifest->formatVersion != ::binade::kCheckpointVersion)
      manifest = makeVersionError(path, *manifest);
    auto shards = manifest
                      ? openShards(path, *manifest)
                      : Result<std::vector<Safetensors>>(manifest.takeError());
    if (!shards) {
      code = fail(shards.error());
      continue;
    }
    std::size_t tensors = 0;
    std::uint64_t bytes = 0;
    for (const Safetensors &shard : *shards)
      tensors += shard.getTensors().size();
    for (const Shard &shard : manifest->shards)
      bytes += shard.bytes;
    std::cout << printable(path) << ": whole, step " << manifest->step << ", "
              << tensors << " tensors, " << formatBytes(bytes) << "\n";
    if (int found = warnOfNonFinite(path, *shards);
        found != ExitCode::Ok && code == ExitCode::Ok)
      code = found;
  }
  return code;
}

int CheckpointCommand::convert() const {
  auto converted = ::binade::convertCheckpoint(
      llvm::StringRef(path).rtrim('/').str(), bundle, out, requantize);
  if (!converted)
    return fail(converted.error());
  std::cout << printable(converted->to) << ": " << converted->tensors
            << " tensors of " << printable(converted->from) << ", policy "
            << printable(converted->policyFrom) << " -> "
            << printable(converted->policyTo) << "\n";
  if (converted->requantized)
    std::cout << "in another format: " << converted->requantized
              << " states, from or to quantized values\n";
  if (!converted->initial.empty())
    std::cout << "with their initial values: "
              << ::binade::joinPrintable(converted->initial) << "\n";
  if (!converted->unused.empty())
    std::cout << "left out: " << ::binade::joinPrintable(converted->unused)
              << "\n";
  return ExitCode::Ok;
}

void addCheckpoint(CLI::App &app, Run &run) {
  CLI::App *command =
      ::binade::addCommand(app, "ckpt", "Show, verify or convert checkpoints");
  command->require_subcommand(1);
  command->footer("Examples:\n"
                  "  binade ckpt show run\n"
                  "  binade ckpt verify run\n"
                  "  binade ckpt verify run/checkpoints/step-000100\n"
                  "  binade ckpt convert run --to bf16.bnd -o run-bf16\n"
                  "  binade compile model.onnx --states dyn8 -o dyn8.bnd\n"
                  "  binade ckpt convert run --to dyn8.bnd -o run-dyn8");
  auto add = [&](const char *name, const char *help,
                 int (CheckpointCommand::*action)() const) {
    CLI::App *part = ::binade::addCommand(*command, name, help);
    auto self = std::make_shared<CheckpointCommand>();
    part->add_option("path", self->path,
                     "Directory of a run or of one checkpoint")
        ->required()
        ->type_name("RUN");
    ::binade::addDiagnosticFormat(*part, self->format);
    part->callback([&run, self, action] {
      run = [self, action] { return ((*self).*action)(); };
    });
    return std::pair(part, self);
  };
  add("show",
      "Print the manifest of a checkpoint: its step, files and hashes; of a "
      "run, the newest checkpoint's",
      &CheckpointCommand::show);
  add("verify",
      "Check that the files of a checkpoint, or of all checkpoints of a run, "
      "have the hashes in its manifest",
      &CheckpointCommand::verify);
  auto [part, self] = add("convert",
                          "Convert a checkpoint to the formats of another "
                          "bundle, so that a run can continue under another "
                          "policy or with other formats of optimizer states",
                          &CheckpointCommand::convert);
  part->add_option("--to", self->bundle,
                   "Bundle of the same model and optimizer, whose formats the "
                   "new checkpoint gets")
      ->required()
      ->type_name("STEP.bnd");
  part->add_option("-o,--out", self->out,
                   "Directory to write the new run to, which 'binade train "
                   "--resume' continues")
      ->required()
      ->type_name("RUN");
}
