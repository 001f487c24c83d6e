//===- StreamExchange.cpp - Exchanges between work of a stream ------------===//
//
// The transport enqueues its work after that of the step, on the same stream,
// or on others that the stream waits for at the join. Graphs do not contain it.
//
//===----------------------------------------------------------------------===//

#include "../Exchange/Group.h"
#include "StreamOperation.h"

using namespace binade;
using namespace binade::cuda;

namespace {
class StreamExchange : public StreamOperation {
public:
  StreamExchange(const plan::Exchange &record, const StreamSetup &setup)
      : record(record), device(*setup.device), group(*setup.exchange) {
    if (record.counter)
      counter = toDevice(setup.memory.addressOf(*record.counter).at({}));
  }

  Result<void> run(std::span<const std::int64_t>) override {
    group.setStream(device.getStream());
    Result<void> done;
    if (record.action == plan::Exchange::Start)
      group.start(record.bucket, exchange::forEachInOrder);
    else
      group.join([&](std::int64_t step) { done = setCounter(step); },
                 exchange::forEachInOrder);
    if (!group.hasFailed())
      return done;
    // Later work reads what has not arrived.
    Result<void> waited = device.wait();
    return waited ? group.takeFailure() : waited;
  }

private:
  Result<void> setCounter(std::int64_t step) {
    return counter ? device.upload(counter + sizeof(step), &step, sizeof(step))
                   : Result<void>();
  }

  const plan::Exchange &record;
  Device &device;
  exchange::Group &group;
  cuda::Address counter = 0;
};
} // namespace

MadeOperation cuda::createExchange(const plan::Record &record,
                                   const StreamSetup &setup) {
  auto &exchange = std::get<plan::Exchange>(record.body);
  bool isSupported = exchange.action == plan::Exchange::Join ||
                     (exchange.action == plan::Exchange::Start &&
                      exchange.operation == plan::Exchange::Sum &&
                      exchange.format == plan::Exchange::F32);
  if (!isSupported)
    return Error{setup.where,
                 "devices exchange only sums of f32; compile with --exchange "
                 "f32",
                 ExitCode::Rejected};
  return std::unique_ptr<StreamOperation>(
      std::make_unique<StreamExchange>(exchange, setup));
}
