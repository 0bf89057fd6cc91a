#include <algorithm>
#include <cmath>

#include "autograd/rules/naive_tools.h"

namespace linea::naive {
namespace {

using Wide = long double;  // holds exp(-11000), which features at scale 12 need
using Wides = std::vector<Wide>;

// exp of logs [rows,F], less the largest of `group` rows: a factor that cancels in y.
Wides exp_of_logs(const Wides& logs, size_t group) {
  Wides result;
  for (auto first = logs.begin(); first != logs.end();
       first += static_cast<std::ptrdiff_t>(group)) {
    const auto end = first + static_cast<std::ptrdiff_t>(group);
    const Wide max = *std::max_element(first, end);
    for (auto log = first; log != end; ++log)
      result.push_back(std::isfinite(max) ? std::exp(*log - max) : 0);
  }
  return result;
}

// S_t [F,W] of one head. The gated rule has the column of 1 in v [N,W] whose sums are denominators;
// the gated delta rule corrects what k_t reads.
struct Recurrence {
  bool corrects;
  size_t N, F, W;
  Wides q, k, v, dy, decay, weight;

  // S_{t-1} becomes S_t.
  void update(Wides& S, size_t t) const {
    for (Wide& s : S) s *= decay[t];
    for (size_t m = 0; m < W; ++m) {
      Wide written = v[t * W + m];
      for (size_t f = 0; corrects && f < F; ++f) written -= k[t * F + f] * S[f * W + m];
      for (size_t f = 0; f < F; ++f) S[f * W + m] += weight[t] * k[t * F + f] * written;
    }
  }

  // dS += q r^T, r the gradient of S_t^T q_t, which is y or, with denominators, y d and d.
  void read_back(const Wides& S, size_t t, Wides& dS) const {
    Wides read(W), r(W);
    for (size_t m = 0; m < W; ++m)
      for (size_t f = 0; f < F; ++f) read[m] += q[t * F + f] * S[f * W + m];
    const size_t M = corrects ? W : W - 1;
    const Wide denominator = corrects ? 1 : read[M];
    if (denominator == 0) return;  // y is 0
    for (size_t m = 0; m < M; ++m) {
      r[m] = dy[t * M + m] / denominator;
      if (M < W) r[M] -= r[m] * (read[m] / denominator);
    }
    for (size_t f = 0; f < F; ++f)
      for (size_t m = 0; m < W; ++m) dS[f * W + m] += q[t * F + f] * r[m];
  }

  // The gradient of decay t, given S_{t-1}; dS_t becomes dS_{t-1}. That of g_t counts what
  // 1 - g_t writes; of the delta rules dS first passes beta k (v - k S)^T.
  Wide decay_back(const Wides& S, size_t t, Wides& dS) const {
    Wide gradient = 0;
    for (size_t m = 0; m < W; ++m) {
      Wide along = 0;
      for (size_t f = 0; corrects && f < F; ++f) along += k[t * F + f] * dS[f * W + m];
      for (size_t f = 0; f < F; ++f) {
        Wide& d = dS[f * W + m];
        d -= weight[t] * k[t * F + f] * along;
        const Wide lost = corrects ? 0 : k[t * F + f] * v[t * W + m];
        gradient += d * (S[f * W + m] - lost);
        d *= decay[t];
      }
    }
    return gradient;
  }

  // The gradients of all decays [N]. Saves every sqrt(N)-th state and computes those between again.
  void run(double* gradients) const {
    const auto block = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(N))));
    std::vector<Wides> starts;
    Wides S(F * W), dS(F * W);
    for (size_t t = 0; t < N; ++t) {
      if (t % block == 0) starts.push_back(S);
      update(S, t);
    }
    for (size_t first = (starts.size() - 1) * block; !starts.empty(); first -= block) {
      std::vector<Wides> states = {starts.back()};  // before first, first + 1, ...
      for (size_t t = first; t < std::min(first + block, N); ++t) {
        states.push_back(states.back());
        update(states.back(), t);
      }
      for (size_t t = first + states.size() - 1; t-- > first;) {
        read_back(states[t - first + 1], t, dS);
        gradients[t] = static_cast<double>(decay_back(states[t - first], t, dS));
      }
      starts.pop_back();
    }
  }
};

}  // namespace

Tensor decay_gradient(const Inputs& in, const Tensor& dy) {
  require(
      in.gates.beta.defined() || in.gates.log_weight.defined(),
      "decay_gradient: a rule that sums writes 1 - g of what it forgets; this one has no weight");
  const bool corrects = in.gates.beta.defined();
  const Var ones(Tensor::full(in.v.shape().with(-1, 1), in.v.dtype(), 1.0));
  const Tensor q = in.q.value(), k = in.k.value(),
               v = corrects ? in.v.value() : join_columns({in.v, ones}).value(),
               log_decay = in.gates.log_decay.value();
  const size_t N = size_of(q, 2), F = size_of(q, 3);
  const int64_t heads = q.size(0) * q.size(1);
  const auto head_of = [heads](const Tensor& x, int64_t p) {
    const auto values = x.reshape({heads, x.numel() / heads}).select(p).to_doubles();
    return Wides(values.begin(), values.end());
  };
  const auto exp_all = [](Wides logs) {
    for (Wide& x : logs) x = std::exp(x);
    return logs;
  };
  std::vector<double> result(static_cast<size_t>(heads) * N);
  for (int64_t p = 0; p < heads; ++p) {
    const Wides weight = corrects ? head_of(in.gates.beta.value(), p)
                                  : exp_all(head_of(in.gates.log_weight.value(), p));
    Recurrence head{corrects,
                    N,
                    F,
                    size_of(v, 3),
                    head_of(q, p),
                    head_of(k, p),
                    head_of(v, p),
                    head_of(dy, p),
                    exp_all(head_of(log_decay, p)),
                    weight};
    if (in.logs) {
      head.q = exp_of_logs(head.q, F);
      head.k = exp_of_logs(head.k, N * F);
    }
    head.run(result.data() + static_cast<size_t>(p) * N);
  }
  return Tensor::from(result, log_decay.shape(), log_decay.dtype());
}

}  // namespace linea::naive
