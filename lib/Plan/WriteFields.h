//===- WriteFields.h - Optional fields of a plan's JSON ---------*- C++ -*-===//
// A field that has its default is not written.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_PLAN_WRITEFIELDS_H
#define BINADE_LIB_PLAN_WRITEFIELDS_H

#include <nlohmann/json.hpp>
#include <string>

namespace binade::plan {

inline void writeFlag(nlohmann::json &object, const char *key, bool value) {
  if (value)
    object[key] = true;
}

inline void writeText(nlohmann::json &object, const char *key,
                      const std::string &text) {
  if (!text.empty())
    object[key] = text;
}

} // namespace binade::plan

#endif // BINADE_LIB_PLAN_WRITEFIELDS_H
