//===- CublasLt.cpp - Simulated cuBLASLt ----------------------------------===//

#include "Product.h"
#include <cstring>

using namespace binade::cuda::lt;
using binade::cuda::Address;
using namespace simulated;
namespace blas = binade::cuda::lt::status;

/// Returns whether a matrix lies within an allocation of the device.
static bool isThere(const MatrixLayout &x, Address p) {
  auto last = (static_cast<std::int64_t>(x.batch) - 1) * x.batchStride +
              (static_cast<std::int64_t>(x.columns) - 1) * x.ld +
              static_cast<std::int64_t>(x.rows);
  return findMemory(p, static_cast<std::size_t>(last) *
                           static_cast<std::size_t>(getByteSize(x.type)));
}

/// Returns the number of scales of an operand with `rows` rows.
static std::uint64_t countScales(std::uint64_t mode, std::uint64_t rows,
                                 std::uint64_t k) {
  std::uint64_t blocks = (k + 127) / 128;
  switch (mode) {
  case scale::Vec128:
    return blocks * rows;
  case scale::Block128x128:
    return (blocks + 3) / 4 * 4 * ((rows + 127) / 128);
  default:
    return 1;
  }
}

/// Returns whether the bias, the auxiliary matrix and the scales lie within
/// allocations of the device. Scales may be absent.
static bool areVectorsThere(const Call &call) {
  const MatmulDesc &desc = call.desc;
  Operands x{desc, call.a, call.b, call.c, call.d};
  auto isThere = [&](int pointer, std::uint64_t count, int typeAttribute) {
    auto type = static_cast<int>(desc.get(typeAttribute, type::F32));
    return findMemory(desc.get(pointer),
                      count * static_cast<std::size_t>(getByteSize(type)));
  };
  bool isOfColumns = x.getEpilogue() == epilogue::BGradB;
  if (x.hasBias() &&
      !isThere(desc::BiasPointer, isOfColumns ? x.getN() : x.getM(),
               desc::BiasDataType))
    return false;
  if (x.hasAux() && !isThere(desc::AuxPointer,
                             desc.get(desc::AuxLd) * (x.getN() - 1) + x.getM(),
                             desc::AuxDataType))
    return false;
  auto areScalesThere = [&](int pointer, std::uint64_t count) {
    return !desc.get(pointer) || findMemory(desc.get(pointer), 4 * count);
  };
  return areScalesThere(
             desc::AScalePointer,
             countScales(desc.get(desc::AScaleMode), x.getM(), x.getK())) &&
         areScalesThere(
             desc::BScalePointer,
             countScales(desc.get(desc::BScaleMode), x.getN(), x.getK())) &&
         areScalesThere(desc::DScalePointer, 1) &&
         areScalesThere(desc::AmaxDPointer, 1);
}

/// The workspace of the simulated algorithm, in bytes, if it fits the limit.
static constexpr std::uint64_t kWorkspace = 4096;
/// Marks algorithms that this library returned.
static constexpr std::uint64_t kMagic = 0x62696e616465;

template <typename Map>
static int store(Map &attributes, int attribute, const void *value,
                 std::size_t bytes) {
  std::uint64_t bits = 0;
  if (!value || bytes > sizeof(bits))
    return blas::InvalidValue;
  std::memcpy(&bits, value, bytes);
  attributes[attribute] = bits;
  return blas::Success;
}

static int load(std::uint64_t value, void *to, std::size_t bytes) {
  std::memcpy(to, &value, bytes);
  return blas::Success;
}

template <typename T, typename... Values>
static int make(T **made, Values... values) {
  *made = new T{values...};
  return blas::Success;
}

template <typename T> static int remove(T *made) {
  delete made;
  return blas::Success;
}

extern "C" {

std::size_t cublasLtGetVersion() {
  return simulated::getSetting("cublaslt", 130000);
}

const char *cublasLtGetStatusName(int code) {
  switch (code) {
  case blas::InvalidValue:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case blas::NotSupported:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  case blas::ExecutionFailed:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  default:
    return "CUBLAS_STATUS of another kind";
  }
}

int cublasLtCreate(Handle **handle) {
  static Handle only;
  *handle = &only;
  return blas::Success;
}
int cublasLtDestroy(Handle *) { return blas::Success; }
int cublasLtMatmulDescCreate(MatmulDesc **desc, int compute, int) {
  return make(desc, compute);
}
int cublasLtMatmulDescDestroy(MatmulDesc *desc) { return remove(desc); }
int cublasLtMatmulDescSetAttribute(MatmulDesc *desc, int attribute,
                                   const void *value, std::size_t bytes) {
  bool isNew = attribute == desc::AScaleMode || attribute == desc::BScaleMode;
  if (isNew && cublasLtGetVersion() < kFirstWithBlockScales)
    return blas::InvalidValue;
  return store(desc->attributes, attribute, value, bytes);
}
int cublasLtMatrixLayoutCreate(MatrixLayout **layout, int type,
                               std::uint64_t rows, std::uint64_t columns,
                               std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows))
    return blas::InvalidValue;
  return make(layout, type, rows, columns, ld);
}
int cublasLtMatrixLayoutDestroy(MatrixLayout *layout) { return remove(layout); }
int cublasLtMatrixLayoutSetAttribute(MatrixLayout *layout, int attribute,
                                     const void *value, std::size_t bytes) {
  std::map<int, std::uint64_t> read;
  if (int failure = store(read, attribute, value, bytes))
    return failure;
  if (attribute == layout::BatchCount)
    layout->batch = read[attribute];
  else
    layout->batchStride = static_cast<std::int64_t>(read[attribute]);
  return blas::Success;
}
int cublasLtMatmulPreferenceCreate(Preference **made) { return make(made); }
int cublasLtMatmulPreferenceDestroy(Preference *made) { return remove(made); }
int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute,
                                         const void *value, std::size_t bytes) {
  return store(preference->attributes, attribute, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(Handle *, MatmulDesc *desc, MatrixLayout *a,
                                   MatrixLayout *b, MatrixLayout *c,
                                   MatrixLayout *d, Preference *preference,
                                   int wanted, HeuristicResult *results,
                                   int *count) {
  *count = 0;
  if (wanted < 1 || !isPossible({*desc, *a, *b, *c, *d}))
    return blas::NotSupported;
  std::uint64_t limit = preference->attributes[preference::MaxWorkspaceBytes];
  const auto &attributes = preference->attributes;
  auto mask = attributes.find(preference::ReductionSchemes);
  constexpr std::uint64_t all = 7;
  std::uint64_t schemes = mask == attributes.end() ? all : mask->second;
  std::uint64_t scheme = std::bit_floor(schemes);
  for (std::uint64_t workspace : {kWorkspace, std::uint64_t(0)})
    if (workspace <= limit && *count < wanted)
      results[(*count)++] = {.algorithm = {kMagic, workspace, scheme},
                             .workspaceBytes = workspace,
                             .status = blas::Success,
                             .waves = 1,
                             .reserved = {}};
  return blas::Success;
}

int cublasLtMatmulAlgoCheck(Handle *, MatmulDesc *desc, MatrixLayout *a,
                            MatrixLayout *b, MatrixLayout *c, MatrixLayout *d,
                            const Algorithm *algorithm,
                            HeuristicResult *result) {
  if ((*algorithm)[0] != kMagic)
    return blas::InvalidValue;
  result->algorithm = *algorithm;
  result->workspaceBytes = (*algorithm)[1];
  return isPossible({*desc, *a, *b, *c, *d}) ? blas::Success
                                             : blas::NotSupported;
}

int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *algorithm,
                                         int attribute, void *value,
                                         std::size_t bytes, std::size_t *) {
  // NVIDIA's header defines these sizes.
  bool isShort =
      attribute == config::InnerShapeId || attribute == config::ClusterShapeId;
  if (bytes != (isShort ? 2 : 4))
    return blas::InvalidValue;
  return load(attribute == config::TileId ? 20
              : attribute == config::Id   ? (*algorithm)[1] / kWorkspace
              : attribute == config::ReductionScheme ? (*algorithm)[2]
                                                     : 1,
              value, bytes);
}

int cublasLtMatmul(Handle *, MatmulDesc *desc, const void *alpha, const void *a,
                   MatrixLayout *da, const void *b, MatrixLayout *db,
                   const void *beta, const void *c, MatrixLayout *dc, void *d,
                   MatrixLayout *dd, const Algorithm *algorithm,
                   void *workspace, std::size_t workspaceBytes,
                   CUstream_st *stream) {
  if ((*algorithm)[0] != kMagic || workspaceBytes < (*algorithm)[1])
    return blas::InvalidValue;
  if (!isPossible({*desc, *da, *db, *dc, *dd}))
    return blas::NotSupported;
  auto toAddress = [](const void *pointer) {
    return reinterpret_cast<Address>(pointer);
  };
  float factor = 0, old = 0;
  std::memcpy(&factor, alpha, sizeof(factor));
  std::memcpy(&old, beta, sizeof(old));
  Call call{*desc,        *da,          *db,          *dc,    *dd, toAddress(a),
            toAddress(b), toAddress(c), toAddress(d), factor, old};
  if (workspaceBytes && (toAddress(workspace) % 256 ||
                         !findMemory(toAddress(workspace), workspaceBytes)))
    return blas::InvalidValue;
  for (Address address : {call.pa, call.pb, call.pd})
    if (address % (isFp8(da->type) ? 16 : 4))
      return blas::InvalidValue;
  if (desc->get(desc::AScaleMode) != scale::Scalar &&
      (desc->get(desc::AScalePointer) % 16 ||
       desc->get(desc::BScalePointer) % 16))
    return blas::InvalidValue;
  if (breakCapture(stream))
    return blas::ExecutionFailed;
  return simulated::enqueue(stream, [call] {
    if (!isThere(call.a, call.pa) || !isThere(call.b, call.pb) ||
        !isThere(call.d, call.pd) ||
        (call.beta != 0 && !isThere(call.c, call.pc)) || !areVectorsThere(call))
      return int(simulated::status::IllegalAddress);
    multiply(call);
    return int(simulated::status::Success);
  });
}

} // extern "C"

// Checks that every function the runtime loads exists with its parameters.
#define CHECK(NAME, SYMBOL, PARAMETERS)                                        \
  static_assert(std::is_same_v<decltype(&SYMBOL), int(*) PARAMETERS>);
BINADE_CUBLASLT_FUNCTIONS(CHECK)
#undef CHECK
