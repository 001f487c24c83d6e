//===- CAPIExchange.cpp - Exchange of gradients for C ---------------------===//

#include "../Exchange/Kernels.h"
#include "CAPI.h"
#include "binade/Runtime/Exchange.h"

using namespace binade;
using namespace binade::capi;
using exchange::kernels;
using exchange::Sums;

static_assert(int(Transfer::AllGather) == BINADE_TRANSFER_ALL_GATHER &&
              int(ExchangeEvent::Join) == BINADE_EXCHANGE_JOIN);

static StepExchange &unwrap(binade_exchange *handle) {
  return *reinterpret_cast<StepExchange *>(handle);
}
static const StepExchange &unwrap(const binade_exchange *handle) {
  return *reinterpret_cast<const StepExchange *>(handle);
}

int binade_program_set_exchange(binade_program *program, uint32_t rank,
                                uint32_t size,
                                binade_exchange_callback callback, void *user) {
  return guard([&] {
    Transport transport;
    if (callback)
      transport = [=](StepExchange &step, ExchangeEvent event,
                      std::uint32_t bucket, void *stream) {
        return callback(user, reinterpret_cast<binade_exchange *>(&step),
                        static_cast<std::int32_t>(event), bucket, stream);
      };
    Result<void> done = program->program.setExchange(
        callback ? GroupRank{rank, size} : GroupRank(), std::move(transport));
    return done ? +ExitCode::Ok : fail(done.error());
  });
}

int binade_program_shard_states(const binade_program *program, uint32_t rank,
                                uint32_t size, binade_program **own) {
  return guard([&] {
    if (!program || !own)
      return usage("null pointer");
    Result<Program> sharded = program->program.shardStates({rank, size});
    if (!sharded)
      return fail(sharded.error());
    *own = new binade_program{*std::move(sharded), program->file};
    return +ExitCode::Ok;
  });
}

int binade_program_tensor_shard(const binade_program *program, size_t index,
                                int64_t *first, int64_t *axes,
                                const int64_t **shape) {
  return guard([&] {
    const Plan &plan = program->program.getPlan();
    if (index >= plan.ports.size() || !first || !axes || !shape)
      return usage("no tensor " + std::to_string(index) + " of " +
                   std::to_string(plan.ports.size()) + ", or a null pointer");
    const plan::Buffer &buffer = plan.buffers[plan.ports[index].buffer];
    *first = buffer.shard ? buffer.shard->first : 0;
    *axes = static_cast<std::int64_t>(buffer.getWholeShape().size());
    *shape = buffer.getWholeShape().data();
    return +ExitCode::Ok;
  });
}

uint32_t binade_exchange_bucket_count(const binade_exchange *handle) {
  return unwrap(handle).countBuckets();
}

uint32_t binade_exchange_transfer_count(const binade_exchange *handle,
                                        uint32_t bucket) {
  return unwrap(handle).countTransfers(bucket);
}

int binade_exchange_transfer(binade_exchange *handle, uint32_t bucket,
                             uint32_t index, binade_transfer *transfer) {
  return guard([&] {
    if (!transfer)
      return usage("null pointer");
    Result<Transfer> begun = unwrap(handle).begin(bucket, index);
    if (!begun)
      return fail(begun.error());
    *transfer = {begun->operation, name(begun->dtype).data(), begun->send,
                 begun->receive, begun->count};
    return +ExitCode::Ok;
  });
}

int binade_exchange_finish(binade_exchange *handle, uint32_t bucket) {
  return guard([&] {
    Result<void> done = unwrap(handle).finish(bucket);
    return done ? +ExitCode::Ok : fail(done.error());
  });
}

void binade_exchange_fail(binade_exchange *handle, const char *message) {
  unwrap(handle).fail(message ? printable(message) : "");
}

size_t binade_exact_sum_size(size_t count) {
  constexpr auto block = static_cast<size_t>(ExchangeLayout::kBlock);
  return ExchangeLayout::kDigits * count + (count + block - 1) / block;
}

int binade_exact_add(int32_t *sum, const float *values, size_t count) {
  if (!sum || !values)
    return usage("null pointer");
  auto size = static_cast<std::int64_t>(count);
  kernels().add(Sums(sum, size), 0, values, size);
  return ExitCode::Ok;
}

int binade_exact_pack(const int32_t *sum, const int32_t *numbers, size_t count,
                      int64_t *packed) {
  if (!sum || !numbers || !packed)
    return usage("null pointer");
  auto size = static_cast<std::int64_t>(count);
  kernels().pack(Sums(const_cast<int32_t *>(sum), size), numbers, 0, size,
                 packed);
  return ExitCode::Ok;
}

int binade_exact_decode(const int64_t *packed, const int32_t *numbers,
                        size_t count, float *values) {
  if (!packed || !numbers || !values)
    return usage("null pointer");
  kernels().decode(packed, numbers, 0, static_cast<std::int64_t>(count),
                   values);
  return ExitCode::Ok;
}

/// Returns the exit code for a number of elements that are not whole blocks.
static int checkBlocks(size_t count) {
  if (count % ExchangeLayout::kBlock == 0)
    return ExitCode::Ok;
  return usage(std::to_string(count) + " elements, expected a multiple of " +
               std::to_string(ExchangeLayout::kBlock));
}

int binade_e4m3_encode(const float *values, size_t count, uint8_t *codes,
                       float *scales) {
  if (!values || !codes || !scales)
    return usage("null pointer");
  if (int code = checkBlocks(count))
    return code;
  kernels().toE4M3(values, static_cast<std::int64_t>(count), codes, scales);
  return ExitCode::Ok;
}

int binade_e4m3_add(const uint8_t *codes, const float *scales, size_t count,
                    float *sum) {
  if (!codes || !scales || !sum)
    return usage("null pointer");
  if (int code = checkBlocks(count))
    return code;
  kernels().addE4M3(codes, scales, static_cast<std::int64_t>(count), sum);
  return ExitCode::Ok;
}
