// W4: one output by three forms. W5: the backward pass of lesson 5 in its letters, position by
// position.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "autograd/gradcheck.h"
#include "base/error.h"
#include "lab/measure.h"
#include "nn/verify/attend.h"

namespace linea::lab {
namespace {

constexpr int64_t kTokens = 12, kChunk = 4, kSteps = 8, kNarrow = 2;
constexpr double kAgreement = 1e-12;

attend::Inputs random_inputs(int64_t positions, bool gradient) {
  const auto normal = [&](uint32_t stream_id) {
    return random_tensor({1, 1, positions, kNarrow}, stream_id);
  };
  attend::Inputs in{normal(1), normal(2), normal(3), {}, {}};
  if (gradient) in.dy = normal(4);
  return in;
}

Rows to_rows(const Tensor& x) { return split_rows(x.to_doubles(), kNarrow); }

// elu + 1 and its derivative
Rows phi_of(const Rows& x, bool derivative) {
  Rows result = x;
  for (std::vector<double>& row : result)
    for (double& value : row) value = value >= 0 ? (derivative ? 1 : value + 1) : std::exp(value);
  return result;
}
// Lesson 5: S_i and z_i forward, R_j and r_j backward.
struct Sweeps {
  static constexpr size_t N = kSteps, F = kNarrow, M = kNarrow;
  Rows q, k, v, dy, y = Rows(N), dq = Rows(N), dk = Rows(N), dv = Rows(N), numerator = Rows(N);
  std::vector<Rows> S, R;  // with z and r as a last column

  Sweeps(const attend::Inputs& in)
      : q(to_rows(in.q)), k(to_rows(in.k)), v(to_rows(in.v)), dy(to_rows(in.dy)) {
    const Rows fq = phi_of(q, false), fk = phi_of(k, false), gradient_q = phi_of(q, true),
               gradient_k = phi_of(k, true);
    Rows state(F, std::vector<double>(M + 1)), n(N);
    std::vector<double> e(N);
    for (size_t i = 0; i < N; ++i) {
      for (size_t f = 0; f < F; ++f)
        for (size_t m = 0; m <= M; ++m) state[f][m] += fk[i][f] * (m < M ? v[i][m] : 1);
      S.push_back(state);
      std::vector<double> read(M + 1);
      for (size_t f = 0; f < F; ++f)
        for (size_t m = 0; m <= M; ++m) read[m] += fq[i][f] * state[f][m];
      for (size_t m = 0; m < M; ++m) y[i].push_back(read[m] / read[M]);
      for (size_t m = 0; m < M; ++m) n[i].push_back(dy[i][m] / read[M]);
      e[i] = -dot(dy[i], y[i]) / read[M];
      for (size_t f = 0; f < F; ++f) {
        double sum = e[i] * state[f][M];
        for (size_t m = 0; m < M; ++m) sum += n[i][m] * state[f][m];
        dq[i].push_back(gradient_q[i][f] * sum);
      }
    }
    Rows back(F, std::vector<double>(M + 1));
    for (size_t j = N; j-- > 0;) {
      for (size_t f = 0; f < F; ++f)
        for (size_t m = 0; m <= M; ++m) back[f][m] += fq[j][f] * (m < M ? n[j][m] : e[j]);
      R.insert(R.begin(), back);
      for (size_t f = 0; f < F; ++f) {
        double sum = 0;
        for (size_t m = 0; m < M; ++m) sum += v[j][m] * back[f][m];
        numerator[j].push_back(gradient_k[j][f] * sum);
        dk[j].push_back(gradient_k[j][f] * (sum + back[f][M]));
      }
      for (size_t m = 0; m < M; ++m) {
        double sum = 0;
        for (size_t f = 0; f < F; ++f) sum += fk[j][f] * back[f][m];
        dv[j].push_back(sum);
      }
    }
  }
};

}  // namespace

nlohmann::ordered_json measure_forms() {
  const attend::Inputs in = random_inputs(kTokens, false);
  AttentionOptions options{"linear"};
  options.chunk = kChunk;
  const std::unique_ptr<Attention> attention = attend::attention_for(in, options);
  nlohmann::ordered_json outputs;
  std::vector<Tensor> found;
  for (const char* form : {"quadratic", "chunked", "recurrent"}) {
    found.push_back(attend::compute(*attention, in, attend::parse_form(form), true)[0].tensor);
    outputs[form] = rows_json(found.back());
  }
  return {{"command",
           "linea attend --attention linear --causal --chunk 4, by three values of "
           "--form, on 12 random positions"},
          {"chunk", kChunk},
          {"outputs", outputs},
          {"difference",
           rounded(std::max(relative_error(found[1], found[0]), relative_error(found[2], found[0])),
                   2)}};
}

nlohmann::ordered_json measure_sweeps() {
  const attend::Inputs in = random_inputs(kSteps, true);
  const Sweeps sweeps(in);
  const std::vector<NamedTensor> found =
      attend::compute(*attend::attention_for(in, {"linear"}), in, attend::Form::chunked, true);
  double difference = 0;
  for (const auto& [name, tensor] : found) {
    const Rows* own = name == "dq"   ? &sweeps.dq
                      : name == "dk" ? &sweeps.dk
                      : name == "dv" ? &sweeps.dv
                                     : nullptr;
    if (own == nullptr) continue;
    const Rows rows = to_rows(tensor);
    for (size_t i = 0; i < Sweeps::N; ++i)
      for (size_t c = 0; c < kNarrow; ++c)
        difference = std::max(difference, std::abs(rows[i][c] - (*own)[i][c]));
  }
  if (difference > kAgreement)
    fail(ErrorKind::numeric,
         "the gradients of linear attention differ by {:g} from the formulas of lesson 5",
         difference);
  nlohmann::ordered_json S = nlohmann::ordered_json::array(), R = S;
  for (const Rows& state : sweeps.S) S.push_back(rows_json(state));
  for (const Rows& state : sweeps.R) R.push_back(rows_json(state));
  return {{"command",
           "the formulas of lesson 5 on 8 random positions, D = M = F = 2, compared "
           "with the backward pass of --attention linear"},
          {"difference", rounded(difference, 2)},
          {"S", S},
          {"R", R},
          {"dq", rows_json(sweeps.dq)},
          {"dk", rows_json(sweeps.dk)},
          {"dv", rows_json(sweeps.dv)},
          {"dk_of_numerator", rows_json(sweeps.numerator)}};
}

}  // namespace linea::lab
