//===- LoadPolicy.cpp - Policies from files -------------------------------===//

#include "PolicySchema.h"
#include "binade/Config/DataFiles.h"
#include "binade/Container/Suggest.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

namespace mlir::binade {
const DataFiles &getPolicyFiles();
const DataFiles &getCostFiles();

std::vector<StringRef> getPolicyNames() { return getNames(getPolicyFiles()); }
std::vector<StringRef> getCostNames() {
  std::vector<StringRef> names = getNames(getCostFiles());
  llvm::append_range(names, GpuCosts::getNames());
  return names;
}

static FileKind policies() { return {"policy", getPolicyFiles()}; }

/// Parses one file, without the policy that it extends.
static FailureOr<Policy> parsePolicy(const DataFile &file,
                                     MLIRContext *context) {
  FailureOr<Policy> policy =
      parseFile(file, "a policy", getPolicyFileSchema(), context);
  if (failed(policy))
    return failure();
  for (PolicyRule &rule : policy->rules)
    rule.isUser = file.isUser;
  return policy;
}

/// Finds the costs of a target: shipped ones, among which GPUs count, or a
/// file, which must be in `folder` if there is one.
static FailureOr<DataFile>
findCosts(StringRef costs, std::optional<StringRef> folder, Location location) {
  MLIRContext *context = location.getContext();
  DataFiles known = getCostFiles();
  std::vector<StringRef> chips = GpuCosts::getNames();
  std::vector<std::string> names, texts;
  for (StringRef chip : chips) {
    names.push_back((chip + kDataSuffix).str());
    texts.push_back(writeCosts(
        TargetCosts::ofChip(chip, *GpuCosts::find(chip, context), context)));
  }
  for (auto [name, text] : llvm::zip(names, texts))
    known.emplace_back(name, text);
  return findFile({"costs", known}, costs, folder, location);
}

/// Parses the costs of a target from their text.
static FailureOr<TargetCosts> parseCosts(const DataFile &file,
                                         MLIRContext *context) {
  FailureOr<TargetCosts> costs =
      parseFile(file, "costs", getCostsFileSchema(), context);
  if (failed(costs) || costs->chip.empty())
    return costs;
  costs->gpu = GpuCosts::find(costs->chip, context);
  if (costs->gpu)
    return costs;
  std::vector<StringRef> known = GpuCosts::getNames();
  std::vector<std::string> names(known.begin(), known.end());
  return emitError(FileLineColLoc::get(context, file.file, 1, 1))
         << "unknown chip '" << costs->chip << "'"
         << ::binade::suggestOrList(costs->chip, names);
}

FailureOr<TargetCosts> loadCosts(StringRef name, MLIRContext *context) {
  FailureOr<DataFile> file =
      findCosts(name, std::nullopt, UnknownLoc::get(context));
  if (failed(file))
    return failure();
  return parseCosts(*file, context);
}

/// Parses the costs of the cut from their text.
static LogicalResult completeCut(Policy &policy, const DataFile &file,
                                 MLIRContext *context) {
  FailureOr<TargetCosts> target = parseCosts(file, context);
  if (failed(target))
    return failure();
  policy.cut->target = std::move(*target);
  return success();
}

//===----------------------------------------------------------------------===//
// A policy and those that it extends
//===----------------------------------------------------------------------===//

/// Returns the settings of `change`, completed by those of `base`.
static Policy extend(const Policy &base, Policy change) {
  auto inherit = [&](auto member) {
    if (!(change.*member))
      change.*member = base.*member;
  };
  inherit(&Policy::narrow);
  inherit(&Policy::wide);
  inherit(&Policy::propagate);
  inherit(&Policy::biases);
  inherit(&Policy::lossScaling);
  inherit(&Policy::cut);
  inherit(&Policy::limits);
  inherit(&Policy::amaxHalfLife);
  inherit(&Policy::exchange);
  inherit(&Policy::schedule);
  change.rules.insert(change.rules.begin(), base.rules.begin(),
                      base.rules.end());
  change.statistics.insert(change.statistics.begin(), base.statistics.begin(),
                           base.statistics.end());
  change.alarms.extend(base.alarms);
  return change;
}

/// Resolves the file names in `alarms`, relative to `folder`: reads the files
/// of alarm rules, and finds the policy to switch to. A module can then store
/// the alarms without the folder. They do not affect the policy's hash, because
/// they do not change any result.
static LogicalResult completeAlarms(AlarmRequests &alarms, StringRef folder) {
  static const DataFiles none;
  for (AlarmRequest &word : alarms.rules) {
    if (!StringRef(word.text).ends_with(kDataSuffix))
      continue;
    FailureOr<DataFile> found =
        findFile({"alarms", none}, word.text, folder, word.location);
    if (failed(found))
      return failure();
    word.text = found->file;
    word.contents = found->text;
  }
  if (!alarms.action)
    return success();
  StringRef other = alarms.action->text;
  if (!other.consume_front(kSwitchWord))
    return success();
  FailureOr<DataFile> found =
      findFile(policies(), other, folder, alarms.action->location);
  if (failed(found))
    return failure();
  if (found->isUser)
    alarms.action->text = (kSwitchWord + found->file).str();
  return success();
}

/// Checks that required keys exist and fit; `start` is the beginning of the
/// file.
static LogicalResult checkPolicy(const Policy &policy, Location start) {
  for (auto [key, present] : {std::pair("name", !policy.name.empty()),
                              std::pair("narrow", bool(policy.narrow)),
                              std::pair("wide", bool(policy.wide))})
    if (!present)
      return emitError(start) << "policy has no '" << key << "'";
  FloatType narrow = policy.narrow, wide = policy.wide;
  if (narrow.getFPMantissaWidth() > wide.getFPMantissaWidth())
    return emitError(start) << "narrow format " << policy.narrow
                            << " is wider than " << policy.wide;
  if (policy.lossScaling)
    for (const PolicyRule &rule : policy.rules)
      if (rule.settings.unitScale)
        return emitError(rule.location)
               << "unit_scale replaces loss scaling, but the policy "
               << (policy.extends.empty() ? "has" : "has or inherits")
               << " 'loss_scale'; extend a policy without it";
  if (policy.cut)
    for (FloatType format : getFormatChoices(policy))
      if (!policy.cut->target.find(format))
        return emitError(policy.cut->location)
               << "costs of '" << policy.cut->target.target
               << "' have no rates for format " << format;
  return success();
}

/// Returns the `source` of a policy whose file contains `text`.
static PolicyAttr buildSource(MLIRContext *context, StringRef name,
                              StringRef text, StringAttr costs,
                              PolicyAttr base) {
  std::string hashed = text.str();
  if (costs)
    hashed += costs.getValue();
  if (base)
    hashed += base.getHash().getValue();
  std::string hash = llvm::toHex(
      llvm::SHA256::hash(llvm::arrayRefFromStringRef(hashed)), true);
  return PolicyAttr::get(context, StringAttr::get(context, name),
                         StringAttr::get(context, hash),
                         StringAttr::get(context, text), costs, base);
}

/// Finds the policies of the schedule, relative to `folder`, and replaces names
/// of users' files by paths.
static LogicalResult completeSchedule(Policy &policy, StringRef folder) {
  for (PolicySwitch &later : *policy.schedule) {
    FailureOr<DataFile> found =
        findFile(policies(), later.policy, folder, later.location);
    if (failed(found))
      return failure();
    if (found->isUser)
      later.policy = found->file;
  }
  return success();
}

/// `readers` are the files that are being loaded, each extending the next.
static FailureOr<Policy> load(const DataFile &file, MLIRContext *context,
                              SmallVectorImpl<std::string> &readers) {
  FailureOr<Policy> policy = parsePolicy(file, context);
  if (failed(policy))
    return failure();
  if (failed(completeAlarms(policy->alarms,
                            llvm::sys::path::parent_path(file.file))))
    return failure();
  if (policy->schedule &&
      failed(
          completeSchedule(*policy, llvm::sys::path::parent_path(file.file))))
    return failure();
  PolicyAttr base;
  if (!policy->extends.empty()) {
    readers.push_back(file.file);
    FailureOr<DataFile> found = findFile(
        policies(), policy->extends, llvm::sys::path::parent_path(file.file),
        policy->extendsLocation);
    if (failed(found))
      return failure();
    if (llvm::is_contained(readers, found->file))
      return emitError(policy->extendsLocation)
             << "policy extends itself: " << llvm::join(readers, " extends ")
             << " extends " << found->file;
    FailureOr<Policy> extended = load(*found, context, readers);
    if (failed(extended))
      return failure();
    base = extended->source;
    policy = extend(*extended, std::move(*policy));
  }
  StringAttr costs;
  if (policy->cut && policy->cut->target.formats.empty()) {
    FailureOr<DataFile> found =
        findCosts(policy->cut->costs, llvm::sys::path::parent_path(file.file),
                  policy->cut->location);
    if (failed(found) || failed(completeCut(*policy, *found, context)))
      return failure();
    costs = StringAttr::get(context, found->text);
  }
  if (failed(
          checkPolicy(*policy, FileLineColLoc::get(context, file.file, 1, 1))))
    return failure();
  policy->source = buildSource(context, policy->name, file.text, costs, base);
  return policy;
}

/// Loads the policies of the schedule. They may have no schedule, and no switch
/// after an alarm, of their own.
static LogicalResult checkSchedule(const Policy &policy, MLIRContext *context) {
  if (!policy.schedule)
    return success();
  auto switches = [](const Policy &one) {
    return one.alarms.action &&
           StringRef(one.alarms.action->text).starts_with(kSwitchWord);
  };
  if (!policy.schedule->empty() && switches(policy))
    return emitError(policy.alarms.action->location)
           << "a policy with a schedule cannot also switch after an alarm";
  for (const PolicySwitch &later : *policy.schedule) {
    FailureOr<DataFile> file =
        findFile(policies(), later.policy,
                 /*folder=*/std::nullopt, later.location);
    SmallVector<std::string> readers;
    FailureOr<Policy> next =
        failed(file) ? FailureOr<Policy>() : load(*file, context, readers);
    if (failed(next))
      return failure();
    if (next->schedule && !next->schedule->empty())
      return emitError(later.location)
             << "policy '" << later.policy << "' has a schedule of its own";
    if (switches(*next))
      return emitError(later.location)
             << "policy '" << later.policy
             << "' switches to another policy after an alarm";
  }
  return success();
}

FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context) {
  FailureOr<DataFile> file = findFile(policies(), name, /*folder=*/std::nullopt,
                                      UnknownLoc::get(context));
  if (failed(file))
    return failure();
  // A pass has loaded the dialect already, and must not load one itself.
  context->getOrLoadDialect<BinadeDialect>();
  SmallVector<std::string> readers;
  FailureOr<Policy> policy = load(*file, context, readers);
  if (failed(policy) || failed(checkSchedule(*policy, context)))
    return failure();
  return policy;
}

llvm::Expected<NameGlob> buildGlob(StringRef text, MLIRContext *context) {
  // Braces such as {a,b} expand to the nodes of a layer or of a whole model.
  constexpr size_t maxNames = 1 << 14;
  auto pattern = llvm::GlobPattern::create(
      StringAttr::get(context, text).getValue(), maxNames);
  if (!pattern)
    return llvm::createStringError(
        "'" + text + "' is not a glob: " + llvm::toString(pattern.takeError()));
  return NameGlob{text.str(), std::move(*pattern)};
}

LogicalResult addStateFormats(Policy &policy, ArrayRef<std::string> states,
                              MLIRContext *context) {
  Location location = UnknownLoc::get(context);
  for (StringRef text : states) {
    StateOverride added;
    auto [glob, name] = splitStates(text);
    if (!glob.empty()) {
      llvm::Expected<NameGlob> built = buildGlob(glob, context);
      if (!built)
        return emitError(location)
               << "states: " << llvm::toString(built.takeError());
      added.name = std::move(*built);
    }
    FailureOr<StateFormats> formats = findStateFormats(name, location);
    if (failed(formats))
      return failure();
    added.formats = *formats;
    policy.states.push_back(std::move(added));
  }
  return success();
}

LogicalResult addEvidence(Policy &policy, StringRef file,
                          MLIRContext *context) {
  if (file.empty())
    return success();
  FailureOr<Evidence> evidence = readEvidence(file, context);
  if (failed(evidence))
    return failure();
  policy.evidence = std::make_shared<Evidence>(std::move(*evidence));
  return success();
}

FailureOr<Policy> readPolicy(PolicyAttr source) {
  MLIRContext *context = source.getContext();
  std::string name = source.getName().str();
  FailureOr<Policy> policy =
      parsePolicy({name, source.getText().str(), /*isUser=*/false}, context);
  if (failed(policy))
    return failure();
  if (PolicyAttr base = source.getExtends()) {
    FailureOr<Policy> extended = readPolicy(base);
    if (failed(extended))
      return failure();
    policy = extend(*extended, std::move(*policy));
  }
  if (StringAttr costs = source.getCosts())
    if (failed(completeCut(*policy,
                           {"costs of " + name, costs.getValue().str(), false},
                           context)))
      return failure();
  if (failed(checkPolicy(*policy, FileLineColLoc::get(context, name, 1, 1))))
    return failure();
  policy->source = source;
  return policy;
}

} // namespace mlir::binade
