//===- LoadPolicy.cpp - Policies from files, and what they extend ---------===//

#include "PolicyForm.h"
#include "binade/Container/Suggest.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include <string_view>

namespace mlir::binade {
using DataFiles = std::vector<std::pair<std::string_view, std::string_view>>;
const DataFiles &getPolicyFiles();
const DataFiles &getCostFiles();

static constexpr StringLiteral kSuffix = ".yaml";
static constexpr size_t kLargestFile = 8 << 20;

static std::vector<StringRef> getNames(const DataFiles &files) {
  std::vector<StringRef> names;
  for (auto [file, text] : files)
    names.push_back(StringRef(file).drop_back(kSuffix.size()));
  llvm::sort(names);
  return names;
}

std::vector<StringRef> getPolicyNames() { return getNames(getPolicyFiles()); }
std::vector<StringRef> getCostNames() { return getNames(getCostFiles()); }

//===----------------------------------------------------------------------===//
// One file
//===----------------------------------------------------------------------===//

namespace {
struct PolicyFile {
  /// As diagnostics and rules name it.
  std::string file;
  std::string text;
  /// Whether a user wrote it; the others are shipped.
  bool isUser;
};
} // namespace

/// A kind of files: what one is called, and the shipped ones.
struct FileKind {
  StringRef name;
  const DataFiles &shipped;
};

/// The file of `kind` called `name`, or the file `name`, which is looked for in
/// `folder`. Errors are reported at `location`.
static FailureOr<PolicyFile> findFile(FileKind kind, StringRef name,
                                      StringRef folder, Location location) {
  if (!name.ends_with(kSuffix)) {
    for (auto [file, text] : kind.shipped)
      if (StringRef(file).drop_back(kSuffix.size()) == name)
        return PolicyFile{std::string(file), std::string(text), false};
    std::vector<StringRef> shipped = getNames(kind.shipped);
    std::vector<std::string> names(shipped.begin(), shipped.end());
    return emitError(location)
           << "unknown " << kind.name << " '" << name << "'; expected one of "
           << llvm::join(names, ", ") << ", or a file ending in " << kSuffix
           << ::binade::suggest(name.str(), names);
  }
  SmallString<128> path(name);
  if (!folder.empty() && llvm::sys::path::is_relative(name)) {
    path = folder;
    llvm::sys::path::append(path, name);
  }
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return emitError(location) << "cannot read " << kind.name << " file '"
                               << path << "': " << buffer.getError().message();
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > kLargestFile)
    return emitError(FileLineColLoc::get(location->getContext(), path, 1, 1))
           << "a " << kind.name << " of " << text.size() << " bytes; at most "
           << kLargestFile << " are read";
  return PolicyFile{path.str().str(), text.str(), true};
}

static FileKind policies() { return {"policy", getPolicyFiles()}; }

/// Reads one file by `form`; `what` names its contents.
template <typename T>
static FailureOr<T> parseFile(const PolicyFile &file, StringRef what,
                              const YamlForm<T> &form, MLIRContext *context) {
  YamlReader reader(file.text, file.file, context);
  if (reader.hasFailed())
    return failure();
  if (!reader.getRoot())
    return emitError(FileLineColLoc::get(context, file.file, 1, 1))
           << "expected " << what << ", found nothing";
  T value;
  if (failed(form.read(reader, *reader.getRoot(), value)) ||
      reader.hasFailed() || failed(reader.finish()))
    return failure();
  return value;
}

/// What one file says by itself.
static FailureOr<Policy> parsePolicy(const PolicyFile &file,
                                     MLIRContext *context) {
  FailureOr<Policy> policy =
      parseFile(file, "a policy", getPolicyForm(), context);
  if (failed(policy))
    return failure();
  for (PolicyRule &rule : policy->rules)
    rule.isUser = file.isUser;
  return policy;
}

/// Takes the costs from their text.
static LogicalResult completeCut(Policy &policy, const PolicyFile &costs,
                                 MLIRContext *context) {
  FailureOr<TargetCosts> target =
      parseFile(costs, "costs", getCostsForm(), context);
  if (failed(target))
    return failure();
  policy.cut->target = std::move(*target);
  return success();
}

//===----------------------------------------------------------------------===//
// A policy and those that it extends
//===----------------------------------------------------------------------===//

/// What `change` says, on top of `base`.
static Policy extend(const Policy &base, Policy change) {
  if (!change.narrow)
    change.narrow = base.narrow;
  if (!change.wide)
    change.wide = base.wide;
  if (!change.propagate)
    change.propagate = base.propagate;
  if (!change.lossScaling)
    change.lossScaling = base.lossScaling;
  if (!change.cut)
    change.cut = base.cut;
  if (!change.limits)
    change.limits = base.limits;
  change.rules.insert(change.rules.begin(), base.rules.begin(),
                      base.rules.end());
  return change;
}

/// Checks that nothing is missing; `start` is the beginning of its file.
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
  if (policy.cut)
    for (FloatType format : getFormatChoices(policy))
      if (!policy.cut->target.find(format))
        return emitError(policy.cut->location)
               << "costs of '" << policy.cut->target.target
               << "' do not know format " << format;
  return success();
}

/// `source` of a policy whose file has `text`.
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

/// `readers` are the files that led here, each extending the next.
static FailureOr<Policy> load(const PolicyFile &file, MLIRContext *context,
                              SmallVectorImpl<std::string> &readers) {
  FailureOr<Policy> policy = parsePolicy(file, context);
  if (failed(policy))
    return failure();
  PolicyAttr base;
  if (!policy->extends.empty()) {
    readers.push_back(file.file);
    FailureOr<PolicyFile> found = findFile(
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
    FailureOr<PolicyFile> found = findFile(
        {"costs", getCostFiles()}, policy->cut->costs,
        llvm::sys::path::parent_path(file.file), policy->cut->location);
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

FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context) {
  FailureOr<PolicyFile> file =
      findFile(policies(), name, /*folder=*/"", UnknownLoc::get(context));
  if (failed(file))
    return failure();
  // A pass has loaded it before, which may not do so itself.
  context->getOrLoadDialect<BinadeDialect>();
  SmallVector<std::string> readers;
  return load(*file, context, readers);
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
