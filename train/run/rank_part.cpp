#include "train/run/rank_part.h"

#include <algorithm>

#include "train/run/batches.h"

namespace linea {
namespace {

constexpr int64_t kSmallUnit = 64;  // of positions

// A tile that waits for the part before it idles (P - 1) / (T + P - 1) of the time, T tiles.
constexpr int64_t kTilesAPart = 4;

class RankPart final : public SequencePart {
 public:
  RankPart(Ranks* ranks, const RankCut& cut, const Share& own, int64_t length)
      : SequencePart(own.first, own.end, length),
        ranks_(ranks),
        parts_(cut.parts),
        part_(cut.part) {
    if (ranks_ == nullptr) return;
    for (const double threads :
         ranks_->all_gather(static_cast<double>(context().threads), "the threads of all ranks"))
      smallest_tile_ = std::max(smallest_tile_, static_cast<int64_t>(threads));
  }

  void receive(const Tensor& into, PartPass pass) override {
    const bool forward = pass == PartPass::forward;
    if (ranks_ == nullptr || (forward ? is_first() : is_last())) return;
    std::vector<uint8_t> bytes(into.bytes());
    ranks_->take(ranks_->rank() + (forward ? -1 : 1), bytes.data(), bytes.size(),
                 forward ? "the state of the positions before" : "the gradients of the state");
    if (!bytes.empty()) into.write(bytes.data());
  }

  void hand_on(const Tensor& from, PartPass pass) override {
    const bool forward = pass == PartPass::forward;
    if (ranks_ == nullptr || (forward ? is_last() : is_first())) return;
    std::vector<uint8_t> bytes(from.bytes());
    if (!bytes.empty()) from.read(bytes.data());
    ranks_->post(ranks_->rank() + (forward ? 1 : -1), std::move(bytes));
  }

  // Where waiting for T tiles takes longer than one more sum over keys and queries.
  bool scans(int64_t batch_heads) const override {
    const int64_t size = tile(batch_heads), tiles = (batch_heads + size - 1) / size;
    return 2 * parts_ > tiles;
  }
  std::vector<uint8_t> shift(const std::vector<uint8_t>& bytes, int64_t distance,
                             PartPass pass) override {
    const bool forward = pass == PartPass::forward;
    const int64_t to = part_ + (forward ? distance : -distance),
                  from = part_ - (forward ? distance : -distance);
    const auto exists = [&](int64_t part) { return part >= 0 && part < parts_; };
    std::vector<uint8_t> others(exists(from) && ranks_ != nullptr ? bytes.size() : 0);
    if (ranks_ == nullptr) return others;
    const auto rank_of = [&](int64_t part) {
      return ranks_->rank() + static_cast<int>(part - part_);
    };
    if (exists(to)) ranks_->post(rank_of(to), bytes);
    if (exists(from))
      ranks_->take(rank_of(from), others.data(), others.size(), "the scan of the states");
    return others;
  }
  int64_t parts() const override { return parts_; }

  // Every thread of the rank that has most computes a batch head.
  int64_t tile(int64_t batch_heads) const override {
    const int64_t tiles = kTilesAPart * parts_;
    return std::max(smallest_tile_, (batch_heads + tiles - 1) / tiles);
  }

 private:
  Ranks* ranks_;  // null: there are no others
  int64_t parts_, part_, smallest_tile_ = 1;
};

}  // namespace

RankCut cut_of(const Ranks* ranks, int64_t sequence_ranks) {
  const auto P = static_cast<int>(sequence_ranks);
  if (ranks == nullptr) return {1, 0, P, P - 1};
  require(ranks->size() % P == 0,
          "`sequence_ranks` is {}, which does not divide the number of processes, {}: start a "
          "multiple of {} by mpirun -n, or leave `sequence_ranks` at 1",
          P, ranks->size(), P);
  return {ranks->size() / P, ranks->rank() / P, P, ranks->rank() % P};
}

// Later parts have the units that are left over.
Share part_positions(int64_t length, int part, int parts) {
  const int64_t unit = length < kPartUnit * parts ? kSmallUnit : kPartUnit;
  const Share units = share_of((length + unit - 1) / unit, part, parts);
  return {std::min(units.first * unit, length), std::min(units.end * unit, length)};
}

void check_sequence_ranks(const Model& model, const Task& task, int64_t parts) {
  if (parts == 1) return;
  const ModelConfig& config = model.config();
  const char* const remedy = "leave `sequence_ranks` at 1";
  require(config.second_vocab_size == 0, "the task retrieval has no long sequences: {}", remedy);
  require(!config.skip_blank, "`skip_blank` leaves sequences of different lengths: {}", remedy);
  require(config.causal,
          "`sequence_ranks` is {}, and the model reads what follows a token: train "
          "with `mask` causal, or {}",
          parts, remedy);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Attention& attention = *model.attentions()[static_cast<size_t>(layer)];
    require(attention.traits().takes_parts,
            "`attention` {} has no state of fixed size that one process could send to the next: "
            "choose linear, performer, soft-vq, vq, gdn, ssd, retnet, gla, kda or average, or {}",
            label_of(config.attention_of(layer)), remedy);
  }
  const int64_t N = task.length(), reach = convolution_reach(config);
  require(N >= kSmallUnit * parts,
          "sequences of {} positions have less than {} for each of {} parts: "
          "use longer ones, or fewer `sequence_ranks`",
          N, kSmallUnit, parts);
  const int64_t shortest = part_positions(N, 0, static_cast<int>(parts)).count();
  require(shortest >= reach,
          "`layer_convolution` reads {} positions back, and a part has {}: use fewer "
          "`sequence_ranks`",
          reach, shortest);
}

std::unique_ptr<SequencePart> make_part(Ranks* ranks, const RankCut& cut, int64_t length) {
  if (cut.parts == 1) return nullptr;
  return std::make_unique<RankPart>(ranks, cut, part_positions(length, cut.part, cut.parts),
                                    length);
}

Batch positions_of(const Batch& whole, const SequencePart& part) {
  Batch own = whole;
  own.length = part.end() - part.first();
  const auto cut = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
    to.clear();
    for (int64_t row = 0; row < whole.rows; ++row)
      to.insert(to.end(), from.begin() + row * whole.length + part.first(),
                from.begin() + row * whole.length + part.end());
  };
  cut(whole.inputs, own.inputs);
  cut(whole.targets, own.targets);
  for (int32_t& length : own.lengths)
    length = static_cast<int32_t>(std::clamp<int64_t>(length - part.first(), 0, own.length));
  return own;
}

void take_batch(SequencePart& part, const Task& task, const Batch& whole) {
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < whole.rows; ++row)
    tokens.insert(tokens.end(), static_cast<size_t>(part.end() - part.first()),
                  whole.inputs[static_cast<size_t>(row * whole.length)]);
  part.first_tokens =
      token_tensor(tokens, {whole.rows, part.end() - part.first()}, task.input_vocab_size());
  part.lengths = whole.lengths;
}

}  // namespace linea
