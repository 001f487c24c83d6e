//===- TraceReport.cpp - A traced step as JSON ----------------------------===//

#include "TraceReport.h"

using namespace mlir::binade;
namespace json = llvm::json;

static json::Value number(double x) {
  return std::isfinite(x) ? json::Value(x) : json::Value(nullptr);
}

/// Whether no element of the range is finite, so that it has no magnitudes and
/// no errors.
static bool isAllNonFinite(const TracedRange &range) {
  return range.wrong + range.minusInfinite == range.elements;
}

/// Returns `error / signal`, or null if the ratio is not finite or no element
/// of the result is.
static json::Value relate(double error, double signal,
                          const TracedRange &range) {
  if (isAllNonFinite(range))
    return nullptr;
  return error == 0.0 ? json::Value(0.0) : number(error / signal);
}

/// Returns a magnitude of the range, or null if no element is finite.
static json::Value magnitude(double x, const TracedRange &range) {
  return isAllNonFinite(range) ? json::Value(nullptr) : json::Value(x);
}

static json::Value text(const std::string &words) {
  return json::fixUTF8(words);
}

static json::Object toJson(const TracedValue &value) {
  const TracedRange &range = value.range;
  return json::Object{{"kind", value.kind},
                      {"node", text(value.node)},
                      {"phase", stringifyPhase(value.phase)},
                      {"format", value.format},
                      {"limit", value.limit},
                      {"decision", value.decision},
                      {"rule", text(value.rule)},
                      {"sums", value.sums},
                      {"elements", range.elements},
                      {"zeros", range.zeros},
                      {"nonfinite", range.wrong + range.minusInfinite},
                      {"smallest", magnitude(range.smallest, range)},
                      {"largest", magnitude(range.largest, range)}};
}

static json::Array toJson(const std::vector<TracedValue> &values) {
  json::Array array;
  for (const TracedValue &value : values)
    array.push_back(toJson(value));
  return array;
}

static json::Object toJson(const TracedError &error) {
  json::Object object = toJson(error.value);
  const TracedRange &range = error.value.range;
  object["result"] = error.result;
  object["signal"] = error.signal;
  object["error"] = relate(error.error, error.signal, range);
  object["introduced"] = relate(error.introduced, error.local, range);
  object["inherited"] = relate(error.inherited, error.signal, range);
  object["sqnr"] = number(20.0 * std::log10(error.signal / error.error));
  object["underflow"] = error.underflow;
  object["overflow"] = error.overflow;
  object["vanished"] = error.vanished;
  return object;
}

json::Object toJson(const StepTrace &trace) {
  json::Object object{{"loss", number(trace.loss)}, {"origin", nullptr}};
  if (const auto &origin = trace.origin) {
    json::Object found = toJson(origin->value);
    found["exact"] = number(origin->exact);
    found["operands"] = toJson(origin->operands);
    found["producers"] = toJson(origin->producers);
    found["readers"] = toJson(origin->readers);
    object["origin"] = std::move(found);
  }
  if (!trace.exactLoss)
    return object;
  object["exact_loss"] = number(*trace.exactLoss);
  object["unmatched"] = trace.unmatched;
  json::Array errors;
  for (const TracedError &error : trace.errors)
    errors.push_back(toJson(error));
  object["errors"] = std::move(errors);
  return object;
}
