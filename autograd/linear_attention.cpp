#include "autograd/linear_attention.h"

#include "autograd/ops.h"
#include "autograd/state_scan.h"
#include "autograd/tile_state.h"

namespace linea {
namespace {

// Log weights and log decays [B,H,N]; undefined: 0.
struct LogGates {
  static LogGates of(const RuleGates& gates) {
    return {gates.log_weight.value_or_none(), gates.log_decay.value_or_none()};
  }
  LogGates of(const Sequences& some) const { return {some.of(weight), some.of(decay)}; }
  bool defined() const { return weight.defined() || decay.defined(); }
  Tensor weight, decay;
};

// What the forward pass saves besides its inputs: denominators of rows and their scales [BH,N].
struct RowSums {
  Tensor denominator, scale;
  RowSums of(const Sequences& some, int64_t heads) const {
    return {some.of(denominator, heads), some.of(scale, heads)};
  }
};

// Whether sums have scales: of logs and of keys with weights.
bool has_scales(const FeatureMap& map, const LogGates& gates) {
  return map.kind() == FeatureKind::logs || map.weighs_keys() || gates.defined();
}

// The gradient of y, and the gradients that a backward pass writes: those of the log weights of
// gates into weight [B,H,N]; those of the map's parameters are added to `parameters`.
struct GradientTensors {
  HeadTensor y;
  Heads in;
  Tensor weight;
  const std::vector<Tensor>& parameters;
};

// The forward and the backward pass of one call, and the step of one position.
template <typename T>
class LinearPass {
  using A = Accumulator<T>;

 public:
  LinearPass(const FeatureMap& map, const Heads& in, const LogGates& gates,
             const LinearAttentionOptions& options, PartStates states = {})
      : map_(map),
        plan_(map, in.q, in.v, options, map.in_kernel(), gates.defined(), !map.straight_through()),
        in_(in),
        gates_(gates),
        states_(std::move(states)),
        causal_(options.causal),
        scaled_(has_scales(map, gates)) {}

  void forward(const HeadTensor& y, const RowSums& sums) const {
    if (plan_.scans) return forward_by_scan(y, sums);
    plan_.each_tile([&](const Tile& tile) {
      const TileState<A> running = tile_state(tile, plan_.values);
      take_over(states_.part, PartPass::forward, running.tensors(), states_.taken.get(),
                states_.first + tile.first_bh);
      LinearPass(*this).sweep_forward(tile, y, sums, running);
      hand_on(states_.part, PartPass::forward, running.tensors());
    });
  }

  void backward(const RowSums& sums, const HeadTensor& y, const GradientTensors& grads) const {
    const Tensor ddenominator({plan_.batch_heads, plan_.length}, dtype_of(A{}));
    if (plan_.scans) return backward_by_scan(sums, y, grads, ddenominator);
    plan_.each_tile([&](const Tile& tile) {
      const LinearPass own(*this);
      {
        const TileState<A> before = tile_state(tile, plan_.values);
        if (states_.taken) restore(*states_.taken, before.tensors(), states_.first + tile.first_bh);
        own.sweep_queries(tile, sums, y, grads, ddenominator, before);
      }
      const TileState<A> running = tile_state(tile, plan_.values),
                         coded = tile_state(map_.straight_through() ? tile : Tile{},
                                            plan_.key_size * (plan_.values + 1));
      for (const TileState<A>* state : {&running, &coded})
        take_over(states_.part, PartPass::back, state->tensors());
      own.sweep_keys(tile, sums, grads, ddenominator, running, coded);
      for (const TileState<A>* state : {&running, &coded})
        hand_on(states_.part, PartPass::back, state->tensors());
    });
  }

  // One position of all sequences, a sequence of length 1: updates the state and reads it.
  void step(const RecurrentState& state, const Tensor& y) const {
    const Tile all{0, plan_.batch_heads, 0, 1};
    const SideRows q = make(in_.q, Side::query, all), k = make(in_.k, Side::key, all);
    table_.recurrent_step(context(), plan_.chunk_shape(all), input(q, k, all), state.view<T>(),
                          y.data<T>());
  }

 private:
  TileState<A> states_of_all() const {
    return {plan_.batch_heads, plan_.features, plan_.values, scaled_};
  }

  // The state of a part's own keys first; then, by a scan, that of all before it.
  void forward_by_scan(const HeadTensor& y, const RowSums& sums) const {
    const TileState<A> before = states_of_all();
    plan_.each_tile([&](const Tile& tile) {
      LinearPass(*this).sweep_forward(tile, y, sums, {before, tile.first_bh, tile.batch_heads},
                                      Visits::updates);
    });
    scan_states(*states_.part, PartPass::forward, before.tensors(), own_decay());
    for (const Tensor& x : before.tensors())
      (*states_.taken)[states_.first].push_back(x.defined() ? x.clone() : x);
    plan_.each_tile([&](const Tile& tile) {
      LinearPass(*this).sweep_forward(tile, y, sums, {before, tile.first_bh, tile.batch_heads});
    });
  }

  void backward_by_scan(const RowSums& sums, const HeadTensor& y, const GradientTensors& grads,
                        const Tensor& ddenominator) const {
    const TileState<A> before = states_of_all(), after = states_of_all(), none(after, 0, 0);
    restore(*states_.taken, before.tensors(), states_.first);
    plan_.each_tile([&](const Tile& tile) {
      const LinearPass own(*this);
      own.sweep_queries(tile, sums, y, grads, ddenominator,
                        {before, tile.first_bh, tile.batch_heads});
      own.sweep_keys(tile, sums, grads, ddenominator, {after, tile.first_bh, tile.batch_heads},
                     none, Visits::updates);
    });
    scan_states(*states_.part, PartPass::back, after.tensors(), own_decay());
    plan_.each_tile([&](const Tile& tile) {
      LinearPass(*this).sweep_keys(tile, sums, grads, ddenominator,
                                   {after, tile.first_bh, tile.batch_heads}, none);
    });
  }

  // The sum of each batch head's log decays, f64 [BH]; undefined without.
  Tensor own_decay() const {
    if (!gates_.decay.defined()) return {};
    const Tensor totals = Tensor::zeros({plan_.batch_heads}, DType::f64);
    ops::reverse_cumsum(gates_.decay, totals);
    return totals;
  }

  // What a sweep visits: all, or what updates an empty state alone, keys, or in reverse queries.
  enum class Visits : uint8_t { all, updates };

  // The rows of q or k in a segment, and their features unless the kernels compute those.
  struct SideRows {
    bool present = false;
    Tensor x;
    Features features;
    Tile segment{};
  };

  bool in_kernel() const { return plan_.feature != KernelFeature::given; }
  TileState<A> tile_state(const Tile& tile, int64_t values) const {
    return {tile.batch_heads, plan_.features, values, scaled_};
  }

  SideRows make(const HeadTensor& all, Side side, const Tile& segment) const {
    if (in_kernel()) return {true, {}, {}};
    SideRows& last = last_[side == Side::key];
    if (last.present && last.segment == segment) return last;
    const Tensor x = plan_.gather(all, side, segment);
    last = {};
    return last = {true, x, map_.forward(x, side, plan_.head_range(segment)), segment};
  }

  HeadRows<T> feature_rows(const Tensor& features, const HeadTensor& all,
                           const Tile& segment) const {
    if (in_kernel()) return plan_.rows(all, segment);
    return head_rows(features.data<T>(), segment.length, plan_.features);
  }

  ChunkInput<T> input(const SideRows& q, const SideRows& k, const Tile& segment) const {
    ChunkInput<T> in;
    if (q.present) in.q = feature_rows(q.features.rows, in_.q, segment);
    if (gates_.decay.defined()) in.decay = plan_.strided(gates_.decay, 1, segment);
    if (!k.present) return in;
    in.k = feature_rows(k.features.rows, in_.k, segment);
    in.v = plan_.rows(in_.v, segment);
    if (k.features.weight.defined())
      in.weight = {k.features.weight.template data<T>(), segment.length};
    if (gates_.weight.defined()) in.weight = plan_.strided(gates_.weight, 1, segment);
    return in;
  }

  ChunkRows<A> sums_of(const RowSums& sums, const Tile& segment) const {
    ChunkRows<A> rows{plan_.template strided<A>(sums.denominator, 1, segment), {}};
    if (scaled_) rows.scale = plan_.template strided<A>(sums.scale, 1, segment);
    return rows;
  }

  // Where the kernel writes the gradient of a segment: into dq or dk, or into that of the features.
  HeadRows<T> gradient_rows(const SideRows& side, const HeadTensor& grad, const Tile& segment,
                            Features& gradient) const {
    if (!side.present) return {};
    if (!in_kernel())
      gradient.rows = Tensor(side.features.rows.shape(), side.features.rows.dtype());
    return feature_rows(gradient.rows, grad, segment);
  }

  // visit(segment, shape, q, k) over the segments, in reverse for a sweep backward. Not causal: all
  // segments update the state first (keys forward, queries backward), then all read it.
  template <typename Visit>
  void sweep(const Tile& tile, bool reverse, Visits visits, const Visit& visit) const {
    std::vector<Tile> segments = plan_.segments(tile);
    if (reverse) std::reverse(segments.begin(), segments.end());
    const auto visit_with = [&](const Tile& segment, bool with_q, bool with_k) {
      ChunkShape shape = plan_.chunk_shape(segment);
      const SequencePart* const part = states_.part;
      const bool updates = visits == Visits::updates,
                 starts = part == nullptr || (reverse ? part->is_last() : part->is_first()),
                 ends = part == nullptr || (reverse ? part->is_first() : part->is_last());
      shape.starts = causal_ && segment.first == segments.front().first && (starts || updates);
      shape.ends = causal_ && segment.first == segments.back().first && ends && !updates;
      visit(segment, shape, with_q ? make(in_.q, Side::query, segment) : SideRows{},
            with_k ? make(in_.k, Side::key, segment) : SideRows{});
    };
    if (!causal_ || visits == Visits::updates)
      for (const Tile& segment : segments) visit_with(segment, reverse, !reverse);
    if (visits == Visits::updates) return;
    for (const Tile& segment : segments)
      visit_with(segment, causal_ || !reverse, causal_ || reverse);
  }

  void sweep_forward(const Tile& tile, const HeadTensor& y, const RowSums& sums,
                     const TileState<A>& running, Visits visits = Visits::all) const {
    sweep(tile, false, visits,
          [&](const Tile& segment, const ChunkShape& shape, const SideRows& q, const SideRows& k) {
            table_.chunk_forward(context(), shape, input(q, k, segment), running.view(),
                                 plan_.rows(y, segment), sums_of(sums, segment));
          });
  }

  // dq, and the gradient of the denominators, along the states of the forward pass.
  void sweep_queries(const Tile& tile, const RowSums& sums, const HeadTensor& y,
                     const GradientTensors& grads, const Tensor& ddenominator,
                     const TileState<A>& running) const {
    sweep(tile, false, Visits::all,
          [&](const Tile& segment, const ChunkShape& shape, const SideRows& q, const SideRows& k) {
            Features gradient;
            table_.chunk_backward_query(context(), shape, input(q, k, segment),
                                        plan_.rows(y, segment), plan_.rows(grads.y, segment),
                                        sums_of(sums, segment), running.view(),
                                        gradient_rows(q, grads.in.q, segment, gradient),
                                        plan_.template strided<A>(ddenominator, 1, segment));
            if (q.present && !in_kernel())
              plan_.scatter(map_.backward(q.x, q.features, gradient, Side::query,
                                          plan_.head_range(segment), grads.parameters),
                            segment, grads.in.q);
          });
  }

  // dk, dv and the gradients of the weights, along the gradients of the states.
  void sweep_keys(const Tile& tile, const RowSums& sums, const GradientTensors& grads,
                  const Tensor& ddenominator, const TileState<A>& running,
                  const TileState<A>& coded, Visits visits = Visits::all) const {
    const bool codes = map_.straight_through();
    sweep(tile, true, visits,
          [&](const Tile& segment, const ChunkShape& shape, const SideRows& q, const SideRows& k) {
            const HeadRows<const T> dy = plan_.rows(grads.y, segment);
            const Strided<const A> grad_d = plan_.template strided<A>(ddenominator, 1, segment);
            const ChunkInput<T> in = input(q, k, segment);
            const ChunkRows<A> rows = sums_of(sums, segment);
            Features gradient;
            Strided<T> dweight{};
            if (k.features.weight.defined()) {
              gradient.weight = Tensor(k.features.weight.shape(), k.features.weight.dtype());
              dweight = {gradient.weight.template data<T>(), segment.length};
            }
            if (k.present && gates_.defined()) dweight = plan_.strided(grads.weight, 1, segment);
            table_.chunk_backward_key(context(), shape, in, dy, rows, grad_d, running.view(),
                                      gradient_rows(k, grads.in.k, segment, gradient), dweight,
                                      plan_.rows(grads.in.v, segment));
            if (in_kernel()) return;
            Tensor dk;
            if (codes) {
              if (k.present) dk = Tensor(k.x.shape(), k.x.dtype());
              table_.straight_through(context(), shape, in, pointer<T>(q.x),
                                      pointer<int32_t>(k.features.codes), plan_.key_size, dy, rows,
                                      grad_d, coded.view(), pointer<T>(dk));
            } else if (k.present) {
              dk = map_.backward(k.x, k.features, gradient, Side::key, plan_.head_range(segment),
                                 grads.parameters);
            }
            if (k.present) plan_.scatter(dk, segment, grads.in.k);
          });
  }

  const FeatureMap& map_;
  Plan<T> plan_;
  Heads in_;
  LogGates gates_;
  PartStates states_;
  bool causal_, scaled_;
  const Kernels<T>& table_ = kernels<T>(context().device);
  // Those made last, of queries and of keys: where one sweep ends, the next begins. Each tile has a
  // pass of its own.
  mutable SideRows last_[2];
};

// Errors: see linear_attention().
void check_sums(const FeatureMap& map, const AttentionInputs& in, const RuleGates& gates,
                const LinearAttentionOptions& options) {
  const bool gated = gates.log_decay.defined() || gates.log_weight.defined();
  check_heads("linear_attention", in, options.valid, gates);
  require(options.causal || !gated, "linear_attention: gated attention must be causal");
  require(!map.weighs_keys() || !gated,
          "linear_attention: a feature map that weighs keys goes with no gate");
  require(options.causal || sequence_part() == nullptr,
          "linear_attention: parts of sequences are causal");
}

}  // namespace

Var linear_attention(const FeatureMapPtr& map, const AttentionInputs& in, const RuleGates& gates,
                     const LinearAttentionOptions& options) {
  const LogGates logs = LogGates::of(gates);
  check_sums(*map, in, gates, options);
  SequencePart* const part = sequence_part();
  std::vector<Var> inputs = input_vars(in);
  for (const Var& gate : {gates.log_weight, gates.log_decay})
    if (gate.defined()) inputs.push_back(gate);
  return with_stored(inputs[0].dtype(), "linear_attention", [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = dtype_of(zero);
    // Both passes compute from the saved inputs. Those of maps that do not take rounded rows, and of
    // gates, whose gradients are sums that cancel, are saved as they are.
    const bool exact = !map->takes_rounded() || logs.defined();
    const Heads values = Heads::of(in), saved = exact ? values : Heads::saved(in);
    const int64_t H = values.v.heads;
    const Tensor y = values.new_output();
    const auto per_row = [&] {
      return Tensor({values.v.batches * H, values.v.length}, sum_dtype(dtype));
    };
    const RowSums sums{per_row(), has_scales(*map, logs) ? per_row() : Tensor()};
    const auto taken = part == nullptr ? nullptr : std::make_shared<TakenStates>();
    const auto pass = [map, logs, options, part, taken](const Heads& given, const Sequences& some) {
      LinearAttentionOptions own = options;
      own.valid = some.of(options.valid);
      return LinearPass<T>(*map, given, logs.of(some), own,
                           {part, taken, some.first * given.v.heads});
    };
    saved.each_group(dtype, [&](const Sequences& some, const Heads& given) {
      pass(given, some).forward(given.output_heads(some.of(y)), sums.of(some, H));
    });
    const Tensor saved_y = ops::cast(y, exact ? dtype : saved_dtype(dtype));
    return from_feature_op(
        "linear_attention", y, inputs, *map,
        [pass, saved, logs, sums, saved_y, part, H](const Tensor& dy,
                                                    const std::vector<Tensor>& dparameters) {
          const UseSequencePart use(part);
          const Heads grads = saved.new_gradients(dy.dtype());
          const Tensor dweight =
              logs.defined() ? Tensor({saved.v.batches, H, saved.v.length}, dy.dtype()) : Tensor();
          saved.each_group(dy.dtype(), [&](const Sequences& some, const Heads& given) {
            pass(given, some)
                .backward(sums.of(some, H),
                          given.output_heads(ops::cast(some.of(saved_y), dy.dtype())),
                          {given.output_heads(some.of(dy)), grads.batch(some.first, some.count),
                           some.of(dweight), dparameters});
          });
          Gradients all = input_gradients(grads);
          if (logs.weight.defined()) all.emplace_back(dweight);
          // The decay at t divides the weight of every key from t on: minus their sum.
          if (logs.decay.defined())
            all.emplace_back(ops::scale(sums_from_end(dweight, part), -1.0));
          return all;
        },
        exact ? Tensor() : saved_y);
  });
}

Tensor linear_step(const FeatureMap& map, LinearState& state, const AttentionInputs& in,
                   const RuleGates& gates) {
  const Heads given = Heads::of(in);
  const Tensor y = given.new_output();
  with_stored(y.dtype(), "linear_step", [&](auto zero) {
    LinearPass<decltype(zero)>(map, given, LogGates::of(gates), {}).step(state.recurrent, y);
  });
  return y;
}

}  // namespace linea
