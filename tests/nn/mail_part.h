// Parts of sequences that one thread computes one after the other: what each sends waits for its neighbor.
#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "autograd/sequence_part.h"
#include "base/error.h"
#include "tensor/ops.h"

namespace linea {

// What is on its way, by the part that receives it; in a scan also by the distance.
struct Mail {
  std::map<std::pair<int64_t, PartPass>, std::deque<Tensor>> boxes;
  std::map<std::tuple<int64_t, PartPass, int64_t>, std::deque<std::vector<uint8_t>>> scans;
};

class MailPart final : public SequencePart {
 public:
  // Part `index` between cuts[index] and the next of cuts; tile 0: all batch heads at a time, -1: by scans.
  MailPart(Mail& mail, const std::vector<int64_t>& cuts, size_t index, int64_t tile = 0)
      : SequencePart(cuts[index], cuts[index + 1], cuts.back()),
        mail_(mail),
        index_(static_cast<int64_t>(index)),
        parts_(static_cast<int64_t>(cuts.size()) - 1),
        tile_(tile) {}

  void receive(const Tensor& into, PartPass pass) override {
    if (pass == PartPass::forward ? is_first() : is_last()) return;
    std::deque<Tensor>& box = mail_.boxes[{index_, pass}];
    require(!box.empty(), "part {} waits for what was not sent", index_);
    ops::copy_into(box.front(), into);
    box.pop_front();
  }
  void hand_on(const Tensor& from, PartPass pass) override {
    if (pass == PartPass::forward ? is_last() : is_first()) return;
    mail_.boxes[{index_ + (pass == PartPass::forward ? 1 : -1), pass}].push_back(from.clone());
  }
  int64_t tile(int64_t batch_heads) const override { return tile_ > 0 ? tile_ : batch_heads; }
  bool scans(int64_t) const override { return tile_ < 0; }
  std::vector<uint8_t> shift(const std::vector<uint8_t>& bytes, int64_t distance,
                             PartPass pass) override {
    const int64_t step = pass == PartPass::forward ? distance : -distance;
    if (const int64_t to = index_ + step; to >= 0 && to < parts_)
      mail_.scans[{to, pass, distance}].push_back(bytes);
    if (const int64_t from = index_ - step; from < 0 || from >= parts_) return {};
    std::deque<std::vector<uint8_t>>& box = mail_.scans[{index_, pass, distance}];
    require(!box.empty(), "part {} waits for what was not sent", index_);
    std::vector<uint8_t> others = std::move(box.front());
    box.pop_front();
    return others;
  }
  int64_t parts() const override { return parts_; }

 private:
  Mail& mail_;
  int64_t index_, parts_, tile_;
};

}  // namespace linea
