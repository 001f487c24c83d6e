/*===- binade.h - The runtime for C and what can call C ----------*- C -*-===*\
|* Loads a bundle, gives access to its tensors, runs its step. Functions that *|
|* return int give 0 or the exit code that a Binade tool would end with, and  *|
|* then `binade_last_error` says why. Nothing throws. A program is used by    *|
|* one thread at a time.                                                      *|
\*===---------------------------------------------------------------------===*/

#ifndef BINADE_RUNTIME_BINADE_H
#define BINADE_RUNTIME_BINADE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BINADE_API __attribute__((visibility("default")))

/* Functions are added, never changed: programs check for at least what they
 * were written for. */
#define BINADE_C_API_VERSION 2

typedef struct binade_program binade_program;

/* Memory of the program, dense and row-major. Pointers are valid until the
 * program is freed. `role` and `dtype` are words of the plan: "parameter",
 * "F32". */
typedef struct binade_tensor {
  const char *role;
  const char *name;
  const char *dtype;
  void *data;
  size_t bytes;
  int64_t rank;
  const int64_t *shape;
} binade_tensor;

/* Such as "0.1.0". */
BINADE_API const char *binade_version(void);
BINADE_API int binade_c_api_version(void);

/* The reason of this thread's last failure: one or more lines without a final
 * newline; valid until its next call. */
BINADE_API const char *binade_last_error(void);

/* Loads a bundle and gives all tensors their initial values, random ones from
 * `seed`. External files are sought beside the bundle. `threads` 0: what the
 * bundle says. */
BINADE_API int binade_program_load(const char *path, uint32_t threads,
                                   uint64_t seed, binade_program **program);
/* The same for a bundle in memory, which is copied; external files are sought
 * in `directory`. */
BINADE_API int binade_program_load_memory(const void *bundle, size_t bytes,
                                          const char *directory,
                                          uint32_t threads, uint64_t seed,
                                          binade_program **program);
BINADE_API void binade_program_free(binade_program *program);

/* Executes the step once, with the last of its batches where it has more than
 * one. A program has no number of its steps: all statistics are computed, those
 * with `@every=N` too. An index or label that a kernel finds out of range is
 * code 3: what the step changed means nothing then. */
BINADE_API int binade_program_run(binade_program *program);

/* Adds the gradients of the batch to those of which binade_program_run will
 * take the mean, and gives its loss: for all batches of a step but the last.
 * Code 2 where the program was compiled for one; else as above. */
BINADE_API int binade_program_accumulate(binade_program *program, double *loss);

/* The loss of the batch as the model is evaluated: without dropout, with
 * running statistics. Training state keeps its bits. Code 2 where the program
 * has no loss; else as above. */
BINADE_API int binade_program_evaluate(binade_program *program, double *loss);

BINADE_API size_t binade_program_tensor_count(const binade_program *program);
BINADE_API int binade_program_tensor_at(const binade_program *program,
                                        size_t index, binade_tensor *tensor);
BINADE_API int binade_program_tensor(const binade_program *program,
                                     const char *role, const char *name,
                                     binade_tensor *tensor);
/* Copies a whole tensor into the program. Integers of batch inputs that index
 * something, and hyper-parameters, are refused with code 3 if out of range. */
BINADE_API int binade_program_set(binade_program *program, const char *role,
                                  const char *name, const void *data,
                                  size_t bytes);

/* Writes training state to a safetensors file, and reads what matches. */
BINADE_API int binade_program_save(const binade_program *program,
                                   const char *path);
BINADE_API int binade_program_restore(binade_program *program,
                                      const char *path);

/* Measures all records from now on, or with 0 no longer. On a device they are
 * launched one by one meanwhile. */
BINADE_API int binade_program_set_profiling(binade_program *program, int on);
/* Writes what was measured since, in the format of Chrome's tracing, with the
 * roofline of the machine, which takes some tenths of a second to measure. */
BINADE_API int binade_program_write_trace(binade_program *program,
                                          const char *path);

/* For who compares two executions of a plan: bytes of the arena, and one record
 * by itself. Ports are not moved from or to a device. `list` is "step",
 * "accumulation" or "evaluation"; `path` has the number of the record in the
 * list or, with `depth` numbers, in the loops that it is in, outermost first,
 * and `iteration` the iterations of these depth - 1 loops. */
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
