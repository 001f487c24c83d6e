//===- ThreadTeamTest.cpp - Thread teams with and without libgomp ---------===//

#include "../../../lib/Runtime/Execution/ThreadTeam.h"
#include "binade/Runtime/Library.h"
#include "gtest/gtest.h"
#include <atomic>
#include <dlfcn.h>
#include <mutex>
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
