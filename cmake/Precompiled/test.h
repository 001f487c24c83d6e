// What nearly every file of the unit tests includes.

#include "binade/IR/Build.h"
#include "binade/IR/Interface.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "nlohmann/json.hpp"
#include "gtest/gtest.h"
