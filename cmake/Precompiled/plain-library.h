// What many files of the libraries without MLIR include.

#include "nlohmann/json.hpp"
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>
