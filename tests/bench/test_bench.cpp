// linea bench: the ways of the memory comparison give one gradient, counts are those of the
// formulas, and each command says what it should.
#include <set>

#include "autograd/gradcheck.h"
#include "bench/bench.h"
#include "bench/memory_comparison.h"
#include "tests/cli/program.h"
#include "train/flops.h"

namespace linea {
namespace {

using memory_comparison::Way;

AttentionOptions options_of(const std::string& attention, DType dtype) {
  AttentionOptions options;
  options.name = attention;
  options.heads = 3;
  options.key_size = 8;
  options.value_size = 5;
  if (attention == "performer") options.settings["features"] = 16;
  options.dtype = dtype;
  return options;
}

memory_comparison::Inputs inputs_of(const AttentionOptions& options, int64_t N) {
  const Shape keys{N, options.heads, options.key_size},
      values{N, options.heads, options.value_size};
  const auto normal = [&](const Shape& shape, uint32_t stream_id) {
    return random_tensor(shape, stream_id, 1.0, 1e-3, options.dtype);
  };
  return {normal(keys, 1), normal(keys, 2), normal(values, 3), normal(values, 4)};
}

// Lengths: within a chunk, a chunk and a piece, within a segment, segments and a piece.
TEST(MemoryComparison, AllWaysGiveOneGradient) {
  for (const char* attention : {"linear", "performer"})
    for (const DType dtype : {DType::f64, DType::f32})
      for (const int64_t N : {1, 7, 100, 1024, 2500}) {
        const AttentionOptions options = options_of(attention, dtype);
        const memory_comparison::Inputs in = inputs_of(options, N);
        const memory_comparison::Results engine =
            compute(Way::recomputed, options, in.heads_first());
        const double bound = dtype == DType::f64 ? 1e-9 : 1e-5;
        for (const Way way : memory_comparison::ways()) {
          if (way == Way::recomputed) continue;
          SCOPED_TRACE(fmt::format("{}, {}, N {}", attention, name_of(way), N));
          const memory_comparison::Results found = compute(way, options, in).heads_first();
          EXPECT_LE(relative_error(found.y, engine.y), bound);
          EXPECT_LE(relative_error(found.dv, engine.dv), bound);
          if (N == 1) continue;  // y = v: no gradient but rounding
          EXPECT_LE(relative_error(found.dq, engine.dq), bound);
          EXPECT_LE(relative_error(found.dk, engine.dk), bound);
        }
      }
}

// Beyond inputs and results, which are as large.
double bytes_of(Way way, int64_t N) {
  AttentionOptions options = options_of("linear", DType::f32);
  options.heads = 1;
  options.key_size = options.value_size = 32;
  memory_comparison::Inputs in = inputs_of(options, N);
  if (way == Way::recomputed) in = in.heads_first();
  memory_comparison::Results found;
  const double bytes = bench::extra_bytes([&] { found = compute(way, options, in); });
  return bytes - static_cast<double>(4 * in.q.bytes());
}

TEST(MemoryComparison, SavesTheReportedBytes) {
  const AttentionOptions options = options_of("linear", DType::f32);
  const double state = 3 * 8 * (5 + 1) * 4;
  EXPECT_EQ(state_bytes(Way::all_states, options, 2048), 2048 * state);
  EXPECT_EQ(state_bytes(Way::chunk_states, options, 2000), 32 * state);
  EXPECT_EQ(state_bytes(Way::segments, options, 2049), 3 * state);
  EXPECT_GE(bytes_of(Way::all_states, 2048), 2048 * 32 * 33 * 4);
  EXPECT_GT(bytes_of(Way::all_states, 2048), 3 * bytes_of(Way::chunk_states, 2048));
  EXPECT_GT(bytes_of(Way::chunk_states, 8192), 2 * bytes_of(Way::segments, 8192));
  EXPECT_GT(bytes_of(Way::segments, 8192), 2 * bytes_of(Way::recomputed, 8192));
}

TEST(BenchCount, MatchesTheRecurrentForm) {
  const auto both = [](const char* attention, const char* feature, const char* rule) {
    AttentionOptions options = options_of(attention, DType::f32);
    options.settings["feature"] = feature;
    if (options.name == "linear") options.settings["rule"] = rule;
    return make_attention(options)->flops(100).training;
  };
  EXPECT_EQ(both("linear", "elu", "sum"), 14 * 8 * 5);
  EXPECT_EQ(both("linear", "square", "sum"), 14 * 64 * 5);
  EXPECT_EQ(both("linear", "elu", "gated"), 14 * 8 * 5);
  EXPECT_EQ(both("linear", "elu", "delta"), 22 * 8 * 5);
  EXPECT_EQ(both("performer", "positive", "sum"), 14 * 16 * 5);
  EXPECT_EQ(both("performer", "hyperbolic", "sum"), 14 * 32 * 5);
  EXPECT_EQ(make_attention(options_of("linear", DType::f32))->flops(100).forward, 4 * 8 * 5);
  const AttentionFlops softmax = make_attention(options_of("softmax", DType::f32))->flops(99);
  EXPECT_EQ(softmax.forward, 50 * 2 * (8 + 5));
  EXPECT_EQ(softmax.training, 50 * (2 * (8 + 5) + 2 * (3 * 8 + 2 * 5)));
  AttentionOptions window = options_of("softmax", DType::f32);
  window.settings["window"] = int64_t{10};  // 1 + ... + 10 keys, then 90 times 10
  EXPECT_DOUBLE_EQ(make_attention(window)->flops(100).forward,
                   (55 + 90 * 10) / 100.0 * 2 * (8 + 5));
  EXPECT_EQ(make_attention(window)->flops(7).forward, 4 * 2 * (8 + 5));
}

class Bench : public ProgramTest {
 protected:
  // The lines after the first, which is the machine's.
  std::vector<nlohmann::json> results(const std::string& line) const {
    const Outcome outcome = done("bench " + line + " --json");
    EXPECT_EQ(outcome.err, "");
    std::vector<nlohmann::json> lines = json_lines(outcome.out);
    if (lines.empty()) return lines;
    for (const char* key : {"blas", "kernel", "flavor", "threads", "sgemm_gflops"})
      EXPECT_TRUE(lines[0].contains(key)) << lines[0];
    lines.erase(lines.begin());
    return lines;
  }
  static void positive(const nlohmann::json& line, const std::vector<const char*>& keys) {
    for (const char* key : keys)
      EXPECT_TRUE(line.contains(key) && line[key].is_number() && line[key] > 0.0) << key << line;
  }
};

const std::string kTiny = " --layers 2 --heads 2 --dim 16 --ffn 32 --length 24 --threads 1";

TEST_F(Bench, TrainReportsSpeedAndProfile) {
  for (const std::string more :
       {"nanogpt", "nanogpt --attention linear", "mnist-paper --attention performer",
        "mnist-paper --attention linear --rule delta --optimizer radam"}) {
    const auto lines =
        results("train --preset " + more + kTiny + " --batch 3 --steps 3 --warmup 1");
    ASSERT_EQ(lines.size(), 1u);
    const nlohmann::json& line = lines[0];
    positive(line, {"tokens_per_s", "step_ms", "model_gflops", "sgemm_gflops", "fraction_of_sgemm",
                    "optimizer_ms", "data_ms", "loss"});
    EXPECT_GE(line["peak_rss_delta_bytes"], 0.0);
    const nlohmann::json& bytes = line["bytes"];
    positive(bytes, {"parameters", "gradients", "optimizer", "activations", "sum", "peak"});
    EXPECT_GE(bytes["sum"], bytes["peak"]);
    EXPECT_GE(bytes["optimizer"], 1.9 * bytes["gradients"].get<double>());
    double share = 0;
    std::set<std::string> ops;
    for (const nlohmann::json& op : line["ops"]) {
      ops.insert(op["op"].get<std::string>());
      EXPECT_GE(op["forward_ms"], 0.0);
      EXPECT_GE(op["backward_ms"], 0.0);
      share += op["share"].get<double>();
    }
    EXPECT_GT(share, 0.0) << line;  // how much depends on what else the machine does
    for (const char* op : {"add_feed_forward", "norm_linear", "add_linear", "cross_entropy"})
      EXPECT_TRUE(ops.count(op)) << op << " in " << line;
    EXPECT_LE(share, 1.0) << line;
  }
  const std::string table = done("bench train" + kTiny + " --steps 1 --warmup 0").out;
  for (const char* part : {"nanogpt: softmax", "tokens/s", "of SGEMM", "workspace", "peak RSS",
                           "cross_entropy", "optimizer"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  refused(2, "bench train --preset gpt", {"gpt", "nanogpt"});
  refused(2, "bench train --steps 0", {"--steps"});
  refused(2, "bench train --heads 3", {"--heads 3"});
}

TEST_F(Bench, SampleReportsSpeedByBatch) {
  const auto lines = results("sample --preset mnist-paper" + kTiny + " --batches 1,3 --tokens 5");
  ASSERT_EQ(lines.size(), 2u);
  for (const nlohmann::json& line : lines) {
    positive(line, {"batch", "tokens_per_s", "images_per_s"});
    EXPECT_EQ(line["positions"], 5);
    EXPECT_NEAR(line["tokens_per_s"].get<double>(), 24 * line["images_per_s"].get<double>(),
                1e-6 * line["tokens_per_s"].get<double>());
  }
  positive(lines[0], {"read_gb_per_s", "of_read"});
  EXPECT_TRUE(lines[1]["read_gb_per_s"].is_null() && lines[1]["of_read"].is_null());
  EXPECT_EQ(results("sample --preset nanogpt" + kTiny + " --batch 2")[0]["positions"],
            20);  // softmax: to the end
  EXPECT_NE(done("bench sample" + kTiny + " --batches 1").out.find("images/s"), std::string::npos);
  const auto weights = [&](const std::string& dtype) {
    const std::string out = done(
                                "bench sample --layers 2 --heads 2 --dim 128 --ffn 512 --length 8 "
                                "--batches 1,3 --dtype " +
                                dtype)
                                .out;
    return std::stod(
        out.substr(out.find(dtype + "; ") + dtype.size() + 2));  // "bf16; 0.9 MB of weights"
  };
  EXPECT_NEAR(weights("bf16"), weights("fp32") / 2, 0.1);
  refused(2, "bench sample --batches 0", {"--batches", "0"});
  refused(2, "bench sample --dtype tf32", {"--dtype tf32", "--device cuda"});
  refused(2, "bench train --dtype tf32", {"--dtype tf32", "--device cuda"});
  refused(2, "bench attention --dtype tf32", {"--dtype tf32", "--device cuda"});
  refused(2, "bench sample --length 4", {"--length", "4"});
}

// The rows of 2 convolutions are the last 4 inputs of each; without convolutions no line says so.
TEST_F(Bench, SampleReportsTheState) {
  const std::string sample = "sample --layers 1 --tokens 3 --threads 1 --preset ";
  const auto lines = results(sample + "shakespeare-best --batches 1,2");
  ASSERT_EQ(lines.size(), 2u);
  const double rows = 2 * 4 * 192 * 4, sums = 6 * 32 * (32 + 1) * 4;
  for (const nlohmann::json& line : lines) EXPECT_EQ(line["convolution_bytes"], rows);
  EXPECT_EQ(lines[0]["state_bytes"], lines[1]["state_bytes"]) << "of one sequence";
  const auto all = lines[0]["state_bytes"].get<double>();
  EXPECT_GE(all, rows + sums);
  EXPECT_LT(all, rows + 1.1 * sums);
  const std::string text = done("bench " + sample + "shakespeare-best --batches 1").out;
  EXPECT_NE(text.find(fmt::format("state of a sequence: {:.1f} KB, of which {:.1f} KB are rows",
                                  all / 1e3, rows / 1e3)),
            std::string::npos)
      << text;
  const nlohmann::json plain = results(sample + "digits-linear --batches 1")[0];
  EXPECT_EQ(plain["convolution_bytes"], 0);
  EXPECT_GT(plain["state_bytes"], 0);
  const std::string other = done("bench " + sample + "digits-linear --batches 1").out;
  EXPECT_EQ(other.find("state of a sequence"), std::string::npos) << other;
}

TEST_F(Bench, MemoryComparesFourMethods) {
  const std::string tiny =
      "memory --lengths 70,140 --heads 2 --key-size 4 --features 6 --seconds 0 --threads 1";
  const auto lines = results(tiny + " --svg memory_comparison.svg");
  ASSERT_EQ(lines.size(), 2u * 2 * 4);
  for (const nlohmann::json& line : lines) {
    positive(line, {"extra_bytes", "forward_backward_s"});
    for (const char* key : {"dq_error", "dk_error", "dv_error"}) EXPECT_LT(line[key], 1e-4) << line;
    for (const char* key : {"attention", "way"}) EXPECT_TRUE(line[key].is_string()) << line;
  }
  const std::string svg = bytes("memory_comparison.svg");
  for (const char* part : {"<svg", "performer", "naive autograd", "recomputed"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  const auto limited = results(tiny + " --limit 0.0000001");
  EXPECT_TRUE(limited[0]["extra_bytes"].is_null() && limited[0]["dq_error"].is_null());
  EXPECT_NE(done("bench " + tiny).out.find("chunk states saved"), std::string::npos);
  refused(2, "bench memory --lengths 0", {"--lengths", "0"});
  refused(6, "bench memory --lengths 8 --svg nowhere/x.svg", {"nowhere"});
}

// Before anything is measured: one line of an error, and nothing on stdout.
TEST_F(Bench, ChecksAllFlagsFirst) {
  const auto bad = [&](const std::string& line, std::initializer_list<std::string> fragments) {
    const Outcome outcome = linea("bench " + line);
    check_refusal(outcome, 2, line, fragments);
    EXPECT_EQ(outcome.out, "");
  };
  for (const std::string command : {"attention", "memory"}) {
    for (const char* seconds : {"-1", "nan", "inf"})
      bad(fmt::format("{} --seconds {}", command, seconds), {"--seconds is", seconds});
    bad(command + " --lengths 8,0", {"--lengths has 0"});
    bad(command + " --lengths 8,-5", {"--lengths has -5"});
    for (const std::string size : {"--heads", "--key-size"})
      bad(fmt::format("{} {} 0", command, size), {size + " is 0", "at least 1"});
    bad(command + " --threads -2", {"-2"});
  }
  bad("attention --batch 0", {"--batch is 0"});
  bad("attention --chunk -1", {"--chunk -1"});
  bad("attention --attention linear,nope", {"'nope'"});
  bad("attention --attention performer --features 0", {"--features is 0"});
  bad("attention --attention linear --feature cosine", {"'cosine'"});
  bad("attention --dtype tf32", {"--dtype tf32", "--device cuda"});
  bad("memory --features 0", {"--features is 0"});
  bad("memory --limit nan", {"--limit is nan"});
  bad("memory --limit -1", {"--limit is -1"});
  bad("sample --batches 4,0", {"--batches has 0"});
  bad("sample --tokens -1", {"--tokens is -1"});
  bad("train --steps 0", {"--steps is 0"});
}

TEST_F(Bench, NamesItsOwnFlagsWhenMemoryRunsOut) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers end a program that asks for terabytes";
  const Outcome outcome =
      linea("bench attention --attention linear --lengths 99999999999 --seconds 0 --threads 1");
  check_refusal(outcome, 5, "out of memory", {"memory", "--lengths"}, true);
}

TEST_F(Bench, TakesThePresetsOfTrain) {
  const auto lines = results("train --preset digits-demo" + kTiny + " --steps 1 --warmup 0");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["preset"], "digits-demo");
  const std::string text =
      done("bench train --preset shakespeare-cpu --layers 1 --batch 1 --steps 1 --warmup 0").out;
  EXPECT_NE(text.find("dim 128, ffn 512, length 256, 65 tokens"), std::string::npos) << text;
  EXPECT_EQ(results("sample --preset copy --layers 1 --batches 2 --tokens 5 --threads 1").size(),
            1u);
  const auto pairs = results("train --preset retrieval --steps 1 --warmup 0 --batch 2 --threads 1");
  ASSERT_EQ(pairs.size(), 1u);
  positive(pairs[0], {"tokens_per_s", "model_gflops", "loss"});
  refused(2, "bench sample --preset retrieval", {"'retrieval'", "digits-demo"});
}

TEST_F(Bench, AttentionCountsItsWork) {
  const auto lines = results("attention --attention linear,softmax --lengths 64 --seconds 0");
  ASSERT_EQ(lines.size(), 2u + 1);
  positive(lines[0], {"forward_gflops", "gflops", "fraction_of_sgemm"});
  EXPECT_NEAR(lines[0]["gflops"].get<double>(),
              14.0 * 64 * 64 * 4 * 64 / lines[0]["forward_backward_s"].get<double>() / 1e9, 1e-6);
  EXPECT_NEAR(lines[1]["gflops"].get<double>(),
              7.0 * 65 * 64 * 4 * 64 / lines[1]["forward_backward_s"].get<double>() / 1e9, 1e-6);
}

}  // namespace
}  // namespace linea
