// Linear attention alone, trained, without a library: features, chunks, the two sweeps of the
// backward pass, and gradient descent. Everything of it but the speed.
//
//   g++ -std=c++20 -O2 lessons/alone.cpp -o alone && ./alone
//
// A sequence writes eight keys with their values, then asks for each of them in another order. Keys
// and queries are rows of two tables, which are learned. The letters are those of lessons 3 to 5:
//   y_i d_i = phi(q_i) S + sum_j a_ij v_j     n_i = dy_i / d_i      e_i = -(dy_i . y_i) / d_i
//   dphi(q_i) = n_i S^T + e_i z               dphi(k_j) = v_j R^T + r
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr size_t kPairs = 8, kSize = 8, kChunk = 3;  // D = F = M = 8

Rows zeros(size_t rows) { return Rows(rows, Row(kSize, 0.0)); }
double dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
void add(Row& to, double factor, const Row& x) {
  for (size_t i = 0; i < x.size(); ++i) to[i] += factor * x[i];
}

// phi(x) = elu(x) + 1, and its derivative.
Row phi(const Row& x) {
  Row y;
  for (const double a : x) y.push_back(a >= 0 ? a + 1 : std::exp(a));
  return y;
}
Row through_phi(const Row& x, const Row& dphi) {
  Row dx;
  for (size_t i = 0; i < x.size(); ++i) dx.push_back(dphi[i] * (x[i] >= 0 ? 1 : std::exp(x[i])));
  return dx;
}

// S [F,M] and z [F]: a sum of outer products, and of weighted rows.
struct State {
  Rows S = zeros(kSize);
  Row z = Row(kSize, 0.0);
  void add_outer(const Row& f, const Row& v, double weight) {
    for (size_t i = 0; i < kSize; ++i) add(S[i], f[i], v);
    add(z, weight, f);
  }
  Row read(const Row& f) const {  // f S
    Row y(kSize, 0.0);
    for (size_t i = 0; i < kSize; ++i) add(y, f[i], S[i]);
    return y;
  }
  Row read_transposed(const Row& v) const {  // v S^T
    Row f;
    for (const Row& row : S) f.push_back(dot(row, v));
    return f;
  }
};

// Features of N positions and their values; y and the denominators d. A position that only asks has
// phi(k) = 0 and writes nothing.
struct Pass {
  Rows q, k, v, y;
  Row d;
};

// In chunks: the state before the chunk, and the masked weights within it.
void forward(Pass& p) {
  State state;
  p.y.clear(), p.d.clear();
  for (size_t first = 0; first < p.q.size(); first += kChunk) {
    const size_t end = std::min(first + kChunk, p.q.size());
    for (size_t i = first; i < end; ++i) {
      Row y = state.read(p.q[i]);
      double d = dot(p.q[i], state.z);
      for (size_t j = first; j <= i; ++j) {
        const double a = dot(p.q[i], p.k[j]);
        add(y, a, p.v[j]);
        d += a;
      }
      for (double& x : y) x = d == 0 ? 0 : x / d;
      p.y.push_back(y), p.d.push_back(d);
    }
    for (size_t j = first; j < end; ++j) state.add_outer(p.k[j], p.v[j], 1);
  }
}

// Gradients of the features; the states are computed again, and nothing of size N F M is saved.
void backward(const Pass& p, const Rows& dy, Rows& dq, Rows& dk) {
  const size_t N = p.q.size();
  dq = zeros(N), dk = zeros(N);
  Rows n = zeros(N);
  Row e(N, 0.0);
  for (size_t i = 0; i < N; ++i)
    if (p.d[i] != 0) add(n[i], 1 / p.d[i], dy[i]), e[i] = -dot(dy[i], p.y[i]) / p.d[i];
  State state, later;
  for (size_t i = 0; i < N; ++i) {  // forward: S and z
    state.add_outer(p.k[i], p.v[i], 1);
    dq[i] = state.read_transposed(n[i]);
    add(dq[i], e[i], state.z);
  }
  for (size_t j = N; j-- > 0;) {  // from the end: R and r
    later.add_outer(p.q[j], n[j], e[j]);
    dk[j] = later.read_transposed(p.v[j]);
    add(dk[j], 1, later.z);
  }
}

int main() {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Rows keys = zeros(kPairs), queries = zeros(kPairs);
  for (Rows* table : {&keys, &queries})
    for (Row& row : *table)
      for (double& x : row) x = 0.1 * normal(random);
  double loss = 0;
  for (int step = 0; step <= 2000; ++step) {
    std::vector<size_t> id(kPairs);
    std::iota(id.begin(), id.end(), size_t{0});
    std::vector<size_t> asked = id;
    std::shuffle(id.begin(), id.end(), random);
    std::shuffle(asked.begin(), asked.end(), random);
    id.insert(id.end(), asked.begin(), asked.end());
    Pass p;
    for (size_t t = 0; t < id.size(); ++t) {
      const bool asks = t >= kPairs;
      p.q.push_back(asks ? phi(queries[id[t]]) : Row(kSize, 0.0));
      p.k.push_back(asks ? Row(kSize, 0.0) : phi(keys[id[t]]));
      p.v.push_back(Row(kSize, 0.0));
      if (!asks) p.v.back()[id[t]] = 1;  // the value of pair i: 1 at i
    }
    forward(p);
    Rows dy = zeros(id.size()), dq, dk;
    loss = 0;
    for (size_t t = kPairs; t < id.size(); ++t) {  // |y - v|^2 / 2
      dy[t] = p.y[t];
      dy[t][id[t]] -= 1;
      loss += dot(dy[t], dy[t]) / 2 / kPairs;
    }
    backward(p, dy, dq, dk);
    for (size_t t = 0; t < id.size(); ++t)
      add(t < kPairs ? keys[id[t]] : queries[id[t]], -1.0,
          t < kPairs ? through_phi(keys[id[t]], dk[t]) : through_phi(queries[id[t]], dq[t]));
    if (step % 400 == 0) std::printf("step %4d  loss %.6f\n", step, loss);
  }
  return loss < 0.01 ? 0 : 1;
}
