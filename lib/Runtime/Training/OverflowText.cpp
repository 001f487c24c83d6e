//===- OverflowText.cpp - Messages about overflows ------------------------===//

#include "OverflowText.h"

using namespace binade;
using namespace binade::plan;

/// Returns the node of a record's label "op node +2"; empty without one.
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
                     ", computed by " + quote(overflow.label);
  if (overflow.notFinite < overflow.elements)
    text += format("; the largest finite one is %g", overflow.largest);
  return text + format("; its operands reach %g", overflow.operands);
}

std::string binade::advise(const Overflow &overflow) {
  std::string node = nodeOf(overflow.label);
  if (overflow.dtype == DType::F32 || overflow.dtype == DType::F64)
    return "no policy helps, because the format is already wide; a smaller "
           "--lr, a --clip or other data may help";
  if (node.empty())
    return "a policy whose narrow format is bf16 may help";
  std::string text =
      "this policy rule keeps it wide: - {match: {name: " + quoteGlob(node) +
      "}, class: deny}";
  // The value also exceeds the format of the op that reads it.
  if (std::string reader = nodeOf(overflow.reader);
      !reader.empty() && reader != node)
    text += "; add one for " + quoteGlob(reader) + ", which reads it";
  return text;
}

namespace {
/// The gradient with the largest or smallest value of a statistic.
struct Extreme {
  std::string parameter;
  double value;
};
} // namespace

static std::optional<double> readGradient(const Program &program,
                                          std::string_view statistic,
                                          std::string_view parameter) {
  return readScalar(program, Role::Statistic,
                    std::string(statistic) + " gradient " +
                        std::string(parameter));
}

static std::optional<Extreme> findExtreme(const Program &program,
                                          std::string_view statistic,
                                          bool wantsLargest) {
  std::string begin = std::string(statistic) + " gradient ";
  std::optional<Extreme> found;
  for (const Tensor &tensor : program.tensors(Role::Statistic)) {
    if (!tensor.name.starts_with(begin))
      continue;
    double value = *readScalar(program, Role::Statistic, tensor.name);
    if (!found || (wantsLargest ? value > found->value : value < found->value))
      found = Extreme{std::string(tensor.name.substr(begin.size())), value};
  }
  return found;
}

std::string binade::describeInfeasible(const Program &program, double scale) {
  std::optional<Extreme> most = findExtreme(program, "raisable", false),
                         least = findExtreme(program, "needed", true);
  if (!most || !least)
    return "no feasible scale";
  auto read = [&](std::string_view statistic, const Extreme &of) {
    return readGradient(program, statistic, of.parameter).value_or(0);
  };
  double vanished = read("vanished", *least), nonzero = read("nonzero", *least);
  char text[512];
  std::snprintf(text, sizeof(text),
                " reaches %.4g at a scale of %g and overflows from a scale of "
                "%.4g on, and that of ",
                read("amax", *most), scale, scale * most->value);
  std::string overflows = text;
  std::snprintf(text, sizeof(text),
                " has elements of %.4g, which become 0 up to a scale of %.4g "
                "(%.3g%% of its elements do)",
                read("least", *least), scale * least->value,
                nonzero > 0 ? 100 * vanished / nonzero : 0.0);
  return "no feasible scale: the gradient of " + quote(most->parameter) +
         overflows + quote(least->parameter) + text +
         "; a policy that keeps one of them wide, or whose narrow format is "
         "bf16, may help";
}
