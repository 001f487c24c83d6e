//===- ParameterStorage.h - Storage of 16-bit parameters --------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H
#define BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H

#include "binade/Runtime/Program.h"

namespace binade {

/// Returns the metadata key of a state file whose value names the kind of
/// master weight of a parameter and, after a space, the tensor that stores it.
inline std::string masterKey(std::string_view parameter) {
  return "master/" + std::string(parameter);
}

/// Returns the name in a state file of the state that is added to a parameter
/// for evaluation and export. Most optimizers have none.
inline std::string nameOffset(std::string_view parameter) {
  return stateName(plan::Role::State,
                   "evaluation_offset/" + std::string(parameter));
}

/// Whether the tensor `name` of a state file is a state, scaler, step or
/// generator state, not a parameter or buffer.
bool isOfTraining(std::string_view name);

/// Whether `dtype` is a 16-bit floating-point type.
inline bool isNarrow(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F16;
}

/// Returns the elements of a 16-bit tensor as f32.
std::vector<float> widen(const Tensor &tensor);

/// Writes `values` to a 16-bit parameter, rounded as `master` needs it, or to
/// nearest even without `master`.
void storeRounded(std::span<const float> values,
                  std::optional<plan::Master> master, const Tensor &parameter);

/// Writes the initial master weight, remainder or compensation of a parameter
/// with the values `values`.
void storeCompanion(std::span<const float> values, plan::Master master,
                    const Tensor &companion);

/// Returns the f32 values of a parameter with its master weight, remainder or
/// compensation, `companion`.
std::vector<float> join(const Tensor &parameter, plan::Master master,
                        const Tensor &companion);

} // namespace binade

#endif // BINADE_LIB_RUNTIME_RUNS_PARAMETERSTORAGE_H
