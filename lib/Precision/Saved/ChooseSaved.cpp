//===- ChooseSaved.cpp - Which saved values to quantize or recompute ------===//

#include "ChooseSaved.h"

using namespace mlir;
using namespace mlir::binade;

uint64_t SavedValue::getBytesLeft() const {
  switch (choice) {
  case SavedChoice::Keep:
    return bytes;
  case SavedChoice::Quantize:
    return *quantizedBytes;
  case SavedChoice::Recompute:
    return 0;
  }
  llvm_unreachable("all choices are listed");
}

namespace {
using Order = SmallVector<SavedValue *>;

class Chooser {
public:
  Chooser(MutableArrayRef<SavedValue> values, uint64_t budget)
      : values(values), budget(budget) {
    for (const SavedValue &value : values)
      left += value.bytes;
  }

  uint64_t run() {
    take(orderByWork(), SavedChoice::Recompute);
    recomputeContractions();
    followSources();
    take(orderByError(), SavedChoice::Quantize);
    for (SavedValue *value : llvm::reverse(taken))
      if (left - value->getBytesLeft() + value->bytes <= budget)
        choose(*value, SavedChoice::Keep);
    return left;
  }

private:
  Order orderByWork() {
    Order order;
    for (SavedValue &value : values)
      if (!value.ops.empty() && value.macs == 0)
        order.push_back(&value);
    llvm::stable_sort(order, [](const SavedValue *l, const SavedValue *r) {
      return static_cast<double>(l->bytes) * static_cast<double>(r->work) >
             static_cast<double>(r->bytes) * static_cast<double>(l->work);
    });
    return order;
  }

  /// Adds the saved values from which `value` is recomputed to `found`.
  void addSources(const SavedValue &value, DenseSet<unsigned> &found) const {
    for (unsigned source : value.sources)
      if (found.insert(source).second &&
          values[source].choice == SavedChoice::Recompute)
        addSources(values[source], found);
  }

  void recomputeContractions() {
    Order order;
    for (SavedValue &value : values)
      if (value.macs > 0 && value.choice == SavedChoice::Keep)
        order.push_back(&value);
    llvm::stable_sort(order, [](const SavedValue *l, const SavedValue *r) {
      return static_cast<double>(l->bytes) * static_cast<double>(r->macs) >
             static_cast<double>(r->bytes) * static_cast<double>(l->macs);
    });
    DenseSet<unsigned> keptSources;
    for (SavedValue *value : order) {
      DenseSet<unsigned> sources;
      addSources(*value, sources);
      if (keptSources.contains(value - values.data()) ||
          llvm::any_of(sources, [&](unsigned source) {
            return values[source].macs > 0 &&
                   values[source].choice == SavedChoice::Recompute;
          }))
        continue;
      if (left <= budget)
        return;
      take({value}, SavedChoice::Recompute);
      keptSources.insert(sources.begin(), sources.end());
    }
  }

  /// Errors of a recomputed value are those of its sources, so sources reach
  /// what the value reaches.
  void followSources() {
    for (const SavedValue &value : llvm::reverse(values)) {
      if (value.choice != SavedChoice::Recompute)
        continue;
      for (unsigned source : value.sources) {
        values[source].reach.add(value.reach);
        values[source].firstRead =
            std::min(values[source].firstRead, value.firstRead);
      }
    }
  }

  Order orderByError() {
    Order order;
    for (SavedValue &value : values)
      if (value.quantizedBytes && value.choice == SavedChoice::Keep)
        order.push_back(&value);
    llvm::stable_sort(order, [](const SavedValue *l, const SavedValue *r) {
      bool spreads = l->reach.isSeveral;
      if (spreads != r->reach.isSeveral)
        return !spreads;
      return spreads ? l->firstRead > r->firstRead : l->bytes > r->bytes;
    });
    return order;
  }

  void take(const Order &order, SavedChoice choice) {
    for (SavedValue *value : order) {
      if (left <= budget)
        return;
      choose(*value, choice);
      taken.push_back(value);
    }
  }

  void choose(SavedValue &value, SavedChoice choice) {
    left -= value.getBytesLeft();
    value.choice = choice;
    left += value.getBytesLeft();
  }

  MutableArrayRef<SavedValue> values;
  uint64_t budget, left = 0;
  Order taken;
};
} // namespace

uint64_t mlir::binade::chooseSaved(MutableArrayRef<SavedValue> values,
                                   uint64_t budget) {
  return Chooser(values, budget).run();
}
