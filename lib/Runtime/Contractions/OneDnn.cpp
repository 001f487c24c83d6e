//===- OneDnn.cpp - oneDNN, loaded at run time ----------------------------===//

#include "OneDnn.h"

#include <dlfcn.h>

using namespace binade;

#if BINADE_WITH_ONEDNN

static const OneDnn *load() {
  // Loads libgomp, on which oneDNN depends, with the settings of the team.
  ThreadTeam::get();
  void *library =
      ::dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return nullptr;
  static OneDnn dnn;
  bool complete = true;
#define BINADE_LOAD(NAME)                                                      \
  dnn.NAME =                                                                   \
      reinterpret_cast<decltype(dnn.NAME)>(::dlsym(library, "dnnl_" #NAME));   \
  complete &= dnn.NAME != nullptr;
  BINADE_ONEDNN_FUNCTIONS(BINADE_LOAD)
#undef BINADE_LOAD
  // The layout of descriptors depends on the major version.
  if (!complete || dnn.version()->major != DNNL_VERSION_MAJOR ||
      dnn.version()->minor < DNNL_VERSION_MINOR)
    return nullptr;
  if (dnn.engine_create(&dnn.engine, dnnl_cpu, 0) != dnnl_success ||
      dnn.stream_create(&dnn.stream, dnn.engine, dnnl_stream_default_flags) !=
          dnnl_success)
    return nullptr;
  return &dnn;
}

const OneDnn *OneDnn::get() {
  static const OneDnn *dnn = load();
  return dnn;
}

std::optional<dnnl_data_type_t> binade::toDnn(DType type) {
  switch (type) {
  case DType::F32:
    return dnnl_f32;
  case DType::BF16:
    return dnnl_bf16;
  default:
    return std::nullopt;
  }
}

/// Creates attributes: the caller provides scratch memory, and f32 operands are
/// not rounded to a narrower type. Returns null on failure.
static dnnl_primitive_attr_t createAttributes(const OneDnn &dnn, bool addend) {
  dnnl_primitive_attr_t attributes = nullptr;
  if (dnn.primitive_attr_create(&attributes) != dnnl_success)
    return nullptr;
  bool done = dnn.primitive_attr_set_scratchpad_mode(
                  attributes, dnnl_scratchpad_mode_user) == dnnl_success &&
              dnn.primitive_attr_set_fpmath_mode(
                  attributes, dnnl_fpmath_mode_strict) == dnnl_success;
  if (addend) {
    dnnl_post_ops_t post = nullptr;
    done &= dnn.post_ops_create(&post) == dnnl_success &&
            dnn.post_ops_append_sum(post, 1.0f) == dnnl_success &&
            dnn.primitive_attr_set_post_ops(attributes, post) == dnnl_success;
    if (post)
      dnn.post_ops_destroy(post);
  }
  if (done)
    return attributes;
  dnn.primitive_attr_destroy(attributes);
  return nullptr;
}

std::optional<DnnPrimitive> DnnPrimitive::create(const_dnnl_op_desc_t operation,
                                                 bool addend) {
  const OneDnn &dnn = *OneDnn::get();
  dnnl_primitive_attr_t attributes = createAttributes(dnn, addend);
  if (!attributes)
    return std::nullopt;
  dnnl_primitive_desc_iterator_t candidates = nullptr;
  dnnl_status_t status = dnn.primitive_desc_iterator_create(
      &candidates, operation, attributes, dnn.engine, nullptr);
  std::optional<DnnPrimitive> found;
  while (status == dnnl_success && !found) {
    DnnPrimitive candidate;
    dnnl_primitive_desc_t chosen =
        dnn.primitive_desc_iterator_fetch(candidates);
    if (candidate.finish(chosen))
      found = std::move(candidate);
    else
      status = dnn.primitive_desc_iterator_next(candidates);
  }
  if (candidates)
    dnn.primitive_desc_iterator_destroy(candidates);
  dnn.primitive_attr_destroy(attributes);
  return found;
}

std::optional<DnnPrimitive>
DnnPrimitive::createReorder(const dnnl_memory_desc_t &from,
                            const dnnl_memory_desc_t &to) {
  const OneDnn &dnn = *OneDnn::get();
  dnnl_primitive_attr_t attributes = createAttributes(dnn, false);
  if (!attributes)
    return std::nullopt;
  DnnPrimitive reorder;
  dnnl_primitive_desc_t descriptor = nullptr;
  bool done =
      dnn.reorder_primitive_desc_create(&descriptor, &from, dnn.engine, &to,
                                        dnn.engine,
                                        attributes) == dnnl_success &&
      dnn.primitive_create(&reorder.primitive, descriptor) == dnnl_success;
  reorder.descriptor = descriptor;
  dnn.primitive_attr_destroy(attributes);
  if (!done)
    return std::nullopt;
  reorder.add(DNNL_ARG_FROM, from);
  reorder.add(DNNL_ARG_TO, to);
  reorder.add(DNNL_ARG_SCRATCHPAD, reorder.query(dnnl_query_scratchpad_md));
  return reorder;
}

bool DnnPrimitive::finish(dnnl_primitive_desc_t chosen) {
  const OneDnn &dnn = *OneDnn::get();
  descriptor = chosen;
  const char *text = nullptr;
  if (!chosen || dnn.primitive_desc_query(chosen, dnnl_query_impl_info_str, 0,
                                          &text) != dnnl_success)
    return false;
  name = text;
  if (name.find("ref") != name.npos)
    return false;
  return dnn.primitive_create(&primitive, chosen) == dnnl_success;
}

DnnPrimitive::DnnPrimitive(DnnPrimitive &&other) noexcept {
  *this = std::move(other);
}

DnnPrimitive &DnnPrimitive::operator=(DnnPrimitive &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(primitive, other.primitive);
  std::swap(arguments, other.arguments);
  std::swap(name, other.name);
  return *this;
}

DnnPrimitive::~DnnPrimitive() {
  for (const dnnl_exec_arg_t &argument : arguments)
    OneDnn::get()->memory_destroy(argument.memory);
  if (primitive)
    OneDnn::get()->primitive_destroy(primitive);
  if (descriptor)
    OneDnn::get()->primitive_desc_destroy(descriptor);
}

const dnnl_memory_desc_t &DnnPrimitive::query(dnnl_query_t what) const {
  return *OneDnn::get()->primitive_desc_query_md(descriptor, what, 0);
}

std::uint64_t DnnPrimitive::getScratchBytes() const {
  return OneDnn::get()->memory_desc_get_size(&query(dnnl_query_scratchpad_md));
}

void DnnPrimitive::add(int argument, const dnnl_memory_desc_t &layout) {
  dnnl_memory_t memory = nullptr;
  if (OneDnn::get()->memory_create(&memory, &layout, OneDnn::get()->engine,
                                   DNNL_MEMORY_NONE) == dnnl_success)
    arguments.push_back({argument, memory});
}

void DnnPrimitive::set(int argument, void *address) {
  for (const dnnl_exec_arg_t &candidate : arguments)
    if (candidate.arg == argument)
      OneDnn::get()->memory_set_data_handle(candidate.memory, address);
}

void DnnPrimitive::execute() const {
  OneDnn::get()->primitive_execute(primitive, OneDnn::get()->stream,
                                   static_cast<int>(arguments.size()),
                                   arguments.data());
}

std::string binade::oneDnnVersion() {
  const OneDnn *dnn = OneDnn::get();
  if (!dnn)
    return {};
  const dnnl_version_t &version = *dnn->version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) +
         "." + std::to_string(version.patch);
}

#else

std::string binade::oneDnnVersion() { return {}; }

#endif // BINADE_WITH_ONEDNN
