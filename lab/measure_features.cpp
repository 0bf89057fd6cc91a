// W9: estimates of single numbers exp(q^.k^). W10: weights of softmax and their estimates. W12: the
// range of positive features. W14: gates of a new model. W15: keys and codes in the plane.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/gradcheck.h"
#include "lab/measure.h"
#include "nn/attention/mapped_attention.h"
#include "nn/random_projection.h"
#include "nn/verify/attend.h"
#include "train/timing.h"

namespace linea::lab {
namespace {

constexpr int64_t kKernelSize = 16, kPairs = 600, kWeightRows = 64;
constexpr double kPairStddev = 1.2;
const std::vector<int64_t> kRowCounts = {16, 64, 1024};

// Rows from N(0, stddev^2) over D^(1/4): x^.
Rows random_rows(int64_t count, int64_t size, double stddev, uint32_t stream_id) {
  std::vector<double> values = random_tensor({count, size}, stream_id, 1.0, 0.0).to_doubles();
  for (double& x : values) x *= stddev / std::pow(static_cast<double>(size), 0.25);
  return split_rows(values, size);
}

Rows random_omega(int64_t rows, int64_t size) {
  return split_rows(draw_projection(Projection::iid, rows, size, {0, Purpose::features, 0, 0}),
                    size);
}

// Lesson 7's mean over R rows w of omega: exp(w.(q^ + k^) - (|q^|^2 + |k^|^2) / 2), or
// cos(w.(q^ - k^)) exp((|q^|^2 + |k^|^2) / 2), from w.q^ and w.k^ of each row.
double estimate(bool positive, const std::vector<double>& wq, const std::vector<double>& wk,
                double squares) {
  double sum = 0;
  for (size_t r = 0; r < wq.size(); ++r)
    sum += positive ? std::exp(wq[r] + wk[r] - squares / 2)
                    : std::cos(wq[r] - wk[r]) * std::exp(squares / 2);
  return sum / static_cast<double>(wq.size());
}

Rows projected(const Rows& x, const Rows& omega) {
  Rows all(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (const std::vector<double>& w : omega) all[i].push_back(dot(w, x[i]));
  return all;
}

const char* name_of(bool positive) { return positive ? "positive" : "trig"; }

void divide_by_sum(std::vector<double>& row) {
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  for (double& x : row) x /= sum;
}

// A, its estimate, and the median over rows of sum_j |A^_ij - A_ij|.
nlohmann::ordered_json weights_panel(const Rows& q, const Rows& k, const Rows& exact, bool positive,
                                     int64_t rows, double stddev) {
  const Rows omega = random_omega(rows, kKernelSize), wq = projected(q, omega),
             wk = projected(k, omega);
  Rows weights(q.size());
  std::vector<double> errors(q.size());
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t j = 0; j < k.size(); ++j)
      weights[i].push_back(estimate(positive, wq[i], wk[j], dot(q[i], q[i]) + dot(k[j], k[j])));
    divide_by_sum(weights[i]);
    for (size_t j = 0; j < k.size(); ++j) errors[i] += std::abs(weights[i][j] - exact[i][j]);
  }
  return {{"kind", name_of(positive)},
          {"stddev", stddev},
          {"rows", rows},
          {"error", rounded(median(errors), 3)},
          {"weights", rows_json(weights, 4)}};
}

}  // namespace

nlohmann::ordered_json measure_estimates() {
  const Rows q = random_rows(kPairs, kKernelSize, kPairStddev, 1),
             k = random_rows(kPairs, kKernelSize, kPairStddev, 2);
  std::vector<double> exact;
  for (size_t i = 0; i < q.size(); ++i) exact.push_back(rounded(std::exp(dot(q[i], k[i])), 4));
  nlohmann::ordered_json panels = nlohmann::ordered_json::array();
  for (const bool positive : {true, false})
    for (const int64_t rows : kRowCounts) {
      const Rows omega = random_omega(rows, kKernelSize), wq = projected(q, omega),
                 wk = projected(k, omega);
      std::vector<double> estimates, errors;
      int64_t negative = 0;
      for (size_t i = 0; i < q.size(); ++i) {
        estimates.push_back(
            rounded(estimate(positive, wq[i], wk[i], dot(q[i], q[i]) + dot(k[i], k[i])), 4));
        negative += estimates.back() <= 0 ? 1 : 0;
        errors.push_back(std::abs(estimates.back() / exact[i] - 1));
      }
      panels.push_back({{"kind", name_of(positive)},
                        {"rows", rows},
                        {"negative", negative},
                        {"error", rounded(median(errors), 3)},
                        {"estimate", estimates}});
    }
  return {{"command", fmt::format("the formulas of lesson 7 with one omega from N(0, I), on {} "
                                  "pairs, D = {}, standard deviation {}",
                                  kPairs, kKernelSize, kPairStddev)},
          {"exact", exact},
          {"panels", panels}};
}

nlohmann::ordered_json measure_weights() {
  nlohmann::ordered_json exact = nlohmann::ordered_json::array(), panels = exact;
  for (const double stddev : {0.5, 1.0}) {
    const Rows q = random_rows(kWeightRows, kKernelSize, stddev, 1),
               k = random_rows(kWeightRows, kKernelSize, stddev, 2);
    Rows weights(q.size());
    for (size_t i = 0; i < q.size(); ++i) {
      for (const std::vector<double>& key : k) weights[i].push_back(std::exp(dot(q[i], key)));
      divide_by_sum(weights[i]);
    }
    exact.push_back({{"stddev", stddev}, {"weights", rows_json(weights, 4)}});
    for (const bool positive : {true, false})
      for (const int64_t rows : kRowCounts)
        panels.push_back(weights_panel(q, k, weights, positive, rows, stddev));
  }
  return {{"command", fmt::format("softmax and the formulas of lesson 7 with one omega, on {} "
                                  "queries and keys, D = {}",
                                  kWeightRows, kKernelSize)},
          {"size", kWeightRows},
          {"exact", exact},
          {"panels", panels}};
}

nlohmann::ordered_json measure_range() {
  constexpr int64_t kSize = 64, kKeys = 64, kRows = 64;
  const Rows omega = random_omega(kRows, kSize);
  nlohmann::ordered_json needs = nlohmann::ordered_json::array();
  for (int sigma = 1; sigma <= 8; ++sigma) {
    const Rows keys = random_rows(kKeys, kSize, sigma, 1), wk = projected(keys, omega);
    std::vector<double> powers;  // of ten
    for (size_t j = 0; j < keys.size(); ++j)
      for (const double u : wk[j])
        powers.push_back((u - dot(keys[j], keys[j]) / 2) / std::log(10.0));
    std::sort(powers.begin(), powers.end());
    const auto at = [&](double share) {
      return rounded(powers[static_cast<size_t>(share * static_cast<double>(powers.size()))], 4);
    };
    needs.push_back({{"sigma", sigma}, {"low", at(0.05)}, {"high", at(0.95)}});
  }
  const auto type = [](const char* name, double least, double most) {
    return nlohmann::ordered_json{{"name", name},
                                  {"low", rounded(std::log10(least), 4)},
                                  {"high", rounded(std::log10(most), 4)}};
  };
  return {
      {"command", fmt::format("logs of the positive features of {} random keys, D = {}, by {} "
                              "rows of omega",
                              kKeys, kSize, kRows)},
      {"key_size", kSize},
      {"types",
       {type("float32", std::numeric_limits<float>::min(), std::numeric_limits<float>::max()),
        type("bf16", std::numeric_limits<float>::min(), 3.3895e38),
        type("float64", std::numeric_limits<double>::min(), std::numeric_limits<double>::max())}},
      {"needs", needs}};
}

nlohmann::ordered_json measure_half_lives() {
  AttentionOptions options{"linear"};
  options.settings["rule"] = "gated";
  options.heads = 7;
  options.key_size = options.value_size = 16;
  options.length = 256;
  const std::unique_ptr<Attention> attention = make_attention(options);
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const double bias : attention->gate().initial_bias) {
    const double gate = 1 / (1 + std::exp(-bias));
    heads.push_back(
        {{"gate", rounded(gate, 6)}, {"half_life", rounded(std::log(0.5) / std::log(gate), 4)}});
  }
  return {{"command",
           "the initial gates of --attention linear --rule gated --length 256, with 7 heads"},
          {"length", options.length},
          {"heads", heads}};
}

nlohmann::ordered_json measure_codes() {
  constexpr int64_t kKeys = 60, kCodes = 8;
  attend::Inputs in;
  in.q = in.k = in.v = random_tensor({1, 1, kKeys, 2}, 1, 1.0, 0.0);
  const Tensor codes = random_tensor({1, kCodes, 2}, 5, 1.0, 0.0);
  in.tensors = {{"codebook", codes}};
  nlohmann::ordered_json panels = nlohmann::ordered_json::array();
  for (const double sigma : {2.0, 1.0, 0.5, 0.25, 0.1}) {
    AttentionOptions options{"soft-vq"};
    options.settings["codes"] = kCodes;
    options.settings["sigma"] = sigma;
    const std::unique_ptr<Attention> attention = attend::attention_for(in, options);
    Tensor p = dynamic_cast<const MappedAttention&>(*attention)
                   .features_of({Var(in.q), Var(in.k), Var(in.v), Var()}, {})
                   .k.value();
    std::vector<double> values = p.to_doubles(), largest;
    for (double& log_p : values) log_p = std::exp(log_p);
    for (size_t j = 0; j < static_cast<size_t>(kKeys); ++j) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(j * kCodes);
      largest.push_back(*std::max_element(first, first + kCodes));
    }
    const double mean = std::accumulate(largest.begin(), largest.end(), 0.0) / kKeys;
    panels.push_back({{"sigma", sigma},
                      {"largest", rounded(mean, 3)},
                      {"p", rows_json(Tensor::from(values, p.shape(), p.dtype()), 3)}});
  }
  return {{"command", "p(f | k) of --attention soft-vq, of 60 random keys and 8 codes, D = 2"},
          {"keys", rows_json(in.k, 4)},
          {"codes", rows_json(codes, 4)},
          {"panels", panels}};
}

}  // namespace linea::lab
