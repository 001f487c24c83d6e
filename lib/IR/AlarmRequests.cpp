//===- AlarmRequests.cpp - Alarms that a policy asks for ------------------===//
//
// A module stores them as {rules = [WORD, ...], action = WORD}, where a WORD is
// {word = "range", at = loc(...)}, with `contents` if it names a file.
//
//===----------------------------------------------------------------------===//

#include "binade/IR/AlarmRequests.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::binade;

static constexpr StringLiteral kRules = "rules", kAction = "action",
                               kWord = "word", kContents = "contents",
                               kAt = "at", kOff = "off";

void AlarmRequests::extend(const AlarmRequests &base) {
  bool startsAnew = llvm::any_of(
      rules, [](const AlarmRequest &word) { return word.text == kOff; });
  if (!startsAnew)
    rules.insert(rules.begin(), base.rules.begin(), base.rules.end());
  if (!action)
    action = base.action;
}

static Attribute write(Builder b, const AlarmRequest &word) {
  NamedAttrList entries;
  entries.append(kWord, b.getStringAttr(word.text));
  if (word.contents)
    entries.append(kContents, b.getStringAttr(*word.contents));
  if (word.location)
    entries.append(kAt, word.location);
  return entries.getDictionary(b.getContext());
}

void mlir::binade::setAlarmRequests(ModuleOp module,
                                    const AlarmRequests &words) {
  if (!words)
    return;
  Builder b(module.getContext());
  SmallVector<Attribute> rules;
  for (const AlarmRequest &word : words.rules)
    rules.push_back(write(b, word));
  NamedAttrList entries;
  entries.append(kRules, b.getArrayAttr(rules));
  if (words.action)
    entries.append(kAction, write(b, *words.action));
  module->setAttr(kAlarmsAttr, entries.getDictionary(b.getContext()));
}

static AlarmRequest read(Attribute value) {
  auto entries = cast<DictionaryAttr>(value);
  AlarmRequest word{entries.getAs<StringAttr>(kWord).str(), std::nullopt,
                    entries.getAs<LocationAttr>(kAt)};
  if (!word.location)
    word.location = UnknownLoc::get(value.getContext());
  if (auto contents = entries.getAs<StringAttr>(kContents))
    word.contents = contents.str();
  return word;
}

AlarmRequests mlir::binade::getAlarmRequests(ModuleOp module) {
  AlarmRequests words;
  auto entries = module->getAttrOfType<DictionaryAttr>(kAlarmsAttr);
  if (!entries)
    return words;
  for (Attribute rule : entries.getAs<ArrayAttr>(kRules))
    words.rules.push_back(read(rule));
  if (Attribute action = entries.get(kAction))
    words.action = read(action);
  return words;
}

/// Whether `value` is a dictionary that has only `keys`, each with the given
/// type.
static bool
hasOnly(Attribute value,
        ArrayRef<std::pair<StringRef, function_ref<bool(Attribute)>>> keys) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [&](NamedAttribute entry) {
           return llvm::any_of(keys, [&](const auto &key) {
             return entry.getName() == key.first &&
                    key.second(entry.getValue());
           });
         });
}

static bool isWord(Attribute value) {
  auto isText = [](Attribute part) { return isa<StringAttr>(part); };
  auto isPlace = [](Attribute part) { return isa<LocationAttr>(part); };
  return hasOnly(value,
                 {{kWord, isText}, {kContents, isText}, {kAt, isPlace}}) &&
         cast<DictionaryAttr>(value).contains(kWord);
}

bool mlir::binade::areAlarmRequests(Attribute value) {
  auto areRules = [](Attribute part) {
    auto list = dyn_cast<ArrayAttr>(part);
    return list && llvm::all_of(list, isWord);
  };
  return hasOnly(value, {{kRules, areRules}, {kAction, isWord}}) &&
         cast<DictionaryAttr>(value).contains(kRules);
}
