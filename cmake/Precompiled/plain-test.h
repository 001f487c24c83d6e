// What nearly every file of the unit tests of plain libraries includes.

#include "nlohmann/json.hpp"
#include "gtest/gtest.h"
