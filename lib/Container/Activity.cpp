//===- Activity.cpp - Activities for crash reports ------------------------===//

#include "binade/Container/Activity.h"
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>

using namespace binade;

using Innermost = std::atomic<const Activity *>;

/// The innermost activity of this thread, which its signal handler reads.
static thread_local Innermost innermost = nullptr;

/// `innermost` of the thread that called `followThread`.
static std::atomic<const Innermost *> followed = nullptr;

namespace {
/// The stack of a thread's signal handler, which also works after the thread's
/// own stack has overflowed.
class SignalStack {
public:
  SignalStack() : memory(new std::byte[kBytes]) {
    stack_t own = {};
    own.ss_sp = memory.get();
    own.ss_size = kBytes;
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }

private:
  static constexpr std::size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> memory;
};
} // namespace

/// Creates the signal stack of this thread unless it exists.
static void provideSignalStack() { static thread_local SignalStack stack; }

Activity::Activity(std::string_view kind, std::string_view name) noexcept
    : kind(kind), name(name), outer(innermost.load(std::memory_order_relaxed)) {
  innermost.store(this, std::memory_order_release);
  if (!outer && followed.load(std::memory_order_relaxed))
    provideSignalStack();
}

Activity::~Activity() { innermost.store(outer, std::memory_order_release); }

const Activity *Activity::getInnermost() {
  if (const Activity *own = innermost.load(std::memory_order_acquire))
    return own;
  const Innermost *other = followed.load(std::memory_order_acquire);
  return other ? other->load(std::memory_order_acquire) : nullptr;
}

void Activity::followThread() {
  provideSignalStack();
  followed.store(&innermost, std::memory_order_release);
}
