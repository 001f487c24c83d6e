//===- ThreadTeam.cpp - Thread pool of the process ------------------------===//

#include "ThreadTeam.h"
#include "Cores.h"
#include "FloatMode.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <strings.h>
#include <system_error>
#include <thread>
#include <vector>

using namespace binade;

namespace {
/// A parallel region with dynamic scheduling: each thread takes the next index
/// until none is left. With static scheduling, all threads would wait for one
/// that the system has preempted.
struct Region {
  std::int64_t count;
  ThreadTeam::Call call;
  void *context;
  std::atomic<std::int64_t> next{0};
  std::atomic<unsigned> arrived{0};

  static void work(void *data) {
    auto *region = static_cast<Region *>(data);
    IeeeMode mode;
    unsigned thread = region->arrived.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      std::int64_t index = region->next.fetch_add(1, std::memory_order_relaxed);
      if (index >= region->count)
        return;
      region->call(region->context, index, thread);
    }
  }
};

/// Makes idle threads of libgomp sleep if the cores are busy, unless the user
/// set what they do. libgomp reads the settings when it is loaded.
class WaitSettings {
public:
  explicit WaitSettings(bool isLoaded) {
    const char *policy = std::getenv(kPolicy), *count = std::getenv(kCount);
    if (policy || count) {
      isPassive = count ? std::string_view(count) == "0"
                        : ::strcasecmp(policy, kPassive) == 0;
      return;
    }
    if (isLoaded || !areCoresBusy())
      return;
    isSet = ::setenv(kPolicy, kPassive, 0) == 0;
    isPassive = isSet;
  }
  ~WaitSettings() {
    if (isSet)
      ::unsetenv(kPolicy);
  }
  WaitSettings(const WaitSettings &) = delete;

  /// Whether idle threads sleep at once.
  bool sleeps() const { return isPassive; }

private:
  static constexpr const char *kPolicy = "OMP_WAIT_POLICY",
                              *kCount = "GOMP_SPINCOUNT", *kPassive = "passive";
  bool isSet = false, isPassive = false;
};

class GompTeam : public ThreadTeam {
public:
  static GompTeam *load() {
    // If the process has loaded libgomp already, as with PyTorch, it is shared.
    // It is never unloaded, because its threads outlive every program.
    constexpr const char *name = "libgomp.so.1";
    WaitSettings settings(::dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr);
    void *library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
      return nullptr;
    static GompTeam team;
    team.isPassive = settings.sleeps();
    team.parallel =
        reinterpret_cast<Parallel>(::dlsym(library, "GOMP_parallel"));
    team.getMax =
        reinterpret_cast<GetMax>(::dlsym(library, "omp_get_max_threads"));
    team.setNum =
        reinterpret_cast<SetNum>(::dlsym(library, "omp_set_num_threads"));
    return team.parallel && team.getMax && team.setNum ? &team : nullptr;
  }

  std::string_view getName() const override { return "libgomp"; }
  bool sleeps() const override { return isPassive; }
  unsigned exchangeOpenMPThreads(unsigned threads) override {
    int before = getMax();
    setNum(static_cast<int>(threads));
    return static_cast<unsigned>(before);
  }

protected:
  void fork(unsigned threads, void (*work)(void *), void *data) override {
    parallel(work, data, threads, 0);
  }

private:
  using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
  using GetMax = int (*)();
  using SetNum = void (*)(int);
  Parallel parallel;
  GetMax getMax;
  SetNum setNum;
  bool isPassive = false;
};

class StdTeam : public ThreadTeam {
public:
  ~StdTeam() override {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  std::string_view getName() const override { return "std::thread"; }
  bool sleeps() const override { return true; }
  unsigned exchangeOpenMPThreads(unsigned) override { return 0; }

protected:
  void fork(unsigned count, void (*function)(void *), void *argument) override {
    // Programs in different threads use the team one after the other.
    std::lock_guard turn(use);
    try {
      while (threads.size() + 1 < count)
        threads.emplace_back([this, id = threads.size(), seen = generation] {
          follow(id, seen);
        });
    } catch (const std::system_error &) {
      // The system allows no more threads; continue with the existing ones.
      count = static_cast<unsigned>(threads.size()) + 1;
    }
    {
      std::lock_guard lock(mutex);
      work = function;
      data = argument;
      wanted = running = count - 1;
      ++generation;
    }
    wake.notify_all();
    function(argument);
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return running == 0; });
  }

private:
  void follow(std::size_t id, std::uint64_t seen) {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping)
        return;
      seen = generation;
      if (id >= wanted)
        continue;
      lock.unlock();
      work(data);
      lock.lock();
      if (--running == 0)
        done.notify_one();
    }
  }

  std::vector<std::thread> threads;
  std::mutex use, mutex;
  std::condition_variable wake, done;
  std::uint64_t generation = 0;
  std::size_t wanted = 0, running = 0;
  bool stopping = false;
  void (*work)(void *) = nullptr;
  void *data = nullptr;
};
} // namespace

void ThreadTeam::run(unsigned threads, std::int64_t count, Call call,
                     void *context) {
  Region region{count, call, context};
  // Always fork the whole team: for a smaller one, libgomp would end threads,
  // and create new ones for the next region.
  if (threads <= 1 || count <= 1)
    Region::work(&region);
  else
    fork(threads, Region::work, &region);
}

void ThreadTeam::setModeOfTeam(unsigned threads) {
  if (threads > 1)
    fork(threads, [](void *) { IeeeMode::set(); }, nullptr);
}

bool ThreadTeam::pin(unsigned threads) {
  std::vector<int> cores = listCores();
  if (threads > cores.size())
    return false;
  struct Pins {
    std::vector<int> cores;
    std::atomic<std::size_t> next{0};
  } pins{std::move(cores)};
  auto pinOne = [](void *data) {
    auto *pins = static_cast<Pins *>(data);
    pinThread(pins->cores[pins->next.fetch_add(1)]);
  };
  // The cores are known before a second thread asks for them.
  pinThread(pins.cores.front());
  fork(threads, pinOne, &pins);
  return true;
}

ThreadTeam &ThreadTeam::getWithoutLibgomp() {
  static StdTeam team;
  return team;
}

ThreadTeam &ThreadTeam::get() {
  static ThreadTeam &team = []() -> ThreadTeam & {
    if (GompTeam *gomp = GompTeam::load())
      return *gomp;
    return getWithoutLibgomp();
  }();
  return team;
}
