//===- binade-interpret.cpp - run a function on given tensors -------------===//

#include "Interpret.h"
#include "binade/CommandLine/CommandLine.h"
#include "binade/CommandLine/CrashReport.h"
#include "binade/CommandLine/Definition.h"
#include "binade/CommandLine/HelpText.h"
#include "binade/CommandLine/Version.h"
#include "llvm/Config/llvm-config.h"
#include <iostream>

using namespace binade;

int main(int argc, char **argv) {
  reportCrashes("binade-interpret", argc, argv);
  InterpretOptions options;
  DiagnosticFormat format = DiagnosticFormat::Text;
  CLI::App app("Runs a function of a module on given tensors.",
               "binade interpret");
  addVersion(app, "LLVM " LLVM_VERSION_STRING "\n");
  addDefinition(app);
  setHelpFormat(app);
  app.footer(
      "Examples:\n"
      "  binade interpret module.mlir --inputs x.safetensors\n"
      "  binade interpret module.mlir --function f --inputs x.safetensors "
      "--backend cpu \\\n"
      "      --check --out y.safetensors\n"
      "'binade evaluate' computes the loss and metrics of a run on data.");
  app.add_option("module", options.module, "Module of binade ops (.mlir)")
      ->required();
  app.add_option("--function", options.function,
                 "Function to run; required if the module has more than one "
                 "public function")
      ->type_name("NAME");
  app.add_option("--inputs", options.inputs,
                 "safetensors file of arguments, by the name in the attribute "
                 "binade.name, or else arg0, arg1, ...; other arguments get "
                 "the value of their attribute binade.init")
      ->type_name("FILE.safetensors");
  app.add_option("--out", options.out,
                 "safetensors file to write results to, by the name in the "
                 "attribute binade.name, or else result0, result1, ...; "
                 "without this option they are printed")
      ->type_name("FILE.safetensors");
  app.add_option("--backend", options.backend,
                 "What computes the results: the reference interpreter "
                 "(default), compiled CPU code, or a simulator that runs GPU "
                 "kernels thread by thread")
      ->check(oneOf({"reference", "cpu", "simulator"}));
  app.add_option("--results", options.results,
                 "safetensors file of results to print or check, instead of "
                 "computing them")
      ->type_name("FILE.safetensors");
  app.add_option("--bounds", options.bounds,
                 "safetensors file to write to: the largest allowed difference "
                 "between each result and the reference's")
      ->type_name("FILE.safetensors");
  app.add_flag("--check", options.check,
               "Compare the results with the reference interpreter's; the exit "
               "code is 1 if one differs by more than its bound");
  addDiagnosticFormat(app, format);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : reportUsage(app, error, argc, argv);
  }
  auto fail = [&](const Error &error) {
    std::cerr << render(error, format) << "\n";
    return error.exitCode;
  };
  return runCommand("binade-interpret", format, [&] {
    try {
      Result<int> code = interpret(options);
      return code ? *code : fail(code.error());
    } catch (const std::bad_alloc &) {
      return fail({options.module, "not enough memory to evaluate it",
                   ExitCode::Resources});
    } catch (const std::length_error &) {
      return fail({options.module, "a tensor is too large to be evaluated",
                   ExitCode::Resources});
    }
  });
}
