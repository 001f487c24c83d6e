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

static constexpr StringLiteral kSuffix = ".yaml";
static constexpr size_t kLargestFile = 8 << 20;

std::vector<StringRef> getPolicyNames() {
  std::vector<StringRef> names;
  for (auto [file, text] : getPolicyFiles())
    names.push_back(StringRef(file).drop_back(kSuffix.size()));
  llvm::sort(names);
  return names;
}

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

/// The policy called `name`, or in the file `name`, which is looked for in
/// `folder`. Errors are reported at `location`.
static FailureOr<PolicyFile> findPolicy(StringRef name, StringRef folder,
                                        Location location) {
  if (!name.ends_with(kSuffix)) {
    for (auto [file, text] : getPolicyFiles())
      if (StringRef(file).drop_back(kSuffix.size()) == name)
        return PolicyFile{std::string(file), std::string(text), false};
    std::vector<std::string> names;
    for (StringRef shipped : getPolicyNames())
      names.push_back(shipped.str());
    return emitError(location)
           << "unknown policy '" << name << "'; expected one of "
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
    return emitError(location) << "cannot read policy file '" << path
                               << "': " << buffer.getError().message();
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > kLargestFile)
    return emitError(FileLineColLoc::get(location->getContext(), path, 1, 1))
           << "a policy of " << text.size() << " bytes; at most "
           << kLargestFile << " are read";
  return PolicyFile{path.str().str(), text.str(), true};
}

/// What one file says by itself.
static FailureOr<Policy> parsePolicy(const PolicyFile &file,
                                     MLIRContext *context) {
  YamlReader reader(file.text, file.file, context);
  if (reader.hasFailed())
    return failure();
  if (!reader.getRoot())
    return emitError(FileLineColLoc::get(context, file.file, 1, 1))
           << "expected a policy, found nothing";
  Policy policy;
  if (failed(getPolicyForm().read(reader, *reader.getRoot(), policy)) ||
      reader.hasFailed())
    return failure();
  for (PolicyRule &rule : policy.rules)
    rule.isUser = file.isUser;
  return policy;
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
  return success();
}

/// `source` of a policy whose file has `text`.
static PolicyAttr buildSource(MLIRContext *context, StringRef name,
                              StringRef text, PolicyAttr base) {
  std::string hashed = text.str();
  if (base)
    hashed += base.getHash().getValue();
  std::string hash = llvm::toHex(
      llvm::SHA256::hash(llvm::arrayRefFromStringRef(hashed)), true);
  return PolicyAttr::get(context, StringAttr::get(context, name),
                         StringAttr::get(context, hash),
                         StringAttr::get(context, text), base);
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
    FailureOr<PolicyFile> found =
        findPolicy(policy->extends, llvm::sys::path::parent_path(file.file),
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
  if (failed(
          checkPolicy(*policy, FileLineColLoc::get(context, file.file, 1, 1))))
    return failure();
  policy->source = buildSource(context, policy->name, file.text, base);
  return policy;
}

FailureOr<Policy> loadPolicy(StringRef name, MLIRContext *context) {
  FailureOr<PolicyFile> file =
      findPolicy(name, /*folder=*/"", UnknownLoc::get(context));
  if (failed(file))
    return failure();
  // A pass has loaded it before, which may not do so itself.
  context->getOrLoadDialect<BinadeDialect>();
  SmallVector<std::string> readers;
  return load(*file, context, readers);
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
  if (failed(checkPolicy(*policy, FileLineColLoc::get(context, name, 1, 1))))
    return failure();
  policy->source = source;
  return policy;
}

} // namespace mlir::binade
