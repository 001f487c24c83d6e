// What nearly every file of a tool includes.

#include "binade/IR/Diagnostics.h"
#include "binade/IR/Interface.h"
#include "binade/Pipelines/Pipelines.h"
#include <CLI/CLI.hpp>
#include <iostream>
