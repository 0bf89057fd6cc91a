// Attention by clusters of the rows of q and k, those of centroids mu_c that learn as a model trains, by spherical
// k-means (Roy et al. 2020):
//
//   c(x) = argmax_c x.mu_c,  m_c <- decay m_c + (1 - decay) sum of x^ with c(x) = c,  mu_c = m_c / |m_c|
//
// of rows x^ = x / |x|. They start as normal numbers, divided by their length. The loss has `commitment` times the
// mean of |x^ - mu|^2, mu a constant, of the rows of q and of those of k.
#pragma once

#include <memory>
#include <vector>

#include "nn/attention.h"

namespace linea {

class CentroidAttention : public Attention {
 public:
  std::vector<Buffer> buffers() const override {
    return {{"centroids", mu_}, {"centroid_sums", m_}};
  }
  void buffers_changed() override;

  // The commitment to the rows that exist, in heads with clusters; also adds these rows to the sums of a step.
  Var auxiliary_loss(const AttentionInputs& in, const AttentionMask& mask) override;
  // The first sums m_c are taken as they are; with m_c = 0 mu_c stays.
  void after_step() override;
  void skip_step() override { sums_.clear(); }

 protected:
  CentroidAttention(const AttentionOptions& options, AttentionTraits traits);

  // c(x) of the rows of x [B,H,N,D], i32 [B,H,1,N]: a decision. By loops: as it is defined.
  Tensor nearest(const Tensor& x) const;
  Tensor nearest_by_loops(const Tensor& x) const;

  // Heads before `local_heads_` have no clusters: all their rows are of cluster 0.
  const int64_t clusters_, window_, local_heads_;
  const Tensor mu_;  // [H,C,D]

 private:
  Var commitment(const Var& x, const AttentionMask& mask);

  const double decay_, commitment_;
  const Tensor m_;            // [H,C,D]
  Tensor columns_{};          // mu as [H,1,D,C]
  std::vector<double> sums_;  // of a step; empty: no rows yet
};

// Routing attention, nn/attention/routing.cpp, whose clusters are the rows nearest each centroid.
std::unique_ptr<Attention> make_nearest_rows(const AttentionOptions& options);

}  // namespace linea
