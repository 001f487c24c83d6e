//===- Data.h - Batches from a data file ------------------------*- C++ -*-===//
// A data file holds one tensor per batch input, whose first axis counts
// samples, or streams of one axis from which inputs are cut as windows.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_DATA_H
#define BINADE_RUNTIME_DATA_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Input `input` of a sample is elements [start + begin, start + end) of the
/// stream `tensor`; all windows of one sample have the same start.
struct Window {
  std::string input, tensor;
  std::int64_t begin = 0, end = 0;
};

/// Reads `input_ids=tokens[0:256],labels=tokens[1:257]`. Errors are of exit
/// code 2.
Result<std::vector<Window>> parseWindows(std::string_view text);

struct DataOptions {
  std::string path;
  std::vector<Window> windows;
  /// Elements from the start of one sample to that of the next; 0 for the
  /// length of the longest window.
  std::int64_t stride = 0;
  /// Input name and file of inputs that are the same in every step.
  std::vector<std::pair<std::string, std::string>> constants;
  /// When given, has to be the program's batch.
  std::optional<std::int64_t> batch;
};

/// Fills a program's batch inputs. Bytes are copied from the file as they are
/// needed; integers of a narrower type are widened.
class Data {
public:
  /// Opens and checks everything that could go wrong later: names, shapes,
  /// types, the number of samples, and the range of indices and labels.
  /// Errors name file and tensor, what was found and what was expected (3).
  static Result<Data> open(const Program &program, const DataOptions &options);

  /// Whole samples of the file.
  std::uint64_t getNumSamples() const;
  /// Samples per step.
  std::uint64_t getBatch() const;
  /// The file's name for messages, printable.
  const std::string &getPath() const;

  /// Holds out the last samples, `fraction` of all, rounded. Training has those
  /// before them that share no element with them: windows may overlap. Either
  /// part too small for a batch is an error of exit code 3.
  struct Split {
    std::uint64_t training; ///< Samples 0 to this one.
    std::uint64_t heldOut;  ///< Those from this one on.
  };
  Result<Split> split(double fraction) const;

  /// Writes all batch inputs; `samples` has `getBatch()` numbers below
  /// `getNumSamples()`.
  Result<void> fill(std::span<const std::uint64_t> samples) const;

  Data(Data &&) noexcept;
  Data &operator=(Data &&) noexcept;
  ~Data();

private:
  struct Implementation;
  explicit Data(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

} // namespace binade

#endif // BINADE_RUNTIME_DATA_H
