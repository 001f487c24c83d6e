//===- Data.cpp - Data files and the order of samples for Python ----------===//

#include "binade/Runtime/Data.h"
#include "Failure.h"
#include "Modules.h"
#include "binade/Runtime/SampleOrder.h"
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace binade;
using namespace binade::python;

static Data open(const Program &program, const std::string &path,
                 const std::string &windows, std::int64_t stride) {
  DataOptions options;
  options.path = path;
  if (!windows.empty())
    options.windows = take(parseWindows(windows));
  options.stride = stride;
  return take(Data::open(program, options));
}

void python::addData(nb::module_ &module) {
  nb::class_<Data>(module, "Data")
      .def("samples", &Data::getNumSamples)
      .def("batch", &Data::getBatch)
      .def("fill",
           [](const Data &data, const std::vector<std::uint64_t> &samples) {
             nb::gil_scoped_release release;
             check(data.fill(samples));
           });
  // Filling writes to the program's memory, so it has to outlive the data.
  module.def("open_data", &open, "program"_a, "path"_a, "windows"_a, "stride"_a,
             nb::keep_alive<0, 1>());
  nb::class_<SampleOrder>(module, "SampleOrder")
      .def(
          "__init__",
          [](SampleOrder *self, bool isShuffled, std::uint64_t count,
             std::uint64_t batch, std::uint64_t seed) {
            new (self)
                SampleOrder(isShuffled ? Order::Shuffle : Order::Sequential,
                            count, batch, seed);
          },
          "shuffled"_a, "count"_a, "batch"_a, "seed"_a)
      .def("next",
           [](SampleOrder &order) {
             auto samples = order.next();
             return std::vector<std::uint64_t>(samples.begin(), samples.end());
           })
      .def("skip", &SampleOrder::skip, "batches"_a);
}
