//===- Data.h - Batches from a data file ------------------------*- C++ -*-===//
// A data file contains one tensor per batch input, whose first axis counts
// samples, or one-dimensional streams, of which samples are windows.
//===----------------------------------------------------------------------===//

#ifndef BINADE_RUNTIME_DATA_H
#define BINADE_RUNTIME_DATA_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Specifies that input `input` of a sample is elements [start + begin,
/// start + end) of the stream `tensor`. All windows of a sample have the same
/// start.
struct Window {
  std::string input, tensor;
  std::int64_t begin = 0, end = 0;
};

/// Parses windows such as `input_ids=tokens[0:256],labels=tokens[1:257]`.
/// Errors have exit code 2.
Result<std::vector<Window>> parseWindows(std::string_view text);

struct DataOptions {
  std::string path;
  std::vector<Window> windows;
  /// Elements from the start of a window to the start of the next; 0 for the
  /// length of the longest window.
  std::int64_t stride = 0;
  /// Name and file of each input that has the same value in every step.
  std::vector<std::pair<std::string, std::string>> constants;
  /// The expected batch size; an error if the program has another.
  std::optional<std::int64_t> batch;
};

/// Fills a program's batch inputs. Samples are read from the file when they are
/// needed, and converted to the type of the input.
class Data {
public:
  /// Opens the file and checks names, shapes, types, the number of samples, and
  /// the range of indices and labels. Errors (exit code 3) name file and
  /// tensor, what was found and what was expected.
  static Result<Data> open(const Program &program, const DataOptions &options);

  /// Returns the number of complete samples in the file.
  std::uint64_t getNumSamples() const;
  /// Returns the number of samples per batch.
  std::uint64_t getBatch() const;
  /// Returns the printable path of the file for messages.
  const std::string &getPath() const;

  /// Holds out the last samples, `fraction` of all, rounded. Training uses the
  /// samples before them, except those whose windows overlap a held-out sample.
  /// It is an error (exit code 3) if either part is smaller than a batch.
  struct Split {
    std::uint64_t training; ///< The end of the training samples.
    std::uint64_t heldOut;  ///< The first held-out sample.
  };
  Result<Split> split(double fraction) const;

  /// Writes all batch inputs. `samples` contains `getBatch()` indices less than
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
