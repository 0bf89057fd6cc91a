// Checkpoints on disks that fail, are cut off, or give back other bytes than they were given: the
// old one or the new one can always be used, and a bad one is never taken for a good one.
#include "train/run/checkpoint_files.h"

#include "tests/data/faulty_disk.h"
#include "tests/sanitized.h"
#include "tests/train/checkpoint_maker.h"

namespace linea {
namespace {

using CheckpointFiles = CheckpointTest;
using Names = std::vector<std::string>;

TEST_F(CheckpointFiles, Retention) {
  for (int64_t step = 0; step <= 9; ++step) save("run", step, {2, 4, 3});
  EXPECT_EQ(names("run"),
            (Names{"step-00000003", "step-00000004", "step-00000008", "step-00000009"}));
  for (int64_t step = 0; step <= 9; ++step) save("averaged", step, {1, 0, 3, 6});
  EXPECT_EQ(names("averaged"), (Names{"step-00000003", "step-00000006", "step-00000009"}));
  save("run", 10, {0, 0, -1});
  EXPECT_EQ(names("run").size(), 5u);
  save("run", 11, {1, 0, -1});
  EXPECT_EQ(names("run"), (Names{"step-00000011"}));
}

TEST_F(CheckpointFiles, ANewOneReplacesTheOldOfTheSameStep) {
  save("run", 7);
  const std::string before = read_file(file("run", 7, "manifest.json"));
  config_.lr *= 2;
  save("run", 7);
  EXPECT_NE(read_file(file("run", 7, "manifest.json")), before);
  EXPECT_EQ(names("run"), (Names{"step-00000007"}));
  EXPECT_EQ(usable_step(path("run")), 7);
}

TEST_F(CheckpointFiles, EveryFailingCallLeavesAValidOne) {
  for (const int reason : {ENOSPC, EIO}) {
    if (kSanitized && reason == EIO) continue;
    int failed = 0;
    for (int call = 0;; call += kSanitized ? 2 : 1) {
      std::filesystem::remove_all(path("run"));
      save("run", 1);
      bool saved = false, reached = false;
      std::string what;
      {
        FailingCall fault(call, reason);
        try {
          save("run", 2);
          saved = true;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::write) << error.what();
        }
        reached = fault.failed();
        what = fault.what();
      }
      SCOPED_TRACE(what);
      const int64_t usable = usable_step(path("run"));
      EXPECT_TRUE(usable == 2 || (usable == 1 && !saved));
      failed += saved ? 0 : 1;
      save("run", 3);
      remove_drafts(path("run"));
      EXPECT_EQ(usable_step(path("run")), 3);
      EXPECT_EQ(names("run"), (Names{"step-00000003"}));
      if (!reached) break;
    }
    EXPECT_GT(failed, kSanitized ? 10 : 20);  // four files of five calls each, and their folders
  }
}

TEST_F(CheckpointFiles, EveryPowerLossLeavesAValidOne) {
  for (const int64_t second : {2, 1}) {  // after the first, and in its place
    int cuts = 0;
    for (int call = 0;; call += kSanitized ? 5 : 1) {
      std::filesystem::remove_all(path("world"));
      save("world/run", 1);
      bool saved = false;
      {
        FailingPower power(path("world"), call);
        try {
          save("world/run", second);
          saved = true;
        } catch (const PowerCut&) {
          ++cuts;
        }
        SCOPED_TRACE(power.what());
        for (const bool names_got_through : {false, true}) {
          power.restore(path("after"), names_got_through);
          const int64_t usable = usable_step(path("after/run"));
          EXPECT_TRUE(usable == second || (usable == 1 && !saved)) << usable;
        }
      }
      EXPECT_GE(usable_step(path("world/run")), 1);  // as a kill leaves it
      if (saved) break;
    }
    EXPECT_GT(cuts, kSanitized ? 4 : 20);
  }
}

TEST_F(CheckpointFiles, TheFirstOneSurvivesAPowerLoss) {
  make_folders(path("world"));
  FailingPower power(path("world"), 1 << 20);
  save("world/run", 5);
  power.restore(path("after"), false);
  EXPECT_EQ(usable_step(path("after/run")), 5);
}

TEST_F(CheckpointFiles, EveryFlippedBitIsDetected) {
  save("run", 1, {0, 0, -1});
  save("run", 2, {0, 0, -1});
  const CheckpointFolder newest = newest_checkpoint(path("run"));
  for (const std::string name : {"manifest.json", "state.json", "model.safetensors",
                                 "ema.safetensors", "optimizer.safetensors"}) {
    const std::string good = read_file(newest.path / name);
    // Every bit of the manifest; of the others, which are compared by their checksums, each 61st.
    // Under the sanitizers each 41st of the manifest's.
    const size_t step = name == "manifest.json" ? (kSanitized ? 41 : 1) : 61;
    for (size_t bit = 0; bit < 8 * good.size(); bit += step) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      std::ofstream(newest.path / name) << bad;
      const std::string problem = checkpoint_problem(newest);
      ASSERT_NE(problem.find("step-00000002/"), std::string::npos)
          << "bit " << bit << " of " << name << ": " << problem;
    }
    std::ofstream(newest.path / name) << good;
  }
  EXPECT_EQ(checkpoint_problem(newest), "");
}

TEST_F(CheckpointFiles, EveryTruncationFallsBackToThePreviousOne) {
  save("run", 1, {0, 0, -1});
  save("run", 2, {0, 0, -1});
  const CheckpointFolder newest = newest_checkpoint(path("run"));
  for (const std::string name : {"manifest.json", "state.json", "model.safetensors"}) {
    const std::string good = read_file(newest.path / name);
    const size_t step = kSanitized ? 3 : 1;  // the last is all but the last byte
    for (size_t length = (good.size() - 1) % step; length < good.size(); length += step) {
      std::ofstream(newest.path / name) << good.substr(0, length);
      // Without its last line break a manifest is as good as with it.
      const bool whole = name == "manifest.json" && length + 1 == good.size();
      ASSERT_EQ(checkpoint_problem(newest).empty(), whole) << length << " bytes of " << name;
    }
    testing::internal::CaptureStderr();
    EXPECT_EQ(usable_step(path("run")), name == "manifest.json" ? 2 : 1);
    testing::internal::GetCapturedStderr();
    std::ofstream(newest.path / name) << good;
  }
  std::filesystem::remove(newest.path / "optimizer.safetensors");
  testing::internal::CaptureStderr();
  EXPECT_EQ(usable_step(path("run")), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("step-00000002/optimizer.safetensors: no such file"), std::string::npos)
      << said;
  EXPECT_NE(said.find("using the checkpoint before it"), std::string::npos) << said;
}

TEST_F(CheckpointFiles, WithoutAValidOneTheErrorNamesTheReason) {
  save("run", 1);
  std::filesystem::remove(file("run", 1, "manifest.json"));
  expect_error(ErrorKind::input,
               {path("run"), "no sound checkpoint", "manifest.json", "no such file"},
               [&] { newest_checkpoint(path("run")); });
  // The model's file alone is enough to sample from.
  EXPECT_EQ(load_model(file("run", 1, "model.safetensors")).step, 1);
}

TEST_F(CheckpointFiles, AForeignManifestIsRefused) {
  save("run", 1);
  const CheckpointFolder only = newest_checkpoint(path("run"));
  const std::string manifest = file("run", 1, "manifest.json"), good = read_file(manifest);
  const auto refused = [&](const std::string& text, const std::string& fragment) {
    put("text", text);
    std::filesystem::copy_file(path("text"), manifest,
                               std::filesystem::copy_options::overwrite_existing);
    const std::string problem = checkpoint_problem(only);
    EXPECT_NE(problem.find(fragment), std::string::npos) << problem;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  refused("[]", "not the manifest");
  refused("{}", "not the manifest");
  refused(changed("\"manifest\": 1", "\"manifest\": 2"), "version 2");
  refused(changed("\"step\": 1", "\"step\": 2"), "of step 2, not 1");
  refused(changed("\"state.json\"", "\"../state.json\""), "not the manifest");
  refused(changed("\"state.json\"", "\"\""), "not the manifest");
  refused(changed("\"size\": ", "\"size\": -"), "not the manifest");
  refused(changed("\"size\": ", "\"size\": 9"), "but 9");
}

}  // namespace
}  // namespace linea
