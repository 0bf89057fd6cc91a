// Causal linear attention by one rank-1 update per token, the algorithm of published CPU kernels: a
// peer of `linea bench attention`. It includes the features phi(x) = elu(x) + 1 and the
// denominator:
//
//   S += phi(k)^T v    z += phi(k)    d = phi(q) z^T    y = phi(q) S / d
//
// Three passes over the tokens, parallel over (batch, head): forward; forward again, which
// recomputes S and z, for dq; in reverse with the sums R, r of phi(q)^T dn and phi(q) dd, for dk
// and dv. Here n = phi(q) S, dn = dy / d, dd = -(dy . y) / d. The passes take 4, 4 and 6 D M
// operations per token, 14 D M in total.
//
//   g++ -std=c++20 -Ofast -march=native -fopenmp rank1_attention.cpp -o rank1_attention
//   OMP_NUM_THREADS=2 ./rank1_attention [B H N D] [--seconds S] [--in FILE] [--dump FILE]
//
// --in reads q k v dy, --dump writes y dq dk dv: consecutive raw float tensors [B,H,N,D], as
// check_peer.py uses them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;

struct Sizes {
  long B = 1, H = 8, N = 4096, D = 64;
  long batch_heads() const { return B * H; }
  long count() const { return B * H * N * D; }
};

float feature(float x) { return x >= 0 ? x + 1 : std::exp(x); }

// The derivative as a function of the feature: 1 for x > 0 (feature > 1), exp(x) below.
float feature_derivative(float feature) { return std::min(feature, 1.0f); }

Floats features(const Floats& x) {
  Floats result(x.size());
#pragma omp parallel for simd
  for (size_t i = 0; i < x.size(); ++i) result[i] = feature(x[i]);
  return result;
}

// The loops of one token. Width is D if known at compile time, otherwise 0.
template <int Width>
struct Token {
  long size;
  long D() const { return Width > 0 ? Width : size; }

  // S += k^T v; n = q S
  void update_and_read(const float* k, const float* v, const float* q, float* S, float* n) const {
    std::fill(n, n + D(), 0.0f);
    for (long d = 0; d < D(); ++d) {
      float* row = S + d * D();
#pragma omp simd
      for (long m = 0; m < D(); ++m) {
        row[m] += k[d] * v[m];
        n[m] += q[d] * row[m];
      }
    }
  }

  // S += k^T v; x = S w
  void update_and_read_transposed(const float* k, const float* v, const float* w, float* S,
                                  float* x) const {
    for (long d = 0; d < D(); ++d) {
      float* row = S + d * D();
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long m = 0; m < D(); ++m) {
        row[m] += k[d] * v[m];
        sum += row[m] * w[m];
      }
      x[d] = sum;
    }
  }

  // R += q^T dn; dk = R v; dv = k R
  void update_and_read_both(const float* q, const float* dn, const float* k, const float* v,
                            float* R, float* dk, float* dv) const {
    std::fill(dv, dv + D(), 0.0f);
    for (long d = 0; d < D(); ++d) {
      float* row = R + d * D();
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long m = 0; m < D(); ++m) {
        row[m] += q[d] * dn[m];
        sum += row[m] * v[m];
        dv[m] += k[d] * row[m];
      }
      dk[d] = sum;
    }
  }
};

// Computes y and the denominators d [B,H,N] from the features q, k.
template <int Width>
void forward(const Sizes& s, const Floats& q, const Floats& k, const Floats& v, Floats& y,
             Floats& d) {
  const Token<Width> token{s.D};
#pragma omp parallel for
  for (long bh = 0; bh < s.batch_heads(); ++bh) {
    Floats S(s.D * s.D), z(s.D);
    for (long i = 0; i < s.N; ++i) {
      const long row = bh * s.N + i, at = row * s.D;
      token.update_and_read(&k[at], &v[at], &q[at], S.data(), &y[at]);
      float sum = 0;
      for (long f = 0; f < s.D; ++f) {
        z[f] += k[at + f];
        sum += q[at + f] * z[f];
      }
      d[row] = sum;
      for (long m = 0; m < s.D; ++m) y[at + m] /= sum;
    }
  }
}

// dn = dy / d, dd = -(dy . y) / d
void through_division(long D, const float* dy, const float* y, float d, float* dn, float& dd) {
  float sum = 0;
  for (long m = 0; m < D; ++m) {
    sum += dy[m] * y[m];
    dn[m] = dy[m] / d;
  }
  dd = -sum / d;
}

template <int Width>
void backward(const Sizes& s, const Floats& q, const Floats& k, const Floats& v, const Floats& y,
              const Floats& d, const Floats& dy, Floats& dq, Floats& dk, Floats& dv) {
  const Token<Width> token{s.D};
#pragma omp parallel for
  for (long bh = 0; bh < s.batch_heads(); ++bh) {
    Floats S(s.D * s.D), z(s.D), R(s.D * s.D), r(s.D), dn(s.D);
    float dd = 0;
    for (long i = 0; i < s.N; ++i) {
      const long row = bh * s.N + i, at = row * s.D;
      through_division(s.D, &dy[at], &y[at], d[row], dn.data(), dd);
      token.update_and_read_transposed(&k[at], &v[at], dn.data(), S.data(), &dq[at]);
      for (long f = 0; f < s.D; ++f) {
        z[f] += k[at + f];
        dq[at + f] = (dq[at + f] + dd * z[f]) * feature_derivative(q[at + f]);
      }
    }
    for (long i = s.N - 1; i >= 0; --i) {
      const long row = bh * s.N + i, at = row * s.D;
      through_division(s.D, &dy[at], &y[at], d[row], dn.data(), dd);
      token.update_and_read_both(&q[at], dn.data(), &k[at], &v[at], R.data(), &dk[at], &dv[at]);
      for (long f = 0; f < s.D; ++f) {
        r[f] += q[at + f] * dd;
        dk[at + f] = (dk[at + f] + r[f]) * feature_derivative(k[at + f]);
      }
    }
  }
}

struct Data {
  Floats q, k, v, dy, y, dq, dk, dv, d;
};

template <int Width>
void run(const Sizes& s, Data& x) {
  const Floats q = features(x.q), k = features(x.k);
  forward<Width>(s, q, k, x.v, x.y, x.d);
  backward<Width>(s, q, k, x.v, x.y, x.d, x.dy, x.dq, x.dk, x.dv);
}

void run_any(const Sizes& s, Data& x) {
  if (s.D == 64) return run<64>(s, x);
  if (s.D == 32) return run<32>(s, x);
  run<0>(s, x);
}

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

void transfer(const std::string& path, const char* mode, std::initializer_list<Floats*> tensors) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) fail("cannot open " + path);
  for (Floats* x : tensors) {
    const size_t done = mode[0] == 'r' ? std::fread(x->data(), sizeof(float), x->size(), file)
                                       : std::fwrite(x->data(), sizeof(float), x->size(), file);
    if (done != x->size()) fail(path + ": short read or write");
  }
  std::fclose(file);
}

}  // namespace

int main(int count, char** arguments) {
  Sizes s;
  double seconds = 1;
  std::string in, dump;
  long* const sizes[] = {&s.B, &s.H, &s.N, &s.D};
  for (int i = 1, index = 0; i < count; ++i) {
    const std::string flag = arguments[i];
    if (flag.rfind("--", 0) == 0) {
      if (i + 1 == count) fail(flag + " needs a value");
      const char* value = arguments[++i];
      if (flag == "--seconds")
        seconds = std::atof(value);
      else if (flag == "--in")
        in = value;
      else if (flag == "--dump")
        dump = value;
      else
        fail("unknown option " + flag);
    } else {
      if (index == 4 || std::atol(flag.c_str()) < 1) fail("sizes are B H N D, each at least 1");
      *sizes[index++] = std::atol(flag.c_str());
    }
  }

  Data x;
  for (Floats* tensor : {&x.q, &x.k, &x.v, &x.dy, &x.y, &x.dq, &x.dk, &x.dv})
    tensor->resize(s.count());
  x.d.resize(s.count() / s.D);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (Floats* tensor : {&x.q, &x.k, &x.v, &x.dy})
    for (float& value : *tensor) value = normal(random);
  if (!in.empty()) transfer(in, "rb", {&x.q, &x.k, &x.v, &x.dy});

  std::vector<double> times;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto begin) {
    return std::chrono::duration<double>(now() - begin).count();
  };
  run_any(s, x);
  if (!dump.empty()) {
    transfer(dump, "wb", {&x.y, &x.dq, &x.dk, &x.dv});
    return 0;
  }
  for (const auto begin = now(); times.size() < 5 || since(begin) < seconds;) {
    const auto one = now();
    run_any(s, x);
    times.push_back(since(one));
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double time = times[times.size() / 2];
  double checksum = 0;
  for (const Floats* tensor : {&x.y, &x.dq, &x.dk, &x.dv})
    for (const float value : *tensor) checksum += std::abs(value);
  std::printf("{\"ms\": %.3f, \"gflops\": %.2f, \"checksum\": %.6g}\n", 1e3 * time,
              14.0 * s.D * s.D * s.N * s.batch_heads() / time / 1e9, checksum);
}
