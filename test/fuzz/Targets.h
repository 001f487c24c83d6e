//===- Targets.h - Readers of files, to be fed with anything ----*- C++ -*-===//
// Each function reads `bytes` as one kind of file and throws the result away.
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

/// The importer: an ONNX model, which becomes a verified module.
void readOnnx(Bytes bytes);
/// The converter: an ONNX model, written again in the formats of a policy.
void convertModel(Bytes bytes);
/// A textual module, through the one function that parses any.
void readModule(Bytes bytes);
/// A policy.
void readPolicy(Bytes bytes);
/// A file of tensors: a data set, a checkpoint's shard, a bundle.
void readSafetensors(Bytes bytes);
/// The plan in a bundle, without its hash.
void readPlan(Bytes bytes);

/// Changes `bytes` somewhere, as the kind of file that they are: what is read
/// after the first check is reached in spite of lengths and counts. `mutate`
/// changes bytes without form.
using Mutate = std::string (*)(std::string bytes);
std::string mutateProtobuf(std::string bytes, unsigned seed, Mutate mutate);
std::string mutateJson(std::string bytes, unsigned seed, Mutate mutate);
/// JSON behind its length, and data.
std::string mutateSafetensors(std::string bytes, unsigned seed, Mutate mutate);
/// Puts a part of `other` in the place of one of its kind in `bytes`.
std::string crossProtobuf(const std::string &bytes, const std::string &other,
                          unsigned seed);

} // namespace binade::fuzz

#endif // BINADE_TEST_FUZZ_TARGETS_H
