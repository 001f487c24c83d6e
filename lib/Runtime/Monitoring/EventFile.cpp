//===- EventFile.cpp - Metrics for TensorBoard ----------------------------===//
// An event file is a sequence of TFRecords, each a message `Event` of
// TensorFlow's event.proto and summary.proto in the protocol buffer wire
// format. The few fields are encoded here instead of with libprotobuf, because
// a second libprotobuf conflicts with the one of a framework in the same
// process. See docs/decisions/0019-run-directories.md.
//===----------------------------------------------------------------------===//

#include "EventFile.h"
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

using namespace binade;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Fields of event.proto and summary.proto.
enum EventField : unsigned {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7,
};
enum SummaryField : unsigned {
  kValue = 1,
  kTag = 1,
  kSimpleValue = 2,
  kHistogram = 5,
};
enum HistogramField : unsigned {
  kMin = 1,
  kMax = 2,
  kNumber = 3,
  kSum = 4,
  kSumSquares = 5,
  kBucketLimit = 6,
  kBucket = 7,
};
enum SessionLogField : unsigned { kStatus = 1 };
static constexpr std::int64_t kSessionStart = 1;

namespace {
/// A protocol buffer message that grows field by field.
class Message {
public:
  Message &add(unsigned field, double value) { return fixed(field, 1, value); }
  Message &add(unsigned field, float value) { return fixed(field, 5, value); }
  Message &add(unsigned field, std::int64_t value) {
    varint(field << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message &add(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message &add(unsigned field, const Message &value) {
    return add(field, std::string_view(value.bytes));
  }

  /// Adds a message of a string and a float without a temporary `Message`,
  /// because a step may have thousands of them.
  Message &add(unsigned field, std::string_view tag, float value) {
    Message length;
    length.varint(tag.size());
    varint(field << 3 | 2);
    varint(1 + length.bytes.size() + tag.size() + 1 + sizeof(value));
    return add(kTag, tag).add(kSimpleValue, value);
  }

  /// Adds a packed repeated field.
  Message &add(unsigned field, std::span<const double> values) {
    return add(field,
               std::string_view(reinterpret_cast<const char *>(values.data()),
                                values.size_bytes()));
  }

  const std::string &getBytes() const { return bytes; }

private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
  template <typename T> Message &fixed(unsigned field, unsigned type, T value) {
    varint(field << 3 | type);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
    return *this;
  }

  std::string bytes;
};
} // namespace

static Message makeEvent() {
  std::chrono::duration<double> now =
      std::chrono::system_clock::now().time_since_epoch();
  return Message().add(kWallTime, now.count());
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

/// Tables for CRC-32C (Castagnoli) with eight bytes per iteration: the CRC of
/// each byte followed by n zero bytes, for n from 0 to 7.
static constexpr auto kCrcOfByte = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (std::array<std::uint32_t, 256> &table : tables) {
      for (int bit = 0; bit < 8; ++bit)
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
      table[byte] = crc;
    }
  }
  return tables;
}();

/// Returns the CRC-32C of `bytes`, masked as TFRecord requires.
static std::uint32_t maskedCrc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    crc = 0;
    for (unsigned byte = 0; byte < 8; ++byte)
      crc ^= kCrcOfByte[7 - byte][word >> 8 * byte & 0xff];
  }
  for (char byte : bytes)
    crc = crc >> 8 ^
          kCrcOfByte[0][(crc ^ static_cast<std::uint8_t>(byte)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

template <typename T> static void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// Appends a TFRecord: length, its checksum, the event, its checksum.
static void appendRecord(std::string &records, const Message &event) {
  std::string length;
  append(length, static_cast<std::uint64_t>(event.getBytes().size()));
  records += length;
  append(records, maskedCrc(length));
  records += event.getBytes();
  append(records, maskedCrc(event.getBytes()));
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

/// Returns a new file name with a time stamp in seconds, later than those of
/// all existing files, because readers order the files by name.
static std::string chooseName(const std::string &directory) {
  constexpr std::string_view kPrefix = "events.out.tfevents.";
  std::int64_t stamp = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  std::error_code ignored;
  for (const auto &entry :
       std::filesystem::directory_iterator(directory, ignored)) {
    std::string name = entry.path().filename();
    std::int64_t other = 0;
    if (name.starts_with(kPrefix) &&
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(),
                        other)
                .ec == std::errc())
      stamp = std::max(stamp, other + 1);
  }
  return std::string(kPrefix) + std::to_string(stamp) + ".binade";
}

Result<EventFile> EventFile::create(const std::string &directory,
                                    std::int64_t step) {
  Result<AppendFile> opened =
      AppendFile::open(directory + "/" + chooseName(directory));
  if (!opened)
    return opened.takeError();
  EventFile file(*std::move(opened));
  appendRecord(file.pending, makeEvent().add(kFileVersion, "brain.Event:2"));
  appendRecord(file.pending,
               makeEvent()
                   .add(kStep, step)
                   .add(kSessionLog, Message().add(kStatus, kSessionStart)));
  if (Result<void> flushed = file.flush(); !flushed)
    return flushed.takeError();
  return file;
}

/// Returns a histogram of exponents with one bucket per binade.
static Message makeHistogram(std::span<const std::int64_t> counts) {
  std::vector<double> limits, buckets;
  double number = 0, sum = 0, squares = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] == 0 && buckets.empty())
      continue;
    double exponent = static_cast<double>(bin) + kFirstExponent;
    auto count = static_cast<double>(counts[bin]);
    limits.push_back(exponent + 1);
    buckets.push_back(count);
    number += count;
    sum += count * exponent;
    squares += count * exponent * exponent;
  }
  while (!buckets.empty() && buckets.back() == 0) {
    limits.pop_back();
    buckets.pop_back();
  }
  Message histogram;
  histogram.add(kMin, limits.empty() ? 0.0 : limits.front() - 1)
      .add(kMax, limits.empty() ? 0.0 : limits.back())
      .add(kNumber, number)
      .add(kSum, sum)
      .add(kSumSquares, squares)
      .add(kBucketLimit, std::span<const double>(limits))
      .add(kBucket, std::span<const double>(buckets));
  return histogram;
}

/// Returns the tag of a statistic. TensorBoard groups cards by the text before
/// the first slash and sorts the groups, so these follow `eval` and `train`.
static std::string makeTag(const Observed &one) {
  std::string tag = "values-";
  tag.append(one.kind).append("-").append(one.statistic);
  return tag.append("/").append(one.layer);
}

static void addScalar(Message &summary, std::string_view tag,
                      std::optional<double> value) {
  if (value)
    summary.add(kValue, tag, static_cast<float>(*value));
}

static void addEvaluation(Message &summary, const StepMetrics &metrics) {
  addScalar(summary, "eval/loss", metrics.evalLoss);
  for (const EvaluationMetric &metric : metrics.evalMetrics)
    addScalar(summary, "eval/" + metric.name, metric.value);
}

Result<void> EventFile::writeEvaluation(const StepMetrics &metrics) {
  Message summary;
  addEvaluation(summary, metrics);
  appendRecord(pending,
               makeEvent().add(kStep, metrics.step).add(kSummary, summary));
  return flush();
}

void EventFile::add(std::int64_t step, std::string_view tag, double value) {
  Message summary;
  addScalar(summary, tag, value);
  appendRecord(pending, makeEvent().add(kStep, step).add(kSummary, summary));
}

Result<void> EventFile::write(const StepMetrics &metrics,
                              std::span<const Observed> observed,
                              std::span<const Alarm> alarms) {
  Message summary;
  if (metrics.step > 0) {
    addScalar(summary, "train/loss", metrics.loss);
    addScalar(summary, "train/grad_norm", metrics.gradNorm);
    addScalar(summary, "train/loss_scale", metrics.lossScale);
    addScalar(summary, "train/lr", metrics.learningRate);
    addScalar(summary, "train/skipped", metrics.skipped ? 1.0 : 0.0);
  }
  addEvaluation(summary, metrics);
  for (const Observed &one : observed)
    if (one.exponents.empty())
      addScalar(summary, makeTag(one), one.number);
    else
      summary.add(kValue, Message()
                              .add(kTag, makeTag(one))
                              .add(kHistogram, makeHistogram(one.exponents)));
  for (const Alarm &alarm : alarms)
    addScalar(summary,
              "train-alarm/" + alarm.rule +
                  (alarm.where.empty() ? "" : "/" + alarm.where),
              alarm.value);
  appendRecord(pending,
               makeEvent().add(kStep, metrics.step).add(kSummary, summary));
  if (Clock::now() - flushed < std::chrono::seconds(1))
    return {};
  return flush();
}

Result<void> EventFile::flush() {
  if (pending.empty())
    return {};
  flushed = Clock::now();
  return file.write(std::exchange(pending, {}));
}

Result<void> EventFile::sync() {
  if (Result<void> done = flush(); !done)
    return done;
  return file.sync();
}
