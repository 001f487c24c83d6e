//===- ParseRequests.cpp - Parsing of requests for statistics -------------===//

#include "binade/Container/Printable.h"
#include "binade/Container/Suggest.h"
#include "binade/Monitor/Requests.h"
#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::binade;
using ::binade::Error;
using ::binade::Result;

static bool isOnlyNamed(WatchedKind kind) {
  return getWatchedKinds()[static_cast<size_t>(kind)].isOnlyNamed;
}

bool StatisticsRequest::matches(WatchedKind kind, StringRef layer,
                                bool isRepeated) const {
  return llvm::any_of(filters, [&](const Filter &filter) {
    bool isNamed =
        filter.kind ? *filter.kind == kind : !isOnlyNamed(kind) && !isRepeated;
    return isNamed && (!filter.name || filter.name->match(layer));
  });
}

static Error fail(StringRef where, const std::string &what) {
  return Error{where.str(), what, ::binade::ExitCode::Usage}.withNote(
      "a request is KIND[/GLOB],...:STATISTIC[(FORMAT)],..."
      "[@every=N]; 'binade list stats' explains kinds and "
      "statistics");
}

/// Returns the entry of `known` called `name`, or an error.
template <typename Info>
static Result<const Info *> find(ArrayRef<Info> known, StringRef what,
                                 StringRef name, StringRef where) {
  std::vector<std::string> names;
  for (const Info &info : known) {
    if (info.name == name)
      return &info;
    names.push_back(info.name.str());
  }
  return fail(where, "no " + what.str() + " is called " +
                         ::binade::quote(name.str()) +
                         ::binade::suggest(name.str(), names));
}

static Result<StatisticsRequest::Filter> parseFilter(StringRef one,
                                                     StringRef where) {
  StatisticsRequest::Filter filter;
  auto [kind, glob] = one.split('/');
  if (kind != "*") {
    auto found = find(getWatchedKinds(), "kind of values", kind, where);
    if (!found)
      return found.takeError();
    filter.kind = (*found)->kind;
  }
  if (one.contains('/')) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(glob);
    if (!pattern)
      return fail(where, ::binade::quote(glob.str()) + " is not a glob: " +
                             llvm::toString(pattern.takeError()));
    filter.name = *std::move(pattern);
  }
  return filter;
}

static Result<StatisticsRequest::Wanted>
parseStatistic(StringRef one, StringRef where, MLIRContext &context) {
  auto [name, format] = one.split('(');
  auto found = find(getStatistics(), "statistic", name, where);
  if (!found)
    return found.takeError();
  StatisticsRequest::Wanted wanted{*found, {}, one.str()};
  if (!one.contains('('))
    return wanted;
  if (!(*found)->hasFormat)
    return fail(where, ::binade::quote(name.str()) + " takes no format");
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) {});
  if (format.consume_back(")"))
    wanted.format = dyn_cast_or_null<FloatType>(parseType(format, &context));
  if (!wanted.format)
    return fail(where, "expected a format such as f16, bf16 or f8E4M3FN in "
                       "parentheses, got " +
                           ::binade::quote(one.str()));
  return wanted;
}

Result<StatisticsRequest>
mlir::binade::parseStatisticsRequest(StringRef text, MLIRContext &context,
                                     StringRef origin) {
  StatisticsRequest request;
  request.where = origin.str() + " " + ::binade::quote(text.str());
  // The character separates requests in a text with several of them.
  if (text.contains(';'))
    return fail(request.where, "a request must not contain ';'");
  auto [asked, every] = text.split('@');
  if (text.contains('@') &&
      (!every.consume_front("every=") ||
       every.getAsInteger(10, request.every) || request.every < 1))
    return fail(request.where, "expected @every=N with N of at least 1");
  auto [filters, statistics] = asked.rsplit(':');
  if (!asked.contains(':') || filters.empty() || statistics.empty())
    return fail(request.where, "expected kinds of values, ':' and statistics");
  for (StringRef one : llvm::split(filters, ',')) {
    auto filter = parseFilter(one, request.where);
    if (!filter)
      return filter.takeError();
    request.filters.push_back(*std::move(filter));
  }
  for (StringRef one : llvm::split(statistics, ',')) {
    auto wanted = parseStatistic(one, request.where, context);
    if (!wanted)
      return wanted.takeError();
    request.statistics.push_back(*std::move(wanted));
  }
  return request;
}
