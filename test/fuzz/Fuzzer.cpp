//===- Fuzzer.cpp - One target as a program of libFuzzer ------------------===//
// READ is the target's function of Targets.h. MUTATE is its mutator and CROSS
// its crossover function, if it has them.
//===----------------------------------------------------------------------===//

#include "Targets.h"
#include <cstring>

using namespace binade;

// MLIR's libraries are not instrumented, so they do not undo the poisoning and
// container annotations that code in its headers adds here to shared memory.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:detect_container_overflow=0";
}
extern "C" const char *__ubsan_default_options() {
  return "print_stacktrace=1";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data,
                                      std::size_t size) {
  fuzz::READ({data, size});
  return 0;
}

#if defined(MUTATE) || defined(CROSS)
static std::size_t put(const std::string &bytes, std::uint8_t *data,
                       std::size_t limit) {
  std::size_t size = std::min(bytes.size(), limit);
  std::memcpy(data, bytes.data(), size);
  return size;
}
#endif

#ifdef MUTATE
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t size,
                                        std::size_t limit);

static std::string mutateBytes(std::string bytes) {
  std::size_t size = bytes.size();
  bytes.resize(size + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t *>(bytes.data()),
                                size, bytes.size()));
  return bytes;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data,
                                               std::size_t size,
                                               std::size_t limit,
                                               unsigned seed) {
  std::string bytes(reinterpret_cast<char *>(data), size);
  return put(fuzz::MUTATE(std::move(bytes), seed, mutateBytes), data, limit);
}
#endif

#ifdef CROSS
extern "C" std::size_t
LLVMFuzzerCustomCrossOver(const std::uint8_t *first, std::size_t firstSize,
                          const std::uint8_t *second, std::size_t secondSize,
                          std::uint8_t *out, std::size_t limit, unsigned seed) {
  return put(
      fuzz::CROSS(
          std::string(reinterpret_cast<const char *>(first), firstSize),
          std::string(reinterpret_cast<const char *>(second), secondSize),
          seed),
      out, limit);
}
#endif
