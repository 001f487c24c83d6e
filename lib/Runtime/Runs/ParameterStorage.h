//===- ParameterStorage.h - F32 kept in 16 bits -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H
#define BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Metadata of a state file: its value says what is kept beside the parameter
/// and, after a space, in which tensor.
inline std::string masterKey(std::string_view parameter) {
  return "master/" + std::string(parameter);
}

/// Whether F32 can be rounded to it.
inline bool isNarrow(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F16;
}

/// The elements of a tensor that is narrow.
std::vector<float> widen(const Tensor &tensor);

/// Writes `values` to a tensor that is narrow, as `master` keeps a parameter;
/// to nearest without.
void storeRounded(std::span<const float> values,
                  std::optional<plan::Master> master, const Tensor &parameter);

/// Writes what `master` keeps beside a parameter that starts with `values`.
void storeBeside(std::span<const float> values, plan::Master master,
                 const Tensor &beside);

/// What `parameter` and `beside` stand for, which `master` keeps of it.
std::vector<float> join(const Tensor &parameter, plan::Master master,
                        const Tensor &beside);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H
