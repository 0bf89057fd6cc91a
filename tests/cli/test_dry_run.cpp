// linea train --dry-run: what it says is what the run then is, and it leaves nothing behind.
#include "data/safetensors.h"
#include "nn/transformer.h"
#include "tests/cli/program.h"
#include "tests/data/readers/png_bytes.h"
#include "train/config.h"
#include "train/flops.h"

namespace linea {
namespace {

class DryRun : public ProgramTest {
 protected:
  nlohmann::json report(const std::string& line) const {
    const Outcome outcome = done(line + " --dry-run --json");
    const std::vector<nlohmann::json> lines = json_lines(outcome.out);
    EXPECT_EQ(lines.size(), 1u) << outcome.out;
    return lines.empty() ? nlohmann::json() : lines[0];
  }
};

TEST_F(DryRun, WritesNothing) {
  const Outcome outcome = done(kCopy + " --steps 7 --dry-run --out run");
  EXPECT_FALSE(exists("run"));
  for (const char* part : {"blocks.*.qkv.weight", "FLOPs", "activations and workspace", "peak",
                           "checkpoint", "7 steps"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in:\n" << outcome.out;
  EXPECT_EQ(done(kCopy + " --dry-run").code, 0) << "a run that is not made needs no folder";
}

TEST_F(DryRun, DescribesTheRun) {
  const std::string run =
      "train --task digits --size 12 --levels 4 --heads 2 --dim 16 --ffn 32 --layers 3 --batch 6 "
      "--accumulate 2 "
      "--tie --steps 11";
  const nlohmann::json report = this->report(run);
  done(run + " --save-every 10 --eval-every 10 --out run");
  const SafetensorsFile model =
      SafetensorsFile::open(path("run/checkpoints/step-00000011/model.safetensors"));
  int64_t elements = 0, tensors = 0;
  for (const nlohmann::json& group : report["parameters"]) {
    int64_t product = group["count"];
    for (const int64_t size : group["shape"]) product *= size;
    EXPECT_EQ(group["elements"], product) << group;
    elements += product;
    tensors += group["count"].get<int64_t>();
  }
  int64_t saved = 0;
  for (const SafetensorsEntry& entry : model.entries()) saved += Shape(entry.shape).numel();
  EXPECT_EQ(elements, saved);
  EXPECT_EQ(report["parameter_count"], saved);
  EXPECT_EQ(tensors, static_cast<int64_t>(model.entries().size()));
  EXPECT_EQ(report["bytes"]["parameters"], 4 * saved);
  EXPECT_EQ(report["bytes"]["gradients"], 4 * saved);
  EXPECT_EQ(report["bytes"]["optimizer"], 8 * saved);

  int64_t on_disk = 0;
  for (const auto& file : fs::directory_iterator(path("run/checkpoints/step-00000011")))
    on_disk += static_cast<int64_t>(fs::file_size(file.path()));
  EXPECT_LE(report["checkpoint_bytes"], on_disk);
  EXPECT_GE(report["checkpoint_bytes"], on_disk - 20000) << "headers and settings";

  EXPECT_EQ(report["tokens_per_step"], 6 * 2 * 144);
  EXPECT_EQ(report["flops_per_step"].get<double>(),
            report["flops_per_token"].get<double>() * 6 * 2 * 144);
  EXPECT_EQ(report["steps"], 11);
  EXPECT_GT(report["step_s"], 0);
  EXPECT_NEAR(report["remaining_s"].get<double>(), 11 * report["step_s"].get<double>(), 1e-9);
  EXPECT_EQ(report["fits"], true);

  // The peak of the run is what was said: a look at the validation split takes no more.
  const auto peak = report["bytes"]["peak"].get<double>();
  double real = 0;
  for (const nlohmann::json& record : metrics("run"))
    if (record["step"] == 11) real = std::max(real, record.value("peak_bytes", 0.0));
  EXPECT_NEAR(peak, real, 0.1 * real);
}

// What a bench counts, of the same model.
TEST_F(DryRun, CountsTheFlopsOfTheBench) {
  const nlohmann::json report = this->report(
      "train --task copy --length 64 --layers 2 --heads 2 --dim 16 --ffn 32 --batch 2");
  const RunConfig config = [] {
    RunConfig small;
    small.task = "copy";
    small.task_settings = {{"length", 64}};
    small.layers = small.heads = 2;
    small.dim = 16;
    small.ffn = 32;
    return small;
  }();
  const auto task = make_task(task_options(config, ""));
  const Transformer model(model_config(config, task->shape()));
  EXPECT_EQ(report["flops_per_token"].get<double>(), flops_per_token(model));
}

TEST_F(DryRun, CountsTheRemainingStepsOnResume) {
  done(kCopy + " --steps 10 --out run");
  const auto files = bytes("run/metrics.jsonl");
  const nlohmann::json report = this->report("train --resume run --steps 30");
  EXPECT_EQ(report["step"], 10);
  EXPECT_EQ(report["steps"], 30);
  EXPECT_NEAR(report["remaining_s"].get<double>(), 20 * report["step_s"].get<double>(), 1e-9);
  EXPECT_EQ(bytes("run/metrics.jsonl"), files);
  EXPECT_EQ(names_in("run/checkpoints"), Words{"step-00000010"});
  refused(2, kCopy + " --dry-run --out run", {"run already holds a run"});
}

TEST_F(DryRun, CoversEveryTaskAndOutputHead) {
  put_text("text.txt", 2000);
  fs::create_directories(path("images"));
  for (char gray = 0; gray < 20; ++gray)
    put(fmt::format("images/{:02}.png", int{gray}),
        png_bytes(2, 2, 8, 2, {std::string(6, gray), std::string(6, 'x')}));
  const std::vector<std::pair<std::string, Words>> runs = {
      {kText, {"train", "val"}},
      {kText + " --attention vq --codes 4 --accumulate 2", {"train", "val"}},
      {kCopy, {"train", "val", "test"}},
      {"train --task retrieval --associations 4 --layers 1 --heads 1 --dim 8 --batch 2",
       {"train", "val", "test"}},
      {"train --task digits --size 12 --levels 64 --output-head logistics" + kSmall,
       {"train", "val", "test"}},
      {"train --task images --data images --size 2 --output-head logistics" + kSmall,
       {"train", "val", "test"}}};
  for (const auto& [run, splits] : runs) {
    const nlohmann::json report = this->report(run);
    ASSERT_TRUE(report.contains("rows")) << run;
    EXPECT_EQ(report["rows"].size(), splits.size()) << run;
    for (const std::string& split : splits)
      EXPECT_GE(report["rows"].value(split, 0), 1) << run << ": " << split;
    EXPECT_GT(report["bytes"]["activations"], 0) << run;
    done(run + " --dry-run");
  }
}

TEST_F(DryRun, ReportsFirstThatTheRunDoesNotFit) {
  const Outcome outcome = linea(
      "train --task copy --length 16 --layers 1 --dim 16 --batch 1000000000 --dry-run --json --out "
      "run");
  check_refusal(outcome, 5, "a batch of 10^9",
                {"out of memory: ", "asked for activations", "lower --batch (1000000000"});
  const nlohmann::json report = json_lines(outcome.out).at(0);
  EXPECT_EQ(report["fits"], false);
  EXPECT_GT(report["bytes"]["peak"], report["machine_bytes"]);
  EXPECT_FALSE(exists("run"));
}

// What steps of some rows say of more is near what steps of more take.
TEST_F(DryRun, EstimatesUnmeasuredSteps) {
  const std::string size =
      kSanitized ? "--dim 16 --ffn 32" : "--dim 32 --ffn 64";  // fast enough, either way
  const std::string run =
      "train --task copy --length 16 --layers 2 --heads 2 " + size + " --batch ";
  const auto peak_of = [&](const std::string& batch) {
    return report(run + batch)["bytes"]["peak"].get<double>();
  };
  const nlohmann::json estimated = json_lines(linea(run + "100000000 --dry-run --json").out).at(0);
  EXPECT_EQ(estimated["bytes_source"], "from steps of 1024 and 2048 rows");
  const double of_row = (peak_of("2000") - peak_of("1000")) / 1000;
  EXPECT_NEAR(estimated["bytes"]["peak"].get<double>(), 1e8 * of_row, 0.15e8 * of_row);
}

TEST_F(DryRun, RefusesWeightsBeforeAllocatingThem) {
  const Outcome outcome =
      linea("train --task copy --layers 100000000 --dim 512 --ffn 2048 --heads 8 --dry-run");
  check_refusal(
      outcome, 5, "10^8 layers",
      {"asked for optimizer; held: parameters", "lower --dim (512)", "--layers (100000000)"});
}

}  // namespace
}  // namespace linea
