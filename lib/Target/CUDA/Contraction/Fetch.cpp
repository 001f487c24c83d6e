//===- Fetch.cpp - Load tiles to shared memory ----------------------------===//

#include "Fetch.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace mlir::binade;

/// Maximum bytes per access.
static constexpr int64_t kAccess = 16;

Fetch::Fetch(Indices at, const Operand &operand, const TileMath &math,
             const Tiling &tiling, int64_t entries, Type element)
    : at(at), operand(operand), entries(entries), tiling(tiling),
      element(element) {
  auto bytes = static_cast<int64_t>(byteSize(operand.dtype));
  int64_t most =
      std::min(kAccess / bytes, entries * tiling.step / tiling.threads);
  int64_t byTerm = operand.getWidth(Operand::Terms, most),
          byEntry = operand.getWidth(Operand::Entries, most);
  bool areTerms = byTerm > byEntry || (byTerm == byEntry && isCloserByTerm());
  along = areTerms ? Operand::Terms : Operand::Entries;
  width = std::max(byTerm, byEntry);
  tile = math.layOut(along, entries, tiling.step);
}

/// Whether terms are closer in memory than entries, if neither are contiguous.
bool Fetch::isCloserByTerm() const {
  auto findStride = [&](ArrayRef<Axis> axes, unsigned Window::*digit) {
    int64_t stride = axes.back().stride;
    for (const Window &window : operand.windows)
      if (window.*digit == axes.size() - 1)
        stride = window.stride;
    return stride;
  };
  return findStride(operand.terms, &Window::termAxis) <
         findStride(operand.entries, &Window::entryAxis);
}

void Fetch::start(Value thread, Value first, const Gather &from) {
  gather = &from;
  bool areTerms = along == Operand::Terms;
  int64_t vectors = (areTerms ? tiling.step : entries) / width;
  std::tie(outer, inner) = at.divide(thread, vectors);
  inner = at.scale(inner, width);
  rowsAtOnce = tiling.threads / vectors;
  Value entry = at.add(first, areTerms ? outer : inner);
  for (int64_t i = 0; i < (areTerms ? countRows() : 1); ++i)
    shares.push_back(from.findEntry(at.add(entry, i * rowsAtOnce)));
}

SmallVector<Value> Fetch::load(Value first) const {
  SmallVector<Value> loaded;
  if (along == Operand::Terms) {
    Gather::Share term = gather->findTerm(at.add(first, inner));
    for (const Gather::Share &entry : shares)
      loaded.push_back(gather->load(gather->find(entry, term), width));
    return loaded;
  }
  for (int64_t i = 0; i < countRows(); ++i) {
    Value row = at.add(outer, i * rowsAtOnce);
    Gather::Share term = gather->findTerm(at.add(first, row));
    loaded.push_back(gather->load(gather->find(shares.front(), term), width));
  }
  return loaded;
}

void Fetch::store(ValueRange loaded, Value stage) const {
  for (auto [i, value] : llvm::enumerate(loaded)) {
    Value row = at.add(outer, static_cast<int64_t>(i) * rowsAtOnce);
    auto [entry, term] =
        along == Operand::Terms ? std::pair(row, inner) : std::pair(inner, row);
    storeOne(convert(at.b, value, element), stage, entry, term);
  }
}

/// Stores a vector at once if the tile has its elements contiguously.
void Fetch::storeOne(Value x, Value stage, Value entry, Value term) const {
  ImplicitLocOpBuilder &b = at.b;
  if (width > 1 && tile.along == along) {
    int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    int64_t alignment = std::gcd(kAccess, std::gcd(width, tile.pitch) * bytes);
    vector::StoreOp::create(b, x, tile.memory,
                            tile.place(at, stage, entry, term),
                            /*nontemporal=*/false, llvm::MaybeAlign(alignment));
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    Value one = width == 1 ? x : vector::ExtractOp::create(b, x, i).getResult();
    Value place = along == Operand::Terms
                      ? tile.place(at, stage, entry, at.add(term, i))
                      : tile.place(at, stage, at.add(entry, i), term);
    memref::StoreOp::create(b, one, tile.memory, place);
  }
}
