// Sums, agreements and refusals of ranks, by threads in place of processes.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"
#include "parallel/launch.h"
#include "tests/expect_error.h"
#include "tests/parallel/thread_ranks.h"

namespace linea {
namespace {

using Errors = std::vector<std::string>;

float addend(int rank, int64_t i) {
  const RandomStream stream{1, Purpose::test, static_cast<uint32_t>(rank), 0};
  return static_cast<float>(
      std::ldexp(random_normal(stream, static_cast<uint64_t>(i)), static_cast<int>(i % 40) - 20));
}

float ordered_sum(int W, int64_t i) {
  double sum = addend(0, i);
  for (int rank = 1; rank < W; ++rank) sum += addend(rank, i);
  return static_cast<float>(sum);
}

TEST(Ranks, AddInTheirOrderToTheSameBits) {
  for (const int W : {1, 2, 3, 5, 8})
    for (const int64_t n : {0, 1, 15, 16, 17, 100, 5000})
      EXPECT_EQ(on_ranks(W,
                         [&](Ranks& ranks) {
                           std::vector<float> x;
                           for (int64_t i = 0; i < n; ++i) x.push_back(addend(ranks.rank(), i));
                           ranks.start_sum(x.data(), n, "test");
                           ranks.finish();
                           for (int64_t i = 0; i < n; ++i)
                             require(x[static_cast<size_t>(i)] == ordered_sum(W, i),
                                     "element {} of {} on {} ranks is {}", i, n, W,
                                     x[static_cast<size_t>(i)]);
                         }),
                Errors(static_cast<size_t>(W)));
}

// In 6 groups of 11, whose sums are doubles: one rounding is left.
TEST(Ranks, ManyAddInGroups) {
  EXPECT_EQ(ranks_of_a_group(64), 64);
  EXPECT_EQ(ranks_of_a_group(66), 11);
  EXPECT_EQ(ranks_of_a_group(67), 67);
  EXPECT_EQ(ranks_of_a_group(128), 16);
  EXPECT_EQ(ranks_of_a_group(4096), 64);
  constexpr int kRanks = 66, kGroup = 11;
  for (const int64_t n : {0, 5, 3000}) {
    EXPECT_EQ(on_ranks(kRanks,
                       [&](Ranks& ranks) {
                         std::vector<float> x;
                         for (int64_t i = 0; i < n; ++i) x.push_back(addend(ranks.rank(), i));
                         ranks.start_sum(x.data(), n, "test");
                         ranks.finish();
                         for (int64_t i = 0; i < n; ++i) {
                           double sum = 0;
                           for (int first = 0; first < kRanks; first += kGroup) {
                             double group = 0;
                             for (int rank = first; rank < first + kGroup; ++rank)
                               group += addend(rank, i);
                             sum += group;
                           }
                           require(x[static_cast<size_t>(i)] == static_cast<float>(sum),
                                   "element {} of {} is {}, not {}", i, n,
                                   x[static_cast<size_t>(i)], sum);
                         }
                       }),
              Errors(kRanks));
  }
}

// Several at once, finished by polling, among other exchanges.
TEST(Ranks, SumsOverlapWithOtherExchanges) {
  constexpr int kRanks = 3;
  EXPECT_EQ(on_ranks(kRanks,
                     [](Ranks& ranks) {
                       std::vector<std::vector<float>> all(4);
                       for (std::vector<float>& x : all) {
                         for (int64_t i = 0; i < 1000; ++i) x.push_back(addend(ranks.rank(), i));
                         ranks.start_sum(x.data(), 1000, "test");
                         ranks.progress();
                         ranks.broadcast("text", "in between");
                       }
                       std::vector<double> sum = {1.0 + ranks.rank()};
                       ranks.sum(sum, "in between");
                       require(sum[0] == 6, "the sum is {}", sum[0]);
                       ranks.finish();
                       for (const std::vector<float>& x : all)
                         for (int64_t i = 0; i < 1000; ++i)
                           require(x[static_cast<size_t>(i)] == ordered_sum(kRanks, i),
                                   "element {}", i);
                     }),
            Errors(kRanks));
}

TEST(Ranks, GatherAndBroadcastTexts) {
  EXPECT_EQ(on_ranks(4,
                     [](Ranks& ranks) {
                       const std::string own(static_cast<size_t>(1000 * ranks.rank()), 'x');
                       const std::vector<std::string> all = ranks.all_gather(own, "texts");
                       for (size_t rank = 0; rank < all.size(); ++rank)
                         require(all[rank].size() == 1000 * rank, "rank {}", rank);
                       require(ranks.broadcast(own + "a", "text") == "a", "not rank 0's");
                       require(ranks.all_gather(2.0 * ranks.rank(), "numbers") ==
                                   std::vector<double>{0, 2, 4, 6},
                               "numbers");
                     }),
            Errors(4));
}

// All continue, or all have the error of the lowest rank that failed.
TEST(Ranks, AgreeOnErrors) {
  for (const int failing : {-1, 0, 2}) {
    const Errors errors = on_ranks(4, [&](Ranks& ranks) {
      ranks.agree("work", [&] {
        if (failing >= 0 && ranks.rank() >= failing)
          fail(ErrorKind::input, "file {} is missing", ranks.rank());
      });
      require(failing < 0, "went on");
    });
    for (const std::string& error : errors) {
      EXPECT_EQ(error, errors[0]);
      const std::string expected = failing < 0 ? "" : fmt::format("file {} is missing", failing);
      EXPECT_TRUE(error.ends_with(expected)) << error;
      EXPECT_EQ(error.starts_with("rank 2 on "), failing == 2) << error;
    }
  }
}

TEST(Ranks, TakeWhatTheMainRankFoundOrItsError) {
  EXPECT_EQ(on_ranks(3,
                     [](Ranks& ranks) {
                       require(ranks.from_main(
                                   "work", [&] { return std::to_string(ranks.rank() + 7); }) == "7",
                               "not rank 0's");
                     }),
            Errors(3));
  EXPECT_EQ(on_ranks(2,
                     [](Ranks& ranks) {
                       ranks.from_main("work",
                                       []() -> std::string { fail(ErrorKind::write, "full"); });
                     }),
            Errors({"full", "full"}));
}

TEST(Ranks, NameWhoDoesNotAnswer) {
  const Errors errors = on_ranks(
      3,
      [](Ranks& ranks) {
        ranks.set_timeout(0.05);
        ranks.set_place("step 120");
        if (ranks.rank() != 2) ranks.all_gather("", "bucket 3");
      },
      false);
  for (const int rank : {0, 1}) {
    EXPECT_NE(errors[static_cast<size_t>(rank)].find("step 120, bucket 3: rank 2 on "),
              std::string::npos)
        << errors[static_cast<size_t>(rank)];
    EXPECT_NE(errors[static_cast<size_t>(rank)].find("has not answered for 0 s"),
              std::string::npos);
  }
  EXPECT_EQ(errors[2], "");
}

// The main rank works longer than the others wait, and beats.
TEST(Ranks, WaitForWorkThatBeats) {
  EXPECT_EQ(on_ranks(2,
                     [](Ranks& ranks) {
                       ranks.set_timeout(1.6);
                       if (ranks.is_main())
                         for (int i = 0; i < 25; ++i) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(100));
                           ranks.beat();
                         }
                       ranks.all_gather("", "the end");
                     }),
            Errors(2));
}

TEST(Ranks, FindTheExchangeThatARankLeftOut) {
  const Errors errors = on_ranks(3, [](Ranks& ranks) {
    std::vector<double> x(4);
    ranks.sum(x, "first");
    if (ranks.rank() != 1) ranks.sum(x, "left out");
    ranks.sum(x, "last");
  });
  EXPECT_NE(errors[0].find("rank 1 on "), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("last"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("left out"), std::string::npos) << errors[0];
}

TEST(Ranks, RefuseMessagesOfAnotherSize) {
  const Errors errors = on_ranks(
      2,
      [](Ranks& ranks) {
        std::vector<double> x(ranks.is_main() ? 64 : 96);
        ranks.sum(x, "sizes");
      },
      false);
  EXPECT_NE(errors[0].find("bytes"), std::string::npos) << errors[0];
}

TEST(Ranks, ShareRowsWithoutGapsOrOverlaps) {
  for (const int W : {1, 2, 3, 7, 10})
    for (int rank = 0; rank < W; ++rank) {
      const Share share = share_of(10, rank, W);
      EXPECT_EQ(share.first, rank == 0 ? 0 : share_of(10, rank - 1, W).end);
      EXPECT_GE(share.count(), 10 / W);
      EXPECT_LE(share.count(), (10 + W - 1) / W);
      EXPECT_EQ(share_of(10, W - 1, W).end, 10);
    }
}

Launch launch_of(const std::map<std::string, std::string>& environment) {
  return detect_launch([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, IsWhatTheEnvironmentSays) {
  EXPECT_EQ(launch_of({}).ranks, 1);
  EXPECT_EQ(launch_of({{"SLURM_NTASKS", "8"}}).ranks, 1);
  EXPECT_EQ(launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}).ranks, 4);
  EXPECT_EQ(launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}).rank, 2);
  EXPECT_EQ(launch_of({{"PMI_SIZE", "3"}, {"PMI_RANK", "1"}}).launcher, "MPICH's mpiexec");
  EXPECT_EQ(launch_of({{"PMIX_RANK", "1"}}).ranks, 0);
  expect_error(ErrorKind::usage, {"srun started 5 tasks", "--mpi=pmix"}, [] {
    launch_of({{"SLURM_STEP_NUM_TASKS", "5"}});
  });
  EXPECT_EQ(launch_of({{"SLURM_STEP_NUM_TASKS", "5"}, {"PMIX_RANK", "0"}}).ranks, 0);
}

TEST(Ranks, OneAloneNeedsNoLibrary) {
  EXPECT_TRUE(ranks().alone());
  std::vector<float> x = {1, 2};
  EXPECT_TRUE(ranks().start_sum(x.data(), 2, "test").progress());
  ranks().finish();
  EXPECT_EQ(x, (std::vector<float>{1, 2}));
  EXPECT_EQ(ranks().all_gather("a", "test"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace linea
