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
#define BINADE_C_API_VERSION 5

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

/* A program that was compiled with --exchange is a rank of a group: processes
 * that execute the same steps on other batches, and update by the mean gradient
 * of all of them. The runtime says when gradients are ready, encodes and
 * decodes them; a callback, the transport, moves the bytes. All ranks have the
 * same buckets of gradients, which are exchanged by the same transfers.
 * Since version 4. */

/* What all ranks do with their buffers at the same time. */
enum binade_transfer_operation {
  BINADE_TRANSFER_SUM = 0,        /* all-reduce in place: send == receive */
  BINADE_TRANSFER_MAX = 1,        /* all-reduce in place: send == receive */
  BINADE_TRANSFER_ALL_TO_ALL = 2, /* part r of send goes to rank r */
  BINADE_TRANSFER_ALL_GATHER = 3  /* receive = what ranks 0, 1, ... send */
};
/* In an all-gather of parameters, `send` is the rank's own place in `receive`.
 */

/* `count` is the number of elements of `send`: for an all-to-all those of all
 * parts, which are equal, and for an all-gather those of one rank. Memory
 * belongs to the program; its contents are valid until the step's join. */
typedef struct binade_transfer {
  int32_t operation;
  const char *dtype; /* "F32", "BF16", "U8", "I32" or "I64" */
  const void *send;
  void *receive;
  size_t count;
} binade_transfer;

enum binade_exchange_event {
  BINADE_EXCHANGE_START = 0, /* The bucket can be exchanged from now on. */
  BINADE_EXCHANGE_JOIN = 1   /* All exchanges have to end. */
};

typedef struct binade_exchange binade_exchange;

/* Called on the thread that executes the step: for the start of each bucket,
 * in ascending order, which should return at once, and then for the join, with
 * the number of buckets, which returns when all that were started are finished.
 * `stream` is the CUDA stream of the step, null on a CPU. Returns 0, or any
 * other status to end the step: then it returns 9, and parameters, states and
 * random generator are those from before the step, whose batches can be
 * executed again, unless the bucket gathers parameters
 * (binade_program_shard_states): then some parameters are updated and some
 * are not, and the run continues from a file. After an error of a start the
 * join is still called. */
typedef int (*binade_exchange_callback)(void *user, binade_exchange *exchange,
                                        int32_t event, uint32_t bucket,
                                        void *stream);

/* Makes the program rank `rank` of a group of `size`, between two steps. Of the
 * B batches of a step (--accumulate), it executes those from rank * B / size to
 * (rank + 1) * B / size - 1: all but the last by binade_program_accumulate, and
 * that by binade_program_run. With a null callback, the program is alone.
 * Returns 2 if the program has no exchange or there are more ranks than
 * batches. */
BINADE_API int binade_program_set_exchange(binade_program *program,
                                           uint32_t rank, uint32_t size,
                                           binade_exchange_callback callback,
                                           void *user);

/* Shards the optimizer states among the ranks of a group: creates a program
 * with the same values that has those of rank `rank` of `size`, and executes
 * steps as that rank, after binade_program_set_exchange. In a step, a further
 * bucket follows the join: that of the parameters that the ranks have updated,
 * with a start and a join of its own. After an error of these, some parameters
 * are updated and some are not. Returns 2 if the program has no exchange,
 * runs on a device, is sharded, or has bound ports. Since version 5. */
BINADE_API int binade_program_shard_states(const binade_program *program,
                                           uint32_t rank, uint32_t size,
                                           binade_program **part);
/* Sets `shape`, of `axes` axes, to that of the tensor that the port `index` has
 * a part of, and `first` to the index of its first element there. For tensors
 * that are not sharded these are the port's own shape and 0. Since version
 * 5. */
BINADE_API int binade_program_tensor_shard(const binade_program *program,
                                           size_t index, int64_t *first,
                                           int64_t *axes,
                                           const int64_t **shape);

/* For the callback and its threads. A bucket is used by one thread at a time,
 * other buckets by others. For each of the bucket's transfers in order,
 * binade_exchange_transfer encodes what is sent, once the transfer before is
 * complete; after the last, binade_exchange_finish decodes the gradients. With
 * a group of one, the runtime finishes buckets that the callback did not. */
BINADE_API uint32_t
binade_exchange_bucket_count(const binade_exchange *exchange);
BINADE_API uint32_t binade_exchange_transfer_count(
    const binade_exchange *exchange, uint32_t bucket);
BINADE_API int binade_exchange_transfer(binade_exchange *exchange,
                                        uint32_t bucket, uint32_t index,
                                        binade_transfer *transfer);
BINADE_API int binade_exchange_finish(binade_exchange *exchange,
                                      uint32_t bucket);
/* Sets the message of the error that the callback is about to return. */
BINADE_API void binade_exchange_fail(binade_exchange *exchange,
                                     const char *message);

/* Sums of F32 values whose bits do not depend on the order of additions, as
 * --exchange exact uses them (see binade.exchange_add in the documentation of
 * the dialect). A sum of `count` values is binade_exact_sum_size(count) int32,
 * 0 at the start: 3 * count digits, and a number per block of 128. To add up
 * the sums of several ranks: the numbers become their maxima, `pack` converts a
 * sum for these into `count` int64, the int64 are added, and `decode` rounds
 * them to F32. At most 2^15 values can be added. */
BINADE_API size_t binade_exact_sum_size(size_t count);
BINADE_API int binade_exact_add(int32_t *sum, const float *values,
                                size_t count);
BINADE_API int binade_exact_pack(const int32_t *sum, const int32_t *numbers,
                                 size_t count, int64_t *packed);
BINADE_API int binade_exact_decode(const int64_t *packed,
                                   const int32_t *numbers, size_t count,
                                   float *values);
/* The format of --exchange e4m3: codes, and a scale for each 128 of them, by
 * which `add` multiplies. `count` is a multiple of 128. */
BINADE_API int binade_e4m3_encode(const float *values, size_t count,
                                  uint8_t *codes, float *scales);
BINADE_API int binade_e4m3_add(const uint8_t *codes, const float *scales,
                               size_t count, float *sum);

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

/* Writes the training state to a safetensors file. Returns 2 if the program has
 * only a part of the states. */
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
