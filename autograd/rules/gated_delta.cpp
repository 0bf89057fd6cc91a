// The gated delta rule: the state decays by a_t in (0,1) before a value is replaced.
//
//   S_t = a_t S_{t-1} + phi(k_t) x_t^T    x_t = beta_t (v_t - (a_t S_{t-1})^T phi(k_t))
//   y_t = S_t^T phi(q_t)
//
// State: that of the delta rule (delta.cpp). Gates: beta, a. Source: Yang, Kautz, Hatamizadeh 2025, "Gated delta
// networks".
#include "autograd/update_rule.h"

namespace linea {

RulePtr gated_delta_rule() {
  return make_delta_rule({.name = "gated-delta",
                          .source = "Yang 2025",
                          .gate = {.name = "gates", .size = 2},
                          .decay_gate = true,
                          .causal_only = true,
                          .gates = [](const AttentionInputs& in, const Tensor& valid) {
                            const std::vector<Gate> gates = each_gate(in, 2, valid);
                            return RuleGates{.log_decay = gates[1].log(), .beta = gates[0].value()};
                          }});
}

}  // namespace linea
