//===- Definition.cpp - A command line as data ----------------------------===//

#include "binade/CommandLine/Definition.h"
#include "OptionText.h"
#include <iostream>
#include <nlohmann/json.hpp>

using namespace binade;
using Json = nlohmann::ordered_json;

static Json describe(const CLI::Option &option) {
  OptionText text = describeOption(option);
  return {{"names", text.names},
          {"value", text.value},
          {"choices", text.choices},
          {"help", option.get_description()},
          {"group", option.get_group()},
          {"default", option.get_default_str()},
          {"required", option.get_required()},
          {"repeats", text.repeats}};
}

static Json describe(const CLI::App &app) {
  Json options = Json::array(), arguments = Json::array(),
       commands = Json::array();
  for (const CLI::Option *option : app.get_options())
    if (!option->get_group().empty() && option != app.get_help_ptr())
      (option->nonpositional() ? options : arguments)
          .push_back(describe(*option));
  for (const CLI::App *command : app.get_subcommands(nullptr))
    commands.push_back(describe(*command));
  return {{"name", app.get_name()},
          {"help", app.get_description()},
          {"footer", app.get_footer()},
          {"group", app.get_group()},
          {"is_program", app.get_prefix_command()},
          {"options", options},
          {"arguments", arguments},
          {"commands", commands}};
}

void binade::addDefinition(CLI::App &app) {
  auto print = [&app] {
    std::cout << describe(app).dump(1) << "\n";
    throw CLI::Success();
  };
  app.add_flag_callback("--print-definition", print)
      ->trigger_on_parse()
      ->group("");
}
