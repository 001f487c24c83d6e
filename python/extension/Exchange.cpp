//===- Exchange.cpp - Exchange of gradients for Python --------------------===//

#include "binade/Runtime/Exchange.h"
#include "Failure.h"
#include "Modules.h"
#include "binade/Runtime/ExchangeReport.h"
#include <nanobind/ndarray.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

namespace {
/// The exchange of a step, in memory of the host or of a device.
struct Exchange {
  StepExchange *step;
  bool isOnDevice;
};
} // namespace

/// The exception of a callback that ended the step of this thread.
static thread_local std::exception_ptr raised;

void python::setExchange(Program &program, std::uint32_t rank,
                         std::uint32_t size, nb::object callback) {
  if (callback.ptr() == Py_None)
    return check(program.setExchange({}, nullptr));
  // Copies of the transport are made and destroyed with the interpreter's lock.
  auto shared = std::make_shared<nb::object>(std::move(callback));
  bool isOnDevice = !program.getPlan().chip.empty();
  check(program.setExchange(
      {rank, size}, [=](StepExchange &exchange, ExchangeEvent event,
                        std::uint32_t bucket, void *stream) {
        nb::gil_scoped_acquire lock;
        try {
          (*shared)(nb::cast(Exchange{&exchange, isOnDevice}),
                    event == ExchangeEvent::Start ? "start" : "join", bucket,
                    reinterpret_cast<std::uintptr_t>(stream));
          return 0;
        } catch (...) {
          if (!raised)
            raised = std::current_exception();
          exchange.fail("the callback raised an exception");
          return 1;
        }
      }));
}

void python::runStep(Program &program) {
  Result<void> done;
  {
    nb::gil_scoped_release release;
    done = program.run({}, /*observes=*/true);
    if (done)
      done = program.checkIndices();
  }
  if (std::exception_ptr exception = std::exchange(raised, nullptr))
    std::rethrow_exception(exception);
  check(std::move(done));
}

static std::string_view name(Transfer::Operation operation) {
  constexpr std::string_view names[kNumTransferOperations] = {
      "sum", "max", "all_to_all", "all_gather"};
  return names[operation];
}

/// Returns the operation, the type of elements, and what is sent and received:
/// bytes, or address and size in bytes on a device.
static std::tuple<std::string_view, std::string_view, nb::object, nb::object>
beginTransfer(nb::handle self, std::uint32_t bucket, std::uint32_t index) {
  auto &exchange = nb::cast<Exchange &>(self);
  Transfer transfer = [&] {
    nb::gil_scoped_release release;
    return take(exchange.step->begin(bucket, index));
  }();
  std::size_t sent = transfer.count * byteSize(transfer.dtype),
              received = transfer.operation == Transfer::AllGather
                             ? sent * exchange.step->getRank().size
                             : sent;
  auto share = [&](std::byte *data, std::size_t bytes) -> nb::object {
    if (exchange.isOnDevice)
      return nb::make_tuple(reinterpret_cast<std::uintptr_t>(data), bytes);
    return nb::cast(
        Bytes(reinterpret_cast<std::uint8_t *>(data), {bytes}, self));
  };
  return {name(transfer.operation), name(transfer.dtype),
          share(transfer.send, sent), share(transfer.receive, received)};
}

nb::object python::describeExchange(const Program &program) {
  std::optional<ExchangeReport> report =
      binade::describeExchange(program.getPlan());
  if (!report)
    return nb::none();
  nb::list buckets;
  for (const BucketReport &bucket : report->buckets) {
    nb::dict one;
    one["operation"] = plan::name(bucket.operation);
    one["tensors"] = bucket.tensors;
    one["elements"] = bucket.elements;
    one["ready"] = bucket.ready;
    buckets.append(std::move(one));
  }
  nb::dict all;
  all["format"] = plan::name(report->format);
  all["batches"] = report->batches;
  all["error"] = describeError(report->format);
  all["buckets"] = std::move(buckets);
  return all;
}

void python::addExchange(nb::module_ &module) {
  nb::class_<Exchange>(module, "Exchange")
      .def_prop_ro("rank",
                   [](const Exchange &exchange) {
                     return exchange.step->getRank().rank;
                   })
      .def_prop_ro("size",
                   [](const Exchange &exchange) {
                     return exchange.step->getRank().size;
                   })
      .def_prop_ro("buckets",
                   [](const Exchange &exchange) {
                     return exchange.step->countBuckets();
                   })
      .def(
          "transfers",
          [](const Exchange &exchange, std::uint32_t bucket) {
            return exchange.step->countTransfers(bucket);
          },
          "bucket"_a)
      .def("transfer", &beginTransfer, "bucket"_a, "index"_a)
      .def(
          "finish",
          [](Exchange &exchange, std::uint32_t bucket) {
            nb::gil_scoped_release release;
            check(exchange.step->finish(bucket));
          },
          "bucket"_a);
}
