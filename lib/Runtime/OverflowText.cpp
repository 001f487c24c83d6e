//===- OverflowText.cpp - What left a format's range, in words ------------===//

#include "OverflowText.h"

using namespace binade;
using namespace binade::plan;

/// The node of a record's label, "op node +2"; empty for none.
static std::string nodeOf(std::string_view label) {
  std::size_t start = label.find(' '), end = label.rfind(" +");
  if (start == label.npos)
    return "";
  return std::string(label.substr(start + 1, end - start - 1));
}

std::string binade::describe(const Overflow &overflow) {
  auto format = [](const char *text, double number) {
    char line[64];
    std::snprintf(line, sizeof(line), text, number);
    return std::string(line);
  };
  std::string text = "first not finite: " + std::to_string(overflow.notFinite) +
                     " of " + std::to_string(overflow.elements) +
                     " elements in " + std::string(name(overflow.dtype)) +
                     ", made by " + quote(overflow.label);
  if (overflow.notFinite < overflow.elements)
    text += format("; the others reach %g", overflow.largest);
  return text + format("; what it read reaches %g", overflow.operands);
}

std::string binade::advise(const Overflow &overflow) {
  std::string node = nodeOf(overflow.label);
  if (overflow.dtype == DType::F32 || overflow.dtype == DType::F64)
    return "no policy helps, for it is a wide format already; a smaller --lr "
           "or a --clip may, or other data";
  if (node.empty())
    return "a policy whose narrow format is bf16 may help";
  std::string text =
      "as a rule of the policy this keeps it wide: - {match: {name: " +
      quoteGlob(node) + "}, class: deny}";
  // The value is beyond the format for its readers, too.
  if (std::string reader = nodeOf(overflow.reader);
      !reader.empty() && reader != node)
    text += ", with one for " + quoteGlob(reader) + ", which reads it";
  return text;
}

std::string binade::describeInfeasible(const Program &program, double scale) {
  constexpr std::string_view kLargest = "amax gradient ",
                             kVanished = "vanished gradient ";
  std::string_view largest, vanishing;
  double amax = -1, share = -1;
  for (const Tensor &tensor : program.tensors(Role::Statistic)) {
    double value = *readScalar(program, Role::Statistic, tensor.name);
    if (tensor.name.starts_with(kLargest) && value > amax) {
      amax = value;
      largest = tensor.name.substr(kLargest.size());
    }
    if (!tensor.name.starts_with(kVanished))
      continue;
    std::string_view parameter = tensor.name.substr(kVanished.size());
    double nonzero = readScalar(program, Role::Statistic,
                                "nonzero gradient " + std::string(parameter))
                         .value_or(0);
    if (nonzero > 0 && value / nonzero > share) {
      share = value / nonzero;
      vanishing = parameter;
    }
  }
  char numbers[2][64];
  std::snprintf(numbers[0], sizeof(numbers[0]), "%.3g%% of", 100 * share);
  std::snprintf(numbers[1], sizeof(numbers[1]), "reaches %.4g at a scale of %g",
                amax, scale);
  return "no feasible scale: " + std::string(numbers[0]) + " the gradient of " +
         quote(vanishing) + " has become 0, and that of " + quote(largest) +
         " " + numbers[1] +
         ", which leaves no room for more; a policy that keeps one of them "
         "wide, or whose narrow format is bf16, may help";
}
