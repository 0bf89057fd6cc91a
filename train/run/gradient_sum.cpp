#include "train/run/gradient_sum.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tensor/context.h"
#include "tensor/memory_report.h"
#include "tensor/ops.h"

namespace linea {
namespace {

constexpr int64_t kAlign = 16;
constexpr int64_t kTail = 8;  // the loss and the notes

// The boundary behind which all ops are that use a parameter: that of its block, `layers` for the
// last norm and the output head, -1 for what the embedding uses.
int64_t boundary_of(std::string_view name, int64_t layers) {
  constexpr std::string_view kBlocks = "blocks.";
  if (name.starts_with("norm.") || name.starts_with("output_head.")) return layers;
  if (!name.starts_with(kBlocks)) return -1;
  int64_t block = -1;
  std::from_chars(name.data() + kBlocks.size(), name.data() + name.size(), block);
  return block;
}

bool is_off(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

GradientSum::GradientSum(Ranks& ranks, const Parameters& parameters, int64_t layers,
                         int64_t smallest)
    : ranks_(ranks),
      parameters_(parameters),
      overlaps_(context().device.kind == DeviceKind::cpu && !is_off("LINEA_OVERLAP")) {
  int64_t next = 0;
  buckets_.push_back({layers});
  for (int64_t boundary = layers; boundary >= -1; --boundary) {
    // The embeddings have a bucket of their own; small blocks share one.
    if (buckets_.back().end - buckets_.back().first >= smallest ||
        (boundary == -1 && !buckets_.back().slots.empty()))
      buckets_.push_back({boundary, next, next});
    Bucket& bucket = buckets_.back();
    bucket.boundary = boundary;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (boundary_of(parameters_[i].name, layers) != boundary) continue;
      require(parameters_[i].var.dtype() == DType::f32, "the parameter {} is {}; ranks add f32",
              parameters_[i].name, name_of(parameters_[i].var.dtype()));
      bucket.slots.push_back({i, next});
      next += (parameters_[i].var.value().numel() + kAlign - 1) / kAlign * kAlign;
    }
    bucket.end = next;
  }
  tail_ = next;
  buckets_.back().end += kTail;
  const MemoryScope scope(MemoryPart::gradients);
  packed_ = Tensor::zeros({tail_ + kTail}, DType::f32);
}

Tensor GradientSum::loss() const { return packed_.rows(tail_, 1); }

void GradientSum::pack(const Bucket& bucket) {
  for (const Slot& slot : bucket.slots) {
    Var& var = parameters_[slot.parameter].var;
    require(var.grad().defined(), "the parameter {} got no gradient",
            parameters_[slot.parameter].name);
    const int64_t count = var.grad().numel();
    ops::copy_into(var.grad().reshape({count}), packed_.rows(slot.first, count));
    var.clear_grad();
  }
  ++packed_count_;
}

void GradientSum::start(size_t bucket, float* values) {
  const Bucket& one = buckets_[bucket];
  if (watcher_) watcher_(one.end - one.first);
  ranks_.start_sum(values + one.first, one.end - one.first,
                   fmt::format("gradients, bucket {}", bucket));
  ++started_;
}

// All but the last bucket, whose end is not known yet.
void GradientSum::passed(int64_t boundary) {
  while (packed_count_ + 1 < buckets_.size() && buckets_[packed_count_].boundary >= boundary) {
    pack(buckets_[packed_count_]);
    start(packed_count_ - 1, packed_.data<float>());
  }
}

void GradientSum::check_late() const {
  for (size_t bucket = 0; bucket < packed_count_; ++bucket)
    for (const Slot& slot : buckets_[bucket].slots) {
      const Parameter& parameter = parameters_[slot.parameter];
      require(!parameter.var.grad().defined(),
              "the parameter {} got a gradient after its gradients were sent", parameter.name);
    }
}

void GradientSum::take(const Tensor& loss) {
  check_late();
  while (packed_count_ < buckets_.size()) pack(buckets_[packed_count_]);
  ops::copy_into(loss.reshape({1}), this->loss());
  for (const Bucket& bucket : buckets_)
    for (const Slot& slot : bucket.slots) {
      const Tensor& value = parameters_[slot.parameter].var.value();
      backward(parameters_[slot.parameter].var,  // a parameter's own gradient is what it is given
               packed_.rows(slot.first, value.numel()).reshape(value.shape()));
    }
  packed_count_ = 0;
}

void GradientSum::exchange(const Notes& notes) {
  const bool on_cpu = context().device.kind == DeviceKind::cpu;
  std::vector<float> on_host;
  if (!on_cpu) on_host = packed_.to_vector<float>();
  float* const values = on_cpu ? packed_.data<float>() : on_host.data();
  std::copy(notes.begin(), notes.end(), values + tail_ + 1);
  while (started_ < buckets_.size()) start(started_, values);
  ranks_.finish();
  started_ = 0;
  std::copy_n(values + tail_ + 1, notes_.size(), notes_.begin());
  if (!on_cpu) packed_.write(on_host.data());
}

}  // namespace linea
