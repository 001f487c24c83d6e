//===- OneDnn.h - oneDNN, loaded at run time --------------------*- C++ -*-===//
// Types come from the header dnnl.h at build time, functions from libdnnl.so.2
// at run time; both are optional.
//===----------------------------------------------------------------------===//

#ifndef BINADE_LIB_RUNTIME_CONTRACTIONS_ONEDNN_H
#define BINADE_LIB_RUNTIME_CONTRACTIONS_ONEDNN_H

#include "../Execution/Operation.h"

#if BINADE_WITH_ONEDNN
#include "dnnl.h"

namespace binade {

/// Lists every function of oneDNN that is used.
#define BINADE_ONEDNN_FUNCTIONS(X)                                             \
  X(version)                                                                   \
  X(engine_create)                                                             \
  X(stream_create)                                                             \
  X(memory_desc_init_by_strides)                                               \
  X(memory_desc_init_by_tag)                                                   \
  X(memory_desc_get_size)                                                      \
  X(memory_desc_equal)                                                         \
  X(memory_create)                                                             \
  X(memory_destroy)                                                            \
  X(memory_set_data_handle)                                                    \
  X(primitive_attr_create)                                                     \
  X(primitive_attr_destroy)                                                    \
  X(primitive_attr_set_scratchpad_mode)                                        \
  X(primitive_attr_set_fpmath_mode)                                            \
  X(primitive_attr_set_post_ops)                                               \
  X(post_ops_create)                                                           \
  X(post_ops_destroy)                                                          \
  X(post_ops_append_sum)                                                       \
  X(matmul_desc_init)                                                          \
  X(dilated_convolution_forward_desc_init)                                     \
  X(dilated_convolution_backward_data_desc_init)                               \
  X(dilated_convolution_backward_weights_desc_init)                            \
  X(reorder_primitive_desc_create)                                             \
  X(primitive_desc_iterator_create)                                            \
  X(primitive_desc_iterator_next)                                              \
  X(primitive_desc_iterator_fetch)                                             \
  X(primitive_desc_iterator_destroy)                                           \
  X(primitive_desc_destroy)                                                    \
  X(primitive_desc_query)                                                      \
  X(primitive_desc_query_md)                                                   \
  X(primitive_create)                                                          \
  X(primitive_destroy)                                                         \
  X(primitive_execute)

/// The library's functions with a CPU engine and its stream.
struct OneDnn {
#define BINADE_DECLARE(NAME) decltype(&::dnnl_##NAME) NAME;
  BINADE_ONEDNN_FUNCTIONS(BINADE_DECLARE)
#undef BINADE_DECLARE
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;

  /// Returns null if the library is not found or has another version.
  static const OneDnn *get();
};

/// A oneDNN primitive with its arguments. The caller provides scratch memory.
class DnnPrimitive {
public:
  /// Creates the first implementation that is not reference code; returns
  /// nothing if there is none. With `addend`, it adds to the old destination.
  static std::optional<DnnPrimitive> create(const_dnnl_op_desc_t operation,
                                            bool addend = false);
  static std::optional<DnnPrimitive>
  createReorder(const dnnl_memory_desc_t &from, const dnnl_memory_desc_t &to);

  DnnPrimitive(DnnPrimitive &&other) noexcept;
  DnnPrimitive &operator=(DnnPrimitive &&other) noexcept;
  ~DnnPrimitive();

  const std::string &getName() const { return name; }
  /// Returns the layout that the implementation chose.
  const dnnl_memory_desc_t &query(dnnl_query_t what) const;
  std::uint64_t getScratchBytes() const;

  void add(int argument, const dnnl_memory_desc_t &layout);
  void set(int argument, void *address);
  void execute() const;

private:
  DnnPrimitive() = default;
  bool finish(dnnl_primitive_desc_t chosen);

  dnnl_primitive_desc_t descriptor = nullptr;
  dnnl_primitive_t primitive = nullptr;
  std::vector<dnnl_exec_arg_t> arguments;
  std::string name;
};

/// Returns oneDNN's constant for a type; nothing if it does not support the
/// type on CPUs.
std::optional<dnnl_data_type_t> toDnn(DType type);

} // namespace binade

#endif // BINADE_WITH_ONEDNN
#endif // BINADE_LIB_RUNTIME_CONTRACTIONS_ONEDNN_H
