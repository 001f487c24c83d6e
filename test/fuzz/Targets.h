//===- Targets.h - Functions that read untrusted bytes ----------*- C++ -*-===//
// Each function reads `bytes` as one kind of file and discards the result.
// Whatever the bytes are, it returns: sanitizers and the checks of `Check.h`
// end the process otherwise. A fuzzer calls one of them a million times, the
// unit test calls all of them with the inputs that once went wrong.
//===----------------------------------------------------------------------===//

#ifndef BINADE_TEST_FUZZ_TARGETS_H
#define BINADE_TEST_FUZZ_TARGETS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace binade::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// Imports an ONNX model as a verified module.
void readOnnx(Bytes bytes);
/// Converts an ONNX model to the formats of a policy.
void convertModel(Bytes bytes);
/// Parses a textual module.
void readModule(Bytes bytes);
/// Parses a policy.
void readPolicy(Bytes bytes);
/// Reads a safetensors file: a data set, a shard of a checkpoint, or a bundle.
void readSafetensors(Bytes bytes);
/// Reads an array of NumPy, or an archive of arrays.
void readNumpy(Bytes bytes);
/// Parses the JSON plan of a bundle without checking its hash.
void readPlan(Bytes bytes);

/// Mutates `bytes` within the structure of their file format, so that the code
/// after the first checks is reached. Bytes that do not parse, and some that
/// do, are changed by `mutate`, which ignores the format.
using Mutate = std::string (*)(std::string bytes);
std::string mutateProtobuf(std::string bytes, unsigned seed, Mutate mutate);
std::string mutateJson(std::string bytes, unsigned seed, Mutate mutate);
/// Mutates the JSON header of a safetensors file and corrects its length. Some
/// seeds mutate the bytes of the file instead.
std::string mutateSafetensors(std::string bytes, unsigned seed, Mutate mutate);
/// Replaces a field of `bytes` by a field of the same kind from `other`.
std::string crossProtobuf(const std::string &bytes, const std::string &other,
                          unsigned seed);

} // namespace binade::fuzz

#endif // BINADE_TEST_FUZZ_TARGETS_H
