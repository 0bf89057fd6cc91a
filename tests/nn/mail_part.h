// Parts of sequences that one thread computes one after the other: what each sends waits for its neighbor.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/sequence_part.h"
#include "base/error.h"
#include "tensor/ops.h"

namespace linea {

// Tensors on their way, by the part that receives them.
using Mail = std::map<std::pair<int64_t, PartPass>, std::deque<Tensor>>;

class MailPart final : public SequencePart {
 public:
  // Part `index` between cuts[index] and the next of cuts; tile 0: all batch heads at a time.
  MailPart(Mail& mail, const std::vector<int64_t>& cuts, size_t index, int64_t tile = 0)
      : SequencePart(cuts[index], cuts[index + 1], cuts.back()),
        mail_(mail),
        index_(static_cast<int64_t>(index)),
        tile_(tile) {}

  void receive(const Tensor& into, PartPass pass) override {
    if (pass == PartPass::forward ? is_first() : is_last()) return;
    std::deque<Tensor>& box = mail_[{index_, pass}];
    require(!box.empty(), "part {} waits for what was not sent", index_);
    ops::copy_into(box.front(), into);
    box.pop_front();
  }
  void hand_on(const Tensor& from, PartPass pass) override {
    if (pass == PartPass::forward ? is_last() : is_first()) return;
    mail_[{index_ + (pass == PartPass::forward ? 1 : -1), pass}].push_back(from.clone());
  }
  int64_t tile(int64_t batch_heads) const override { return tile_ > 0 ? tile_ : batch_heads; }

 private:
  Mail& mail_;
  int64_t index_, tile_;
};

}  // namespace linea
