// The sum of all ranks' gradients, in the order of the ranks (parallel/ranks.h). On a CPU it begins
// with the output head, before the backward pass reaches the blocks before it.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "autograd/layer_boundary.h"
#include "nn/parameter.h"
#include "parallel/ranks.h"

namespace linea {

class GradientSum final : public BackwardListener {
 public:
  // Numbers that all ranks add in the same messages.
  using Notes = std::array<float, 7>;

  // Keeps references. LINEA_OVERLAP=0 in the environment: sums begin after the backward pass, with
  // the same bits. `smallest`: floats that are worth a sum of their own.
  GradientSum(Ranks& ranks, const Parameters& parameters, int64_t layers,
              int64_t smallest = (int64_t{1} << 20) / 4);

  // What listens to the backward pass of a step's last micro-batch; null where nothing can be sent
  // during it.
  BackwardListener* listener() { return overlaps_ ? this : nullptr; }
  void op_done() override { ranks_.progress(); }
  void passed(int64_t boundary) override;

  // After the last backward pass: takes the gradients that are left, and the loss, one number. The
  // same work each time, which a device can capture. Error: a parameter without a gradient, or with
  // one that came after it was sent.
  void take(const Tensor& loss);
  // Adds them over the ranks, and the notes. Then the parameters' gradients are the sums.
  void exchange(const Notes& notes);

  // Called with the number of floats of each sum that begins.
  void watch(std::function<void(int64_t)> started) { watcher_ = std::move(started); }

  Tensor loss() const;  // f32 [1]
  const Notes& notes() const { return notes_; }

 private:
  struct Slot {
    size_t parameter;
    int64_t first;  // element of packed_
  };
  // Parameters whose gradients are sent together, once the backward pass has passed `boundary`.
  struct Bucket {
    int64_t boundary, first = 0, end = 0;
    std::vector<Slot> slots{};
  };
  void pack(const Bucket& bucket);
  void start(size_t bucket, float* values);
  void check_late() const;

  Ranks& ranks_;
  std::function<void(int64_t)> watcher_;
  Parameters parameters_;
  bool overlaps_;
  std::vector<Bucket> buckets_;
  Tensor packed_;     // gradients by bucket; then loss and notes
  int64_t tail_ = 0;  // where the loss is
  size_t packed_count_ = 0, started_ = 0;
  Notes notes_{};
};

}  // namespace linea
