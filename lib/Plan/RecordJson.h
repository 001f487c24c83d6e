//===- RecordJson.h - Plan records as JSON ----------------------*- C++ -*-===//

#ifndef BINADE_LIB_PLAN_RECORDJSON_H
#define BINADE_LIB_PLAN_RECORDJSON_H

#include "Fields.h"
#include "binade/Plan/Plan.h"

namespace binade::plan {

nlohmann::json writeRecords(const std::vector<Record> &records);

/// Reads the optional list `key`. Throws Error.
std::vector<Record> readRecords(Fields &fields, std::string_view key);

} // namespace binade::plan

#endif // BINADE_LIB_PLAN_RECORDJSON_H
