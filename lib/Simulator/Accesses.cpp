//===- Accesses.cpp - Memory accesses of kernels --------------------------===//

#include "Arithmetic.h"
#include "ProgramBuilder.h"
#include <cstring>

using namespace mlir;
using namespace mlir::binade;

/// Returns the alignment of an access: that of an element, unless the op
/// requires more.
template <typename Op> static uint64_t getAlignment(Op op, unsigned bytes) {
  return std::max<uint64_t>(bytes, op.getAlignment().value_or(1));
}

/// Returns the function of an atomic update. Only integers are supported,
/// because the order of threads does not affect them.
static LaneFunction getUpdate(arith::AtomicRMWKind kind, Type element) {
  using Kind = arith::AtomicRMWKind;
  auto of = [&](vector::CombiningKind combining) {
    return getCombiner(
        vector::CombiningKindAttr::get(element.getContext(), combining),
        element);
  };
  return kind == Kind::addi   ? of(vector::CombiningKind::ADD)
         : kind == Kind::maxu ? of(vector::CombiningKind::MAXUI)
         : kind == Kind::minu ? of(vector::CombiningKind::MINUI)
         : kind == Kind::ori  ? of(vector::CombiningKind::OR)
                              : LaneFunction();
}

LogicalResult ProgramBuilder::checkShape(Operation *op, MemRefType type) {
  if (type.hasStaticShape() && type.getRank() <= 1 &&
      type.getLayout().isIdentity())
    return success();
  return op->emitOpError("is supported in the simulator for memory with at "
                         "most one axis, got ")
         << type;
}

ProgramBuilder::Element ProgramBuilder::getElement(Value memory,
                                                   ValueRange indices) {
  auto type = cast<MemRefType>(memory.getType());
  std::optional<uint32_t> index;
  if (!indices.empty())
    index = get(indices.front()).first;
  return {get(memory).first, index, getByteWidth(type.getElementType())};
}

void ProgramBuilder::load(Operation *op, Element element, Registers to,
                          uint64_t alignment) {
  add(op, [=](Machine &m, Thread &t) {
    Place place = element.of(t);
    if (!m.isAligned(t, op, place, alignment))
      return;
    const char *bytes =
        m.access(t, op, place, to.count * element.bytes, AccessKind::Read);
    for (uint32_t i = 0; bytes && i < to.count; ++i) {
      t.registers[to.first + i] = 0;
      std::memcpy(&t.registers[to.first + i], bytes + i * element.bytes,
                  element.bytes);
    }
  });
}

void ProgramBuilder::store(Operation *op, Element element, Registers from,
                           uint64_t alignment) {
  add(op, [=](Machine &m, Thread &t) {
    Place place = element.of(t);
    if (!m.isAligned(t, op, place, alignment))
      return;
    char *bytes =
        m.access(t, op, place, from.count * element.bytes, AccessKind::Write);
    for (uint32_t i = 0; bytes && i < from.count; ++i)
      std::memcpy(bytes + i * element.bytes, &t.registers[from.first + i],
                  element.bytes);
  });
}

LogicalResult ProgramBuilder::emit(memref::LoadOp op) {
  Element element = getElement(op.getMemref(), op.getIndices());
  load(op, element, get(op.getResult()), element.bytes);
  return checkShape(op, op.getMemRefType());
}

LogicalResult ProgramBuilder::emit(memref::StoreOp op) {
  Element element = getElement(op.getMemref(), op.getIndices());
  store(op, element, get(op.getValue()), element.bytes);
  return checkShape(op, op.getMemRefType());
}

LogicalResult ProgramBuilder::emit(vector::LoadOp op) {
  Element element = getElement(op.getBase(), op.getIndices());
  load(op, element, get(op.getResult()), getAlignment(op, element.bytes));
  return checkShape(op, op.getMemRefType());
}

LogicalResult ProgramBuilder::emit(vector::StoreOp op) {
  Element element = getElement(op.getBase(), op.getIndices());
  store(op, element, get(op.getValueToStore()),
        getAlignment(op, element.bytes));
  return checkShape(op, op.getMemRefType());
}

/// Writes NaN until the thread waits for the copy, so that a kernel which reads
/// the bytes earlier, or which still needs the old ones, computes wrong
/// results.
LogicalResult ProgramBuilder::emit(nvgpu::DeviceAsyncCopyOp op) {
  Element from = getElement(op.getSrc(), op.getSrcIndices()),
          to = getElement(op.getDst(), op.getDstIndices());
  size_t size = op.getDstElements().getZExtValue() * to.bytes;
  std::optional<uint32_t> count;
  if (Value elements = op.getSrcElements())
    count = get(elements).first;
  add(op, [=](Machine &m, Thread &t) {
    Place source = from.of(t), target = to.of(t);
    size_t read = count ? t.registers[*count] * from.bytes : size;
    if (read > size)
      return m.fail(
          t, op, "reads " + Twine(read) + " bytes and writes " + Twine(size));
    if (!m.isAligned(t, op, source, size) || !m.isAligned(t, op, target, size))
      return;
    PendingCopy copy{target, std::vector<char>(size)};
    const char *bytes =
        read == 0 ? nullptr : m.access(t, op, source, read, AccessKind::Read);
    char *place = m.access(t, op, target, size, AccessKind::Write);
    if (!place || (read != 0 && !bytes))
      return;
    std::copy_n(bytes, read, copy.bytes.begin());
    std::fill_n(place, size, '\xff');
    t.copies.push_back(std::move(copy));
  });
  if (failed(checkShape(op, cast<MemRefType>(op.getSrc().getType()))))
    return failure();
  return checkShape(op, cast<MemRefType>(op.getDst().getType()));
}

LogicalResult ProgramBuilder::emit(nvgpu::DeviceAsyncCreateGroupOp op) {
  add(op, [](Machine &, Thread &t) {
    for (PendingCopy &copy : t.copies)
      copy.isGrouped = true;
  });
  return success();
}

LogicalResult ProgramBuilder::emit(nvgpu::DeviceAsyncWaitOp op) {
  if (op.getNumGroups().value_or(0) != 0)
    return op.emitOpError(
        "is supported in the simulator for all groups, without numGroups");
  add(op, [=](Machine &m, Thread &t) {
    for (const PendingCopy &copy : t.copies)
      if (copy.isGrouped)
        if (char *place =
                m.access(t, op, copy.to, copy.bytes.size(), AccessKind::Write))
          llvm::copy(copy.bytes, place);
    llvm::erase_if(t.copies,
                   [](const PendingCopy &copy) { return copy.isGrouped; });
  });
  return success();
}

LogicalResult ProgramBuilder::emit(memref::AtomicRMWOp op) {
  Element element = getElement(op.getMemref(), op.getIndices());
  uint32_t operand = get(op.getValue()).first,
           before = get(op.getResult()).first;
  LaneFunction combine = getUpdate(op.getKind(), op.getValue().getType());
  if (!combine)
    return op.emitOpError(
        "is an atomic update that the simulator does not support");
  add(op, [=](Machine &m, Thread &t) {
    Place place = element.of(t);
    if (!m.isAligned(t, op, place, element.bytes))
      return;
    char *bytes = m.access(t, op, place, element.bytes, AccessKind::Update);
    if (!bytes)
      return;
    uint64_t both[] = {0, t.registers[operand]};
    std::memcpy(both, bytes, element.bytes);
    t.registers[before] = both[0];
    uint64_t after = combine(both);
    std::memcpy(bytes, &after, element.bytes);
  });
  return checkShape(op, op.getMemRefType());
}

LogicalResult ProgramBuilder::emit(vector::GatherOp op) {
  Element element = getElement(op.getBase(), op.getOffsets());
  Registers to = get(op.getResult()), index = get(op.getIndices()),
            mask = get(op.getMask()), rest = get(op.getPassThru());
  add(op, [=](Machine &m, Thread &t) {
    for (uint32_t i = 0; i < to.count; ++i) {
      uint64_t &lane = t.registers[to.first + i];
      if (!t.registers[mask.first + i]) {
        lane = t.registers[rest.first + i];
        continue;
      }
      Place place = element.of(t, t.registers[index.first + i]);
      if (!m.isAligned(t, op, place, element.bytes))
        return;
      const char *bytes =
          m.access(t, op, place, element.bytes, AccessKind::Read);
      lane = 0;
      if (bytes)
        std::memcpy(&lane, bytes, element.bytes);
    }
  });
  return checkShape(op, cast<MemRefType>(op.getBase().getType()));
}

LogicalResult ProgramBuilder::emit(memref::AllocaOp op) {
  program.privates.push_back(
      {get(op.getResult()).first,
       countBytes(op.getResult()),
       getAlignment(op, getByteWidth(op.getType().getElementType())),
       {}});
  return checkShape(op, op.getType());
}

LogicalResult ProgramBuilder::emit(memref::ViewOp op) {
  uint32_t from = get(op.getSource()).first, to = get(op.getResult()).first,
           shift = get(op.getByteShift()).first;
  add(op, [=](Machine &, Thread &t) {
    Place place = Place::unpack(t.registers[from]);
    place.byte += t.registers[shift];
    t.registers[to] = place.pack();
  });
  return checkShape(op, op.getType());
}

/// The packed place serves as an address, which is unique.
LogicalResult ProgramBuilder::emit(memref::ExtractAlignedPointerAsIndexOp op) {
  copy(op, op.getSource(), op->getResults());
  return success();
}

LogicalResult ProgramBuilder::emit(memref::GetGlobalOp op) {
  auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
      op, op.getNameAttr());
  auto elements =
      global
          ? dyn_cast_if_present<DenseElementsAttr>(global.getInitialValueAttr())
          : DenseElementsAttr();
  if (!elements)
    return op.emitOpError("is supported in the simulator for constants only");
  unsigned width = getByteWidth(elements.getElementType());
  std::vector<char> bytes;
  for (Attribute number : elements.getValues<Attribute>()) {
    uint64_t bits = getBits(number);
    bytes.insert(bytes.end(), reinterpret_cast<char *>(&bits),
                 reinterpret_cast<char *>(&bits) + width);
  }
  program.constants.push_back({get(op.getResult()).first, bytes.size(),
                               getAlignment(global, width), bytes});
  return checkShape(op, op.getType());
}
