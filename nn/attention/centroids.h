// Spherical k-means of the rows of q and k, whose centroids mu_c learn as a model trains (Roy et al. 2020):
//
//   c(x) = argmax_c x.mu_c,  m_c <- decay m_c + (1 - decay) sum of x^ with c(x) = c,  mu_c = m_c / |m_c|
//
// of rows x^ = x / |x|. They start as normal numbers, divided by their length.
#pragma once

#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "nn/attention.h"

namespace linea {

class Centroids {
 public:
  // Heads before `first_head` have no clusters: all their rows are of cluster 0.
  Centroids(const AttentionOptions& options, int64_t clusters, int64_t first_head);
  int64_t count() const { return mu_.size(1); }
  const Tensor& mu() const { return mu_; }  // [H,C,D]
  void changed();                           // call it after writing into them
  std::vector<Buffer> buffers() const { return {{"centroids", mu_}, {"centroid_sums", m_}}; }

  // c(x) of the rows of x [B,H,N,D], i32 [B,H,1,N]: a decision. By loops: as it is defined.
  Tensor nearest(const Tensor& x) const;
  Tensor nearest_by_loops(const Tensor& x) const;

  // weight mean |x^ - mu|^2 over the rows that exist, in heads with clusters, mu a constant; undefined where there
  // are none. Also adds the rows to the sums of a step.
  Var commitment(const Var& x, double weight, const AttentionMask& mask);
  // At the end of a step. The first sums m_c are taken as they are; with m_c = 0 mu_c stays.
  void learn(double decay);
  void forget() { sums_.clear(); }

 private:
  int64_t first_head_;
  Tensor mu_, m_;             // [H,C,D]
  Tensor columns_{};          // mu as [H,1,D,C]
  std::vector<double> sums_;  // of a step; empty: no rows yet
};

// How centroids learn while a model trains: the loss has `commitment` times the mean distance of the rows of q and
// k, and each step ends with learn(decay).
class CentroidTraining final : public TrainingHooks {
 public:
  CentroidTraining(Centroids& centroids, const Settings& settings)
      : centroids_(centroids),
        decay_(settings.real("centroid_decay")),
        commitment_(settings.real("commitment")) {}
  Var auxiliary_loss(const AttentionInputs& in, const AttentionMask& mask) override {
    const Var of_q = centroids_.commitment(in.q, commitment_, mask),
              of_k = centroids_.commitment(in.k, commitment_, mask);
    return of_q.defined() ? add(of_q, of_k) : of_q;
  }
  void skip_step() override { centroids_.forget(); }
  void after_step() override { centroids_.learn(decay_); }

 private:
  Centroids& centroids_;
  double decay_, commitment_;
};

// Routing attention, nn/attention/routing.cpp, whose clusters are the rows nearest each centroid.
std::unique_ptr<Attention> make_nearest_rows(const AttentionOptions& options);
// The setting `clusters`; where it is 0, the square root of the length, rounded up.
int64_t cluster_count(const AttentionOptions& options);

}  // namespace linea
