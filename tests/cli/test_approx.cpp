// linea approx against the definitions, number by number in double.
#include "nn/random_projection.h"
#include "tests/cli/program.h"

namespace linea {
namespace {

class Approx : public ProgramTest {};
using Matrix = std::vector<std::vector<double>>;

Matrix normal(int64_t rows, int64_t cols, uint32_t stream_id, uint64_t draw, double stddev) {
  const RandomStream stream{3, Purpose::task, stream_id, draw};
  Matrix matrix(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(cols)));
  uint64_t index = 0;
  for (auto& row : matrix)
    for (double& x : row) x = stddev * random_normal(stream, index++);
  return matrix;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The features of x, from the formulas of the paper; sqrt(R) and sqrt(2R) cancel.
std::vector<double> features(const std::string& kind, const std::vector<double>& x,
                             const Matrix& omega) {
  const double root = std::sqrt(std::sqrt(static_cast<double>(x.size()))),
               half = dot(x, x) / (root * root) / 2;
  std::vector<double> first, second;
  for (const auto& direction : omega) {
    const double u = dot(direction, x) / root;
    first.push_back(kind == "trig" ? std::exp(half) * std::sin(u) : std::exp(u - half));
    if (kind != "positive")
      second.push_back(kind == "trig" ? std::exp(half) * std::cos(u) : std::exp(-u - half));
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

struct Errors {
  std::vector<double> matrix, output;  // a draw each
  int64_t left_out = 0;
};

Errors expected(const std::string& kind, const std::string& projection, int64_t F, int64_t N,
                int64_t D, uint64_t draws, double stddev) {
  Errors errors;
  const int64_t R = kind == "positive" ? F : F / 2;
  for (uint64_t draw = 0; draw < draws; ++draw) {
    const Matrix q = normal(N, D, 0, draw, stddev), k = normal(N, D, 1, draw, stddev),
                 v = normal(N, D, 2, draw, stddev);
    const std::vector<double> sampled =
        draw_projection(parse_projection(projection), R, D, {3, Purpose::features, 0, draw});
    Matrix omega;
    for (int64_t r = 0; r < R; ++r)
      omega.emplace_back(sampled.begin() + r * D, sampled.begin() + (r + 1) * D);
    Matrix keys;
    for (const auto& row : k) keys.push_back(features(kind, row, omega));
    double matrix = 0, output = 0, rows = 0;
    for (const auto& row : q) {
      const std::vector<double> phi = features(kind, row, omega);
      std::vector<double> exact, weights;
      double exact_sum = 0, sum = 0, sizes = 0;
      for (size_t j = 0; j < k.size(); ++j) {
        exact.push_back(std::exp(dot(row, k[j]) / std::sqrt(static_cast<double>(D))));
        weights.push_back(dot(phi, keys[j]));
        exact_sum += exact.back();
        sum += weights.back();
        sizes += std::fabs(weights.back());
      }
      if (std::fabs(sum) < 1e-3 * sizes) {
        ++errors.left_out;
        continue;
      }
      ++rows;
      std::vector<double> difference(static_cast<size_t>(D));
      for (size_t j = 0; j < k.size(); ++j) {
        const double error = weights[j] / sum - exact[j] / exact_sum;
        matrix += error * error / static_cast<double>(N);
        for (size_t m = 0; m < difference.size(); ++m) difference[m] += error * v[j][m];
      }
      output += dot(difference, difference) / static_cast<double>(D);
    }
    errors.matrix.push_back(matrix / rows);
    errors.output.push_back(output / rows);
  }
  return errors;
}

void expect_summary(const nlohmann::json& summary, std::vector<double> errors) {
  const double n = static_cast<double>(errors.size());
  double mean = 0, squares = 0;
  for (const double error : errors) mean += error / n;
  for (const double error : errors) squares += (error - mean) * (error - mean);
  std::sort(errors.begin(), errors.end());
  EXPECT_NEAR(summary["mean"].get<double>(), mean, 2e-3 * mean);
  EXPECT_NEAR(summary["stderr"].get<double>(), std::sqrt(squares / (n - 1) / n), 2e-3 * mean);
  EXPECT_NEAR(summary["median"].get<double>(), errors[errors.size() / 2], 2e-3 * mean);
}

TEST_F(Approx, AgreesWithTheDefinitions) {
  // 150 rows are more than a block and no multiple of one; 6 features are no multiple of the
  // key's 4.
  for (const double stddev : {0.7, 1.5}) {
    const Outcome outcome =
        done(fmt::format("approx --json --length 150 --key-size 4 --counts 6,32 --draws 3 --seed 3 "
                         "--stddev {}",
                         stddev));
    const std::vector<nlohmann::json> lines = json_lines(outcome.out);
    ASSERT_EQ(lines.size(), 3u * 4 * 2);
    for (const nlohmann::json& line : lines) {
      SCOPED_TRACE(dump_json(line));
      const Errors errors =
          expected(line["feature"], line["projection"], line["features"], 150, 4, 3, stddev);
      expect_summary(line["matrix_mse"], errors.matrix);
      expect_summary(line["output_mse"], errors.output);
      EXPECT_EQ(line["rows_left_out"].get<int64_t>(), errors.left_out);
      if (line["feature"] != "trig") {
        EXPECT_EQ(errors.left_out, 0);
      }
    }
  }
}

// Two runs give the same numbers; where keys are large, nothing overflows.
TEST_F(Approx, IsRepeatableAndFinite) {
  const std::string command = "approx --json --length 300 --key-size 8 --counts 64 --draws 2";
  EXPECT_EQ(done(command).out, done(command).out);
  for (const nlohmann::json& line : json_lines(done(command + " --stddev 8").out)) {
    EXPECT_TRUE(line["matrix_mse"]["mean"].is_number()) << line;
    EXPECT_TRUE(line["output_mse"]["median"].is_number()) << line;
    if (line["feature"] != "trig") {
      EXPECT_EQ(line["rows_left_out"], 0) << line;
    }
  }
}

TEST_F(Approx, WritesATableAFileAndAChart) {
  const Outcome outcome = done(
      "approx --features trig,positive --projections iid,fixed-norm --length 64 --key-size 4 "
      "--counts 4,8 --draws 1 --threads 1 --csv out.csv --svg out.svg");
  for (const char* part : {"trig", "positive", "fixed-norm", "output MSE", "standard error"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  EXPECT_EQ(outcome.out.find("hyperbolic"), std::string::npos);
  const Words lines = lines_of(bytes("out.csv"));
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[0].rfind("feature,projection,features,matrix_mse_mean,", 0), 0u);
  for (const std::string& line : lines)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 9) << line;
  EXPECT_EQ(lines[1].rfind("trig,iid,4,", 0), 0u) << lines[1];
  const std::string svg = bytes("out.svg");
  for (const char* part : {"<svg", "trig, fixed-norm", "positive, iid", "features F", "</svg>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  // The standard error of one draw does not exist.
  const std::vector<nlohmann::json> json = json_lines(
      done("approx --json --features positive --projections iid --length 8 --counts 4 --draws 1")
          .out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["output_mse"]["stderr"], "nan");
}

// Errors of single pairs against the formulas, evaluated here, and by their standard errors.
TEST_F(Approx, MeasuresTheKernel) {
  const std::string command =
      "approx --kernel --features positive,hyperbolic,trig --draws 8000 --json";
  const std::vector<nlohmann::json> lines = json_lines(done(command).out);
  ASSERT_EQ(lines.size(), 3u * 2 * 3);
  int compared = 0;
  for (const nlohmann::json& line : lines) {
    SCOPED_TRACE(dump_json(line));
    const double x = line["length"].get<double>(),
                 cosine = std::cos(std::acos(-1) * line["angle"].get<double>() / 180),
                 s = 2 * x * x * (1 + cosine), t = 2 * x * x * (1 - cosine);
    const double square = line["feature"] == "positive"     ? std::exp(s) - 1
                          : line["feature"] == "hyperbolic" ? std::cosh(s) - 1
                                                            : std::cosh(t) - 1;
    EXPECT_NEAR(line["predicted"].get<double>(), std::sqrt(square / 64), 1e-6 * (1 + square));
    if (square < 1e-9) {
      EXPECT_LT(line["measured"].get<double>(), 1e-7);
    }
    EXPECT_EQ(line["rare"].get<bool>(), line["feature"] != "trig" && s > 3);
    if (!line.contains("standard_errors")) continue;
    ++compared;
    EXPECT_LT(std::abs(line["standard_errors"].get<double>()), 4);
    EXPECT_NEAR(line["measured"].get<double>(), std::sqrt(square / 64),
                0.25 * std::sqrt(square / 64));
  }
  EXPECT_EQ(compared, 6);
}

TEST_F(Approx, RefusesInvalidOptions) {
  refused(2, "approx --rows 16", {"--rows", "--kernel"});
  refused(2, "approx --kernel --counts 16", {"--kernel", "--counts", "exclude each other"});
  refused(2, "approx --kernel --rows 0", {"--rows is 0", "1 to 4096"});
  refused(2, "approx --kernel --draws 99999", {"--draws is 99999", "65000"});
  refused(2, "approx --kernel --key-size 1", {"--key-size is 1"});
  refused(2, "approx --features relu", {"relu", "not an estimator", "positive, hyperbolic, trig"});
  refused(2, "approx --features cosine", {"cosine", "positive, hyperbolic, trig"});
  refused(2, "approx --projections sparse", {"sparse", "iid, orthogonal, stratified, fixed-norm"});
  refused(2, "approx --counts 16,15", {"15", "even"});
  refused(2, "approx --counts 0", {"--counts", "0"});
  refused(2, "approx --length 0", {"--length", "0"});
  refused(2, "approx --key-size -3", {"--key-size", "-3"});
  refused(2, "approx --draws 0", {"--draws", "0"});
  refused(2, "approx --seed -1", {"--seed", "-1"});
  refused(2, "approx --stddev 0", {"--stddev", "0"});
  refused(2, "approx --stddev nan", {"--stddev", "nan"});
  refused(2, "approx --threads -2", {"-2"});
  refused(6, "approx --svg nowhere/a.svg", {"nowhere"});
  refused(6, "approx --csv nowhere/a.csv", {"nowhere"});
}

}  // namespace
}  // namespace linea
