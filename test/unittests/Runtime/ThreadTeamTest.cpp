//===- ThreadTeamTest.cpp - Thread teams with and without libgomp ---------===//

#include "../../../lib/Runtime/Execution/ThreadTeam.h"
#include "../../../lib/Runtime/Execution/Cores.h"
#include "binade/Runtime/Library.h"
#include "gtest/gtest.h"
#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <sched.h>
#include <set>
#include <thread>
#include <vector>
#include <xmmintrin.h>

using namespace binade;

static void expectEachIndexOnce(ThreadTeam &team) {
  for (unsigned threads : {1u, 2u, 5u, 3u})
    for (std::int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> seen(1000);
      std::atomic<bool> legal = true;
      team.parallelFor(threads, count, [&](std::int64_t i, unsigned thread) {
        ++seen[static_cast<std::size_t>(i)];
        if (thread >= threads)
          legal = false;
      });
      EXPECT_TRUE(legal);
      for (std::size_t i = 0; i < seen.size(); ++i)
        ASSERT_EQ(seen[i], static_cast<std::int64_t>(i) < count)
            << team.getName() << " " << threads << " " << count;
    }
}

TEST(ThreadTeam, EachIndexRunsOnce) {
  expectEachIndexOnce(ThreadTeam::get());
  expectEachIndexOnce(ThreadTeam::getWithoutLibgomp());
}

TEST(ThreadTeam, LibgompIsUsedIfItIsInstalled) {
  void *library = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(ThreadTeam::get().getName(), library ? "libgomp" : "std::thread");
}

/// Returns the ids of the threads. Each waits for all others, so that it gets
/// one index.
static std::set<std::thread::id> gatherThreads(ThreadTeam &team,
                                               unsigned threads) {
  std::atomic<unsigned> arrived = 0;
  std::mutex mutex;
  std::set<std::thread::id> ids;
  team.parallelFor(threads, threads, [&](std::int64_t, unsigned) {
    ++arrived;
    while (arrived < threads)
      std::this_thread::yield();
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  return ids;
}

TEST(ThreadTeam, ThreadsRunConcurrentlyAndAreReused) {
  for (ThreadTeam *team :
       {&ThreadTeam::get(), &ThreadTeam::getWithoutLibgomp()}) {
    std::set<std::thread::id> first = gatherThreads(*team, 3);
    EXPECT_EQ(first.size(), 3u);
    EXPECT_EQ(gatherThreads(*team, 3), first);
  }
}

TEST(ThreadTeam, WorkRunsInTheDefaultFloatingPointMode) {
  unsigned host = _mm_getcsr();
  for (ThreadTeam *team :
       {&ThreadTeam::get(), &ThreadTeam::getWithoutLibgomp()})
    for (unsigned threads : {1u, 3u}) {
      _mm_setcsr(0x1f80 | 0x8040); // Subnormals become zero.
      std::atomic<unsigned> seen = 0;
      team->parallelFor(threads, threads,
                        [&](std::int64_t, unsigned) { seen |= _mm_getcsr(); });
      EXPECT_EQ(seen & 0xffc0, 0x1f80u);
      EXPECT_EQ(_mm_getcsr() & 0xffc0, 0x1f80u | 0x8040u);
      _mm_setcsr(host);
    }
}

TEST(ThreadTeam, TheDefaultCountIsPositive) {
  EXPECT_GE(defaultThreadCount(), 1u);
  EXPECT_LE(defaultThreadCount(), std::thread::hardware_concurrency());
}

// Of 1000 ticks, the hypervisor took the eighth number.
TEST(Cores, AreBusyWhereTimeIsStolen) {
  auto areBusy = [](std::string_view stat) {
    return areCoresBusy(stat, "0.10 0.10 0.10 1/200 17", 2);
  };
  EXPECT_FALSE(areBusy("cpu  500 0 100 390 0 0 0 10 0 0\ncpu0 0 0 0 0"));
  EXPECT_TRUE(areBusy("cpu  500 0 100 370 0 0 0 30 0 0\ncpu0 0 0 0 0"));
  EXPECT_FALSE(areBusy("intr 500 0 100 370 0 0 0 30 0 0"));
  EXPECT_FALSE(areBusy(""));
}

TEST(Cores, AreBusyIfOtherProcessesUseThem) {
  auto areBusy = [](std::string_view load) {
    return areCoresBusy("cpu  500 0 100 400 0 0 0 0 0 0", load, 2);
  };
  EXPECT_TRUE(areBusy("4.50 3.00 1.00 5/200 17"));
  // Those of a minute ago have ended.
  EXPECT_FALSE(areBusy("4.50 3.00 1.00 1/200 17"));
  EXPECT_FALSE(areBusy("1.50 3.00 1.00 5/200 17"));
  EXPECT_FALSE(areBusy(""));
}

/// Returns the CPUs that the calling thread may use.
static std::vector<int> listAllowed() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask))
        allowed.push_back(cpu);
  return allowed;
}

// In a thread of its own, because the caller is pinned for good.
TEST(ThreadTeam, PinnedThreadsHaveACoreEach) {
  unsigned cores = defaultThreadCount();
  std::thread([&] {
    ThreadTeam &team = ThreadTeam::get();
    EXPECT_FALSE(team.pin(static_cast<unsigned>(listCores().size()) + 1));
    ASSERT_TRUE(team.pin(cores));
    std::mutex mutex;
    std::set<std::vector<int>> seen;
    std::atomic<unsigned> arrived = 0;
    team.parallelFor(cores, cores, [&](std::int64_t, unsigned) {
      ++arrived;
      while (arrived < cores)
        std::this_thread::yield();
      std::lock_guard lock(mutex);
      seen.insert(listAllowed());
    });
    EXPECT_EQ(seen.size(), cores);
    for (const std::vector<int> &allowed : seen)
      EXPECT_EQ(allowed.size(), 1u);
    EXPECT_EQ(defaultThreadCount(), cores);
  }).join();
  EXPECT_EQ(defaultThreadCount(), cores);
}
