// What linea attend must find: the formulas themselves, in plain loops in double that share nothing
// with the library.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace linea::attend_tests {

using Numbers = std::vector<double>;

struct Array {
  Shape shape;
  Numbers values;
};
using Arrays = std::map<std::string, Array>;

struct Sizes {
  int64_t batch = 2, heads = 2, length = 19, key_size = 4, value_size = 3,
          rows = 6;  // rows of omega or codebook
};

struct Mechanism {
  std::string attention, feature, rule = "sum";
  int nu = 1;
  std::string flags() const {
    return " --attention " + attention + (feature.empty() ? "" : " --feature " + feature) +
           (rule == "sum" ? "" : " --rule " + rule) +
           (nu == 1 ? "" : " --nu " + std::to_string(nu));
  }
  // Those whose gates are beta and the log of a decay, without denominator.
  bool has_logs() const {
    return corrects() || attention == "ssd" || attention == "retnet" || attention == "gla";
  }
  bool corrects() const { return attention == "gdn" || attention == "kda"; }
  bool channels() const { return attention == "gla" || attention == "kda"; }
  std::vector<std::string> log_gates() const {
    if (!has_logs() || attention == "retnet") return {};
    if (attention == "gla") return {"log_decay"};
    return {"beta", "log_decay"};
  }
  bool is_delta() const { return rule == "delta" || rule == "gated-delta"; }
  std::string gate() const {
    return rule == "gated" ? "gate" : rule == "delta" ? "beta" : is_delta() ? "gates" : "";
  }
  int64_t gates() const { return rule == "gated-delta" ? 2 : 1; }
  bool causal_only() const { return rule != "sum" || has_logs(); }
  bool both_codes() const { return attention == "vq" || attention == "soft-vq"; }
};

inline double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

inline double square_distance(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

inline double relu(double x) { return x > 0 ? x : 0; }

// phi of linear; of square it is part of weight().
inline Numbers linear_features(const Mechanism& m, const double* x, int64_t D) {
  Numbers phi;
  if (m.feature == "dpfp") {
    Numbers r;
    for (int64_t d = 0; d < D; ++d) r.push_back(relu(x[d]));
    for (int64_t d = 0; d < D; ++d) r.push_back(relu(-x[d]));
    for (size_t b = 1; b <= static_cast<size_t>(m.nu); ++b)
      for (size_t a = 0; a < r.size(); ++a) phi.push_back(r[a] * r[(a + b) % r.size()]);
    return phi;
  }
  for (int64_t d = 0; d < D; ++d)
    phi.push_back(m.feature == "relu"  ? relu(x[d]) + 1e-3
                  : m.feature == "exp" ? std::exp(x[d])
                  : x[d] >= 0          ? x[d] + 1
                                       : std::exp(x[d]));
  return phi;
}

inline Numbers random_features(const Mechanism& m, const double* x, const double* omega, int64_t R,
                               int64_t D) {
  const double root = std::pow(static_cast<double>(D), 0.25);
  Numbers scaled(x, x + D), phi, second;
  for (double& number : scaled) number /= root;
  const double half = dot(scaled.data(), scaled.data(), D) / 2, rows = static_cast<double>(R);
  for (int64_t r = 0; r < R; ++r) {
    const double u = dot(omega + r * D, scaled.data(), D);
    if (m.feature == "relu") phi.push_back(relu(u) + 1e-3);
    if (m.feature == "positive") phi.push_back(std::exp(u - half) / std::sqrt(rows));
    if (m.feature == "hyperbolic") {
      phi.push_back(std::exp(-half) * std::exp(u) / std::sqrt(2 * rows));
      second.push_back(std::exp(-half) * std::exp(-u) / std::sqrt(2 * rows));
    }
    if (m.feature == "trig") {
      phi.push_back(std::exp(half) * std::sin(u) / std::sqrt(rows));
      second.push_back(std::exp(half) * std::cos(u) / std::sqrt(rows));
    }
  }
  phi.insert(phi.end(), second.begin(), second.end());
  return phi;
}

inline int64_t nearest_code(const double* k, const double* codes, int64_t F, int64_t D) {
  int64_t best = 0;
  for (int64_t f = 1; f < F; ++f)
    if (square_distance(k, codes + f * D, D) < square_distance(k, codes + best * D, D)) best = f;
  return best;
}

// a_ij of a query and a key of one head; `table` is that head's omega or codebook.
inline double weight(const Mechanism& m, const double* q, const double* k, const double* table,
                     int64_t F, int64_t D, double sigma) {
  if (m.attention == "softmax") return std::exp(dot(q, k, D) / std::sqrt(static_cast<double>(D)));
  if (m.attention == "surrogate") return std::exp(dot(q, k, D));  // of vq: k is the code itself
  if (m.attention == "vq") return std::exp(dot(q, table + nearest_code(k, table, F, D) * D, D));
  if (m.attention == "soft-vq") {
    double all = 0, sum = 0;
    for (int64_t f = 0; f < F; ++f) {
      const double p = std::exp(-square_distance(k, table + f * D, D) / (2 * sigma * sigma));
      all += p;
      sum += p * std::exp(dot(q, table + f * D, D));
    }
    return sum / all;
  }
  if (m.feature == "square") return dot(q, k, D) * dot(q, k, D);
  const bool random = m.attention == "performer";
  const Numbers a = random ? random_features(m, q, table, F, D) : linear_features(m, q, D);
  const Numbers b = random ? random_features(m, k, table, F, D) : linear_features(m, k, D);
  return dot(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

// The recurrences of the gated and the delta rules for one (batch, head); gate [N], or [N,2].
inline void by_rule(const Mechanism& m, const double* q, const double* k, const double* v,
                    const double* gate, int64_t N, int64_t D, int64_t M, double* y) {
  Numbers S, z;
  for (int64_t n = 0; n < N; ++n) {
    Numbers a = linear_features(m, q + n * D, D), b = linear_features(m, k + n * D, D);
    const size_t F = a.size(), width = static_cast<size_t>(M);
    S.resize(F * width), z.resize(F);
    const double g = gate[n * m.gates()];
    if (m.gates() == 2)
      for (double& s : S) s *= gate[2 * n + 1];
    if (m.is_delta()) {
      double sum_a = 0, sum_b = 0;
      for (size_t f = 0; f < F; ++f) sum_a += a[f], sum_b += b[f];
      for (size_t f = 0; f < F; ++f) {
        a[f] = sum_a == 0 ? 0 : a[f] / sum_a;
        b[f] = sum_b == 0 ? 0 : b[f] / sum_b;
      }
    }
    for (size_t j = 0; j < width; ++j) {
      double held = 0;
      for (size_t f = 0; f < F; ++f) held += S[f * width + j] * b[f];
      const double value = v[n * M + static_cast<int64_t>(j)];
      for (size_t f = 0; f < F; ++f) {
        double& s = S[f * width + j];
        s = m.is_delta() ? s + b[f] * g * (value - held) : g * s + (1 - g) * b[f] * value;
      }
    }
    for (size_t f = 0; f < F; ++f) z[f] = g * z[f] + (1 - g) * b[f];
    const double all = m.is_delta() ? 1 : dot(z.data(), a.data(), static_cast<int64_t>(F));
    for (size_t j = 0; j < width; ++j) {
      double read = 0;
      for (size_t f = 0; f < F; ++f) read += S[f * width + j] * a[f];
      y[n * M + static_cast<int64_t>(j)] = all == 0 ? 0 : read / all;
    }
  }
}

// Those with logs, for one (batch, head): beta null is 1; log_decay [N,decays].
inline void by_logs(const Mechanism& m, const double* q, const double* k, const double* v,
                    const double* beta, const double* log_decay, int64_t decays, int64_t N,
                    int64_t D, int64_t M, double* y) {
  const auto row = [&](const double* x) {
    Numbers features(x, x + D);
    if (m.corrects() || m.attention == "ssd")
      for (double& f : features) f = f / (1 + std::exp(-f));
    const double length = std::sqrt(dot(features.data(), features.data(), D));
    if (m.corrects())
      for (double& f : features) f = length == 0 ? 0 : f / length;
    return features;
  };
  Numbers S(static_cast<size_t>(D * M));
  for (int64_t n = 0; n < N; ++n) {
    const Numbers a = row(q + n * D), b = row(k + n * D);
    for (int64_t d = 0; d < D; ++d)
      for (int64_t j = 0; j < M; ++j)
        S[static_cast<size_t>(d * M + j)] *= std::exp(log_decay[n * decays + (decays > 1 ? d : 0)]);
    for (int64_t j = 0; j < M; ++j) {
      double held = 0, read = 0;
      for (int64_t d = 0; d < D; ++d)
        held += S[static_cast<size_t>(d * M + j)] * b[static_cast<size_t>(d)];
      const double x = (beta == nullptr ? 1 : beta[n]) * (v[n * M + j] - m.corrects() * held);
      for (int64_t d = 0; d < D; ++d) {
        S[static_cast<size_t>(d * M + j)] += b[static_cast<size_t>(d)] * x;
        read += S[static_cast<size_t>(d * M + j)] * a[static_cast<size_t>(d)];
      }
      y[n * M + j] = read / std::sqrt(static_cast<double>(D));
    }
  }
}

inline Numbers formula(const Mechanism& m, const Arrays& in, bool causal) {
  const Shape& shape = in.at("q").shape;
  const int64_t H = shape[1], N = shape[2], D = shape[3], M = in.at("v").shape[3];
  const std::string table = m.attention == "performer" ? "omega" : m.both_codes() ? "codebook" : "";
  const int64_t F = table.empty() ? 0 : in.at(table).shape[1];
  const double sigma = in.count("sigma") != 0 ? in.at("sigma").values[0] : 1;
  Numbers y(in.at("v").values.size());
  for (int64_t pair = 0; pair < shape[0] * H; ++pair) {
    const double *q = &in.at("q").values[static_cast<size_t>(pair * N * D)],
                 *k = &in.at("k").values[static_cast<size_t>(pair * N * D)],
                 *v = &in.at("v").values[static_cast<size_t>(pair * N * M)];
    double* out = &y[static_cast<size_t>(pair * N * M)];
    if (m.has_logs()) {
      const auto gate = [&](const char* name, int64_t width) {
        return in.count(name) == 0 ? nullptr
                                   : &in.at(name).values[static_cast<size_t>(pair * N * width)];
      };
      Numbers fixed(static_cast<size_t>(N),
                    std::log(1 - std::pow(2.0, -5 - static_cast<double>(pair % H))));
      const int64_t decays =
          in.count("log_decay") != 0 && in.at("log_decay").shape.rank() == 4 ? D : 1;
      const double* log_decay = gate("log_decay", decays);
      by_logs(m, q, k, v, gate("beta", 1), log_decay == nullptr ? fixed.data() : log_decay, decays,
              N, D, M, out);
      continue;
    }
    if (m.rule != "sum") {
      const double* gate = &in.at(m.gate()).values[static_cast<size_t>(pair * N * m.gates())];
      by_rule(m, q, k, v, gate, N, D, M, out);
      continue;
    }
    const double* rows =
        table.empty() ? nullptr : &in.at(table).values[static_cast<size_t>(pair % H * F * D)];
    for (int64_t i = 0; i < N; ++i) {
      double all = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : N); ++j) {
        const double a = weight(m, q + i * D, k + j * D, rows, F, D, sigma);
        all += a;
        for (int64_t c = 0; c < M; ++c) out[i * M + c] += a * v[j * M + c];
      }
      for (int64_t c = 0; c < M; ++c) out[i * M + c] = all == 0 ? 0 : out[i * M + c] / all;
    }
  }
  return y;
}

}  // namespace linea::attend_tests
