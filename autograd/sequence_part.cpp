#include "autograd/sequence_part.h"

#include "tensor/ops.h"

namespace linea {
namespace {

thread_local SequencePart* current = nullptr;

}  // namespace

SequencePart* sequence_part() { return current; }
UseSequencePart::UseSequencePart(SequencePart* part) : Scoped(current, part) {}

void take_over(SequencePart* part, PartPass pass, const std::vector<Tensor>& running,
               TakenStates* taken, int64_t first_bh) {
  if (part == nullptr) return;
  for (const Tensor& x : running)
    if (x.defined()) part->receive(x, pass);
  if (taken == nullptr || part->is_first()) return;
  for (const Tensor& x : running) (*taken)[first_bh].push_back(x.defined() ? x.clone() : x);
}

void hand_on(SequencePart* part, PartPass pass, const std::vector<Tensor>& running) {
  if (part == nullptr) return;
  for (const Tensor& x : running)
    if (x.defined()) part->hand_on(x, pass);
}

Tensor sums_from_end(const Tensor& x, SequencePart* part) {
  if (part == nullptr) return ops::reverse_cumsum(x);
  const Tensor totals = Tensor::zeros({x.numel() / x.size(-1)}, DType::f64);
  part->receive(totals, PartPass::back);
  const Tensor sums = ops::reverse_cumsum(x, totals);
  part->hand_on(totals, PartPass::back);
  return sums;
}

void restore(const TakenStates& taken, const std::vector<Tensor>& running, int64_t first_bh) {
  const auto found = taken.find(first_bh);
  if (found == taken.end()) return;
  for (size_t i = 0; i < running.size(); ++i)
    if (running[i].defined()) ops::copy_into(found->second[i], running[i]);
}

}  // namespace linea
