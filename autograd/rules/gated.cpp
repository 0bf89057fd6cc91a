// The gated rule: heads forget by a gate g_t in (0,1) of the layer's input.
//
//   S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) v_t^T    z_t = g_t z_{t-1} + (1 - g_t) phi(k_t)
//   y_t = S_t^T phi(q_t) / z_t.phi(q_t)
//
// State: that of the sum rule (sum.cpp). Gates: g. Source: Peng et al. 2021, "Random feature attention",
// section 3.4.
#include "autograd/update_rule.h"

namespace linea {

RulePtr gated_rule() {
  return make_sum_rule({.name = "gated",
                        .source = "Peng 2021",
                        .gate = {.name = "gate", .size = 1},
                        .decay_gate = true,
                        .causal_only = true,
                        .packed_qkv = true,
                        .gates = [](const AttentionInputs& in, const Tensor& valid) {
                          const Gate g = each_gate(in, 1, valid)[0];
                          return RuleGates{.log_decay = g.log(), .log_weight = g.log_one_minus()};
                        }});
}

}  // namespace linea
