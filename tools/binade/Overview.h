//===- Overview.h - The list of commands ------------------------*- C++ -*-===//

#ifndef BINADE_TOOLS_BINADE_OVERVIEW_H
#define BINADE_TOOLS_BINADE_OVERVIEW_H

#include <CLI/CLI.hpp>

/// Adds the commands that are programs of their own, `binade-NAME`, so that
/// help and suggestions know them; and gives `app` a help that lists all
/// commands in groups. Has to be called after all other commands were added.
void addPrograms(CLI::App &app);

/// Whether the command is a program of its own, which Binade installs.
bool isProgram(std::string_view name);

#endif // BINADE_TOOLS_BINADE_OVERVIEW_H
