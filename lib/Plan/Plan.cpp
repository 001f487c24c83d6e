//===- Plan.cpp - Names and lookups of a plan -----------------------------===//

#include "binade/Plan/Plan.h"
#include "binade/Container/Sha256.h"
#include <algorithm>
#include <array>
#include <numeric>

using namespace binade;
using namespace binade::plan;

// In the order of the enums.
static constexpr std::array<std::string_view, kNumCategories> categoryNames = {
    "parameter", "buffer",   "state",  "batch",   "gradient", "saved",
    "workspace", "constant", "scalar", "library", "unused"};
static constexpr std::array<std::string_view, kNumRoles> roleNames = {
    "parameter", "buffer",      "state",    "scaler",   "rng",
    "step",      "accumulator", "batch",    "hyper",    "constant",
    "output",    "metric",      "gradient", "statistic"};

static constexpr std::array<std::string_view, kNumMasters> masterNames = {
    "f32", "split_round", "split_trunc", "kahan", "split_8bit", "residual"};

template <typename Enum, std::size_t N>
static std::optional<Enum> parse(const std::array<std::string_view, N> &names,
                                 std::string_view name) {
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

std::string_view plan::name(Category category) {
  return categoryNames[static_cast<std::size_t>(category)];
}

std::optional<Category> plan::parseCategory(std::string_view name) {
  return parse<Category>(categoryNames, name);
}

std::string_view plan::name(Role role) {
  return roleNames[static_cast<std::size_t>(role)];
}

std::optional<Role> plan::parseRole(std::string_view name) {
  return parse<Role>(roleNames, name);
}

std::string plan::hashPolicy(const PolicyText &policy, std::string_view base) {
  Sha256 hash;
  hash.update(policy.text);
  hash.update(policy.costs);
  hash.update(base);
  return hash.hexDigest();
}

std::string_view plan::name(Master master) {
  return masterNames[static_cast<std::size_t>(master)];
}

std::optional<Master> plan::parseMaster(std::string_view name) {
  return parse<Master>(masterNames, name);
}

std::string_view plan::name(Exchange::Action action) {
  static constexpr std::string_view names[] = {"start", "join", "add"};
  return names[action];
}

std::string_view plan::name(Exchange::Operation operation) {
  static constexpr std::string_view names[] = {"sum", "max", "gather"};
  return names[operation];
}

static constexpr std::array<std::string_view, 4> formatNames = {
    "f32", "bf16", "e4m3", "exact"};

std::string_view plan::name(Exchange::Format format) {
  return formatNames[format];
}

std::optional<Exchange::Format>
plan::parseExchangeFormat(std::string_view name) {
  return parse<Exchange::Format>(formatNames, name);
}

bool plan::isTrainingState(Role role) { return role <= Role::Step; }

std::string plan::stateName(Role role, std::string_view name) {
  switch (role) {
  case Role::State:
    return "state/" + std::string(name);
  case Role::Scaler:
    return "scaler/" + std::string(name);
  case Role::Step:
    return "step";
  case Role::Rng:
    return "rng";
  default:
    return std::string(name);
  }
}

/// Returns the number of scales of `entries` rows or columns and `terms` terms.
static std::vector<std::int64_t> countScales(std::int64_t entries,
                                             std::int64_t entryBlock,
                                             std::int64_t terms,
                                             std::int64_t termBlock) {
  return {(entries - 1) / entryBlock + 1, (terms - 1) / termBlock + 1};
}

std::vector<std::int64_t> Matmul::getLhsScaleSizes() const {
  return block ? countScales(m, block->m, k, block->k)
               : std::vector<std::int64_t>();
}

std::vector<std::int64_t> Matmul::getRhsScaleSizes() const {
  return block ? countScales(n, block->n, k, block->k)
               : std::vector<std::int64_t>();
}

std::int64_t plan::findAlignment(std::span<const Buffer> buffers,
                                 const View &view) {
  const Buffer &buffer = buffers[view.buffer];
  auto size = static_cast<std::int64_t>(byteSize(buffer.dtype));
  // Overflow does not change the result, which is a power of two.
  auto bytes = static_cast<std::uint64_t>(buffer.locate(view.offset));
  std::uint64_t alignment = std::gcd<std::uint64_t>(kDeviceAlignment, bytes);
  for (std::int64_t step : view.steps)
    alignment = std::gcd(alignment, static_cast<std::uint64_t>(step) *
                                        static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(alignment);
}

std::int64_t DeviceKernel::getAlignment(std::size_t operand) const {
  return operand < alignments.size() ? alignments[operand] : kDeviceAlignment;
}

const DeviceKernel *Plan::findDeviceKernel(std::string_view name) const {
  auto found = std::find_if(
      deviceKernels.begin(), deviceKernels.end(),
      [&](const DeviceKernel &kernel) { return kernel.name == name; });
  return found == deviceKernels.end() ? nullptr : &*found;
}

const Port *Plan::findPort(Role role, std::string_view name) const {
  auto it = std::find_if(ports.begin(), ports.end(), [&](const Port &port) {
    return port.role == role && port.name == name;
  });
  return it == ports.end() ? nullptr : &*it;
}

std::vector<const Exchange *> Plan::listBuckets() const {
  std::vector<const Exchange *> buckets;
  for (const Record &record : records)
    if (auto *exchange = std::get_if<Exchange>(&record.body);
        exchange && exchange->action == Exchange::Start)
      buckets.push_back(exchange);
  return buckets;
}

const Port *Plan::findCompanionPort(const Port &parameter) const {
  auto it = std::find_if(ports.begin(), ports.end(), [&](const Port &port) {
    auto *companionInit = std::get_if<CompanionInit>(&port.init);
    return companionInit && parameter.role == Role::Parameter &&
           companionInit->parameter == parameter.name;
  });
  return it == ports.end() ? nullptr : &*it;
}

std::optional<Master> Plan::findMaster(const Port &parameter) const {
  const Port *port = findCompanionPort(parameter);
  return port ? std::optional(std::get<CompanionInit>(port->init).master)
              : std::nullopt;
}
