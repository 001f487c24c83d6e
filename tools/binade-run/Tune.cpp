//===- Tune.cpp - Select the fastest GPU matmul algorithms ----------------===//

#include "Tune.h"
#include <filesystem>
#include <iostream>

using namespace binade;

void TuneCommand::add(CLI::App &app) {
  app.add_option("model", bundle,
                 "Bundle for a GPU, which 'binade compile --target' wrote")
      ->required()
      ->type_name("BUNDLE");
  app.add_option("-o,--output", out,
                 "Bundle to write: a copy of the input with the selected "
                 "algorithms; may be the input itself")
      ->required()
      ->type_name("BUNDLE");
  load.device = *DeviceChoice::parse("cuda");
  addDevice(app, load.device);
  addDiagnosticFormat(app, format);
  app.footer(
      "Times the library's algorithms for each matmul of a step on the device, "
      "and\n"
      "stores the fastest in the bundle. Runs on the same kind of device with "
      "the same\n"
      "library version use them; in all other runs the library chooses.\n"
      "Examples:\n"
      "  binade-run tune step.bnd -o tuned.bnd\n"
      "  binade-run tune step.bnd -o step.bnd --device cuda:1\n"
      "'binade-run help exit-codes' prints the exit codes.");
}

/// Rewrites the paths of external files, which are relative to the bundle
/// `from`, to be relative to the bundle `to`.
static void moveExternals(Plan &plan, const std::string &from,
                          const std::string &to) {
  namespace fs = std::filesystem;
  auto directory = [](const std::string &path) {
    return fs::absolute(path).parent_path();
  };
  if (directory(from) == directory(to))
    return;
  for (plan::Port &port : plan.ports)
    if (auto *external = std::get_if<plan::ExternalInit>(&port.init))
      external->file =
          (directory(from) / external->file).lexically_relative(directory(to));
}

Result<int> TuneCommand::run() {
  Result<Bundle> changed = readBundle(bundle);
  if (!changed)
    return changed.takeError();
  load.notify = [](std::string_view text) {
    std::cerr << "binade: " << text << "\n";
  };
  Result<Program> program = Program::load(bundle, load);
  if (!program)
    return program.takeError();
  if (Result<void> done = program->tune(); !done)
    return done.takeError();
  std::size_t count = program->recordAlgorithms(changed->plan);
  moveExternals(changed->plan, bundle, out);
  if (Result<void> done = writeBundle(out, *changed); !done)
    return done.takeError();
  std::cout << out << ": algorithms of " << count << " matmuls on "
            << program->getIsa() << "\n";
  return 0;
}
