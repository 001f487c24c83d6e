/*===- binade.h - C interface of the runtime ---------------------*- C -*-===*\
|* Loads a bundle, accesses its tensors, runs its step. Functions that return *|
|* int return 0 or the exit code of Binade's tools for the same error; then   *|
|* `binade_last_error` returns the message. No function throws. A program may *|
|* be used by one thread at a time.                                           *|
\*===---------------------------------------------------------------------===*/

#ifndef BINADE_RUNTIME_BINADE_H
#define BINADE_RUNTIME_BINADE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BINADE_API __attribute__((visibility("default")))

/* Incremented when functions are added; existing functions never change. A
 * caller checks for at least the version that it was written for. */
#define BINADE_C_API_VERSION 3

typedef struct binade_program binade_program;

/* Memory of a tensor of the program, dense and row-major. Pointers are valid
 * until the program is freed. `role` and `dtype` are written as in the plan:
 * "parameter", "F32". */
typedef struct binade_tensor {
  const char *role;
  const char *name;
  const char *dtype;
  void *data;
  size_t bytes;
  int64_t rank;
  const int64_t *shape;
} binade_tensor;

/* Returns the version of Binade, such as "0.1.0". */
BINADE_API const char *binade_version(void);
BINADE_API int binade_c_api_version(void);

/* Returns the message of this thread's last failure: one or more lines without
 * a final newline, valid until the thread's next call. */
BINADE_API const char *binade_last_error(void);

/* Loads a bundle and sets all tensors to their initial values; random ones are
 * drawn from `seed`. External files are looked up in the bundle's directory. If
 * `threads` is 0, the bundle's thread count is used. */
BINADE_API int binade_program_load(const char *path, uint32_t threads,
                                   uint64_t seed, binade_program **program);
/* Loads a bundle from memory, which is copied. External files are looked up in
 * `directory`. */
BINADE_API int binade_program_load_memory(const void *bundle, size_t bytes,
                                          const char *directory,
                                          uint32_t threads, uint64_t seed,
                                          binade_program **program);
BINADE_API void binade_program_free(binade_program *program);

/* Loads a bundle whose ports of some roles are in memory of the caller, on the
 * device `device` ("cpu", "cuda:0"). `roles` are separated by commas:
 * "parameter,buffer,state". The caller binds each of these ports, then calls
 * binade_program_initialize. Since version 3. */
BINADE_API int binade_program_load_bound(const char *path, const char *device,
                                         uint32_t threads, const char *roles,
                                         binade_program **program);
/* Binds the port `index` (see binade_program_tensor_at) to dense, row-major
 * memory of the program's device, which has to outlive its use. On a CUDA
 * device, addresses are multiples of 16 bytes. Ports may be bound again between
 * steps. Since version 3. */
BINADE_API int binade_program_bind(binade_program *program, size_t index,
                                   void *memory);
/* Sets all tensors to their initial values, except bound parameters and
 * buffers, whose values are the caller's. Since version 3. */
BINADE_API int binade_program_initialize(binade_program *program,
                                         uint64_t seed);
/* Enqueues a step of a program with bound ports on `stream`, a CUstream of the
 * caller (null for the default stream), and does not wait. The stream may be
 * capturing a graph. The caller waits for it before it accesses ports that are
 * not bound. Since version 3. */
BINADE_API int binade_program_enqueue(binade_program *program, void *stream);

/* Executes the step once; if it has several batches, the last one has to be
 * set. All statistics are computed, including those with `@every=N`, because
 * steps are not counted here. Returns 3 if a kernel finds an index or label out
 * of range; the training state is invalid then. */
BINADE_API int binade_program_run(binade_program *program);

/* Accumulates the gradients of the batch, for all batches of a step but the
 * last; binade_program_run uses the mean. Sets `loss` to the batch's loss.
 * Returns 2 if the program was compiled for one batch per step, 3 as above. */
BINADE_API int binade_program_accumulate(binade_program *program, double *loss);

/* Sets `loss` to the loss of the batch, computed without dropout and with
 * running statistics. Does not change training state. Returns 2 if the program
 * has no evaluation, 3 as above. */
BINADE_API int binade_program_evaluate(binade_program *program, double *loss);

BINADE_API size_t binade_program_tensor_count(const binade_program *program);
BINADE_API int binade_program_tensor_at(const binade_program *program,
                                        size_t index, binade_tensor *tensor);
BINADE_API int binade_program_tensor(const binade_program *program,
                                     const char *role, const char *name,
                                     binade_tensor *tensor);
/* Copies a whole tensor into the program. Returns 3 if an index or label of a
 * batch input, or a hyper-parameter, is out of range. */
BINADE_API int binade_program_set(binade_program *program, const char *role,
                                  const char *name, const void *data,
                                  size_t bytes);

/* Writes the training state to a safetensors file. */
BINADE_API int binade_program_save(const binade_program *program,
                                   const char *path);
/* Restores training state from the tensors of a safetensors file that the
 * program has, too. */
BINADE_API int binade_program_restore(binade_program *program,
                                      const char *path);

/* Switches the measurement of records on, or off if `on` is 0. While it is on,
 * a CUDA device launches them one by one. */
BINADE_API int binade_program_set_profiling(binade_program *program, int on);
/* Writes the measurements in Chrome's trace format, with the roofline of the
 * machine, which takes some tenths of a second to measure. */
BINADE_API int binade_program_write_trace(binade_program *program,
                                          const char *path);

/* Functions for comparing two executions of a plan: they access bytes of the
 * arena, and execute a single record, without transferring ports. `list` is
 * "step", "accumulation", "evaluation" or "observation". `path` has `depth`
 * numbers: the indices of the loops around the record, outermost first, then
 * that of the record. `iteration` has the iterations of these depth - 1
 * loops. */
BINADE_API int binade_program_read_arena(binade_program *program,
                                         uint64_t offset, void *data,
                                         size_t bytes);
BINADE_API int binade_program_write_arena(binade_program *program,
                                          uint64_t offset, const void *data,
                                          size_t bytes);
BINADE_API int binade_program_run_record(binade_program *program,
                                         const char *list, const size_t *path,
                                         size_t depth,
                                         const int64_t *iteration);

#ifdef __cplusplus
}
#endif

#endif /* BINADE_RUNTIME_BINADE_H */
