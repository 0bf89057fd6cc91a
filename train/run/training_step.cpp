#include "train/run/training_step.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "nn/over_ranks.h"
#include "tensor/context.h"
#include "tensor/ops.h"
#include "train/timing.h"

namespace linea {
namespace {

// For its lifetime the context has the threads of `choice`, which learns how long that was. Waiting
// for other ranks is no part of it; where ranks have more threads than there are cores it learns
// nothing.
class ChosenThreads {
 public:
  ChosenThreads(StepThreads& choice, const Ranks* ranks) : choice_(choice), ranks_(ranks) {
    if (choice.threads() != before_) set_threads(choice.threads());
  }
  ~ChosenThreads() {
    const bool crowded = ranks_ != nullptr && ranks_->host().ranks * before_ > ranks_->host().cores;
    if (!crowded)
      choice_.record_step(watch_.seconds() - waited(), count_preemptions() - preemptions_ - idle());
    if (context().threads != before_) set_threads(before_);
  }

 private:
  double waited() const { return ranks_ == nullptr ? 0 : ranks_->waited_seconds() - waited_; }
  int64_t idle() const { return ranks_ == nullptr ? 0 : ranks_->waiting_preemptions() - idle_; }

  StepThreads& choice_;
  const Ranks* ranks_;
  int before_ = context().threads;
  int64_t preemptions_ = count_preemptions();
  double waited_ = ranks_ == nullptr ? 0 : ranks_->waited_seconds();
  int64_t idle_ = ranks_ == nullptr ? 0 : ranks_->waiting_preemptions();
  Stopwatch watch_;
};

}  // namespace

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const Task& task,
                           const RunConfig& config, bool capture, Ranks* ranks)
    : model_(model),
      optimizer_(optimizer),
      task_(task),
      config_(config),
      batches_(task, config),
      ranks_(ranks == nullptr || ranks->alone() ? nullptr : ranks),
      cut_(cut_of(ranks, config.sequence_ranks)) {
  check_sequence_ranks(model, task, cut_.parts);
  own_ = share_of(rows(), cut_.group, cut_.groups);
  if (ranks_ != nullptr) {
    const int W = cut_.groups;
    require(W <= rows(),
            "{} ranks share the {} sequences of a step: raise `batch` or start fewer{}", W, rows(),
            cut_.parts > 1 ? ", or raise `sequence_ranks`" : "");
    fewest_ = micro_batches();
    for (int group = 0; group < W; ++group)
      fewest_ = std::min(fewest_, micro_batches(share_of(rows(), group, W)));
    sum_ = std::make_unique<GradientSum>(*ranks_, model.parameters(), model.config().layers);
  } else {
    fewest_ = micro_batches();
  }
  if (capture && !has_part()) capture_ = StepCapture::create(model, micro_batches());
}

// The other ranks' threads are asked for, so not before all of them train.
SequencePart* TrainingStep::part() {
  if (has_part() && part_ == nullptr) {
    part_ = make_part(ranks_, cut_, task_.length());
    batches_.cut_for(part_.get());
  }
  return part_.get();
}

StepRows TrainingStep::step_rows(const Share& own) const {
  StepRows result{own.first, rows(), task_.length()};
  if (part_ != nullptr) {
    result.first_position = part_->first();
    result.positions = part_->end() - part_->first();
  }
  return result;
}

// Their numbers in the step.
Share TrainingStep::batch_rows(int64_t micro_batch) const {
  const int64_t first = own_.first + micro_batch * config_.batch;
  return {first, std::min(own_.end, first + config_.batch)};
}

// All rows score equally many tokens, so that the mean over a step's is a sum of micro-batches'
// means times this.
double TrainingStep::batch_weight(int64_t micro_batch) const {
  return static_cast<double>(batch_rows(micro_batch).count()) / static_cast<double>(rows());
}

// loss = mean over the step's scored tokens of L(head(model(inputs)), targets); the gradients are
// those of loss + auxiliary, the sums over the ranks. Returns the loss, without the auxiliary
// losses; of this rank's rows where the executor does not exchange.
Tensor TrainingStep::compute(int64_t step, StepExecutor& executor,
                             const std::function<void()>& interrupt) {
  GradientSum* const sum = executor.exchanges() ? sum_.get() : nullptr;
  const UseSequencePart use(part());
  Tensor total;
  for (int64_t i = 0; i < micro_batches(); ++i) {
    if (interrupt && i > 0 && i < fewest_) interrupt();
    const double weight = batch_weight(i);
    const auto weighted = [weight](const Var& mean, double share) {
      return weight * share == 1 ? mean : scale(mean, weight * share);
    };
    const BatchTensors batch = executor.stage(i, next_batch(step, i));
    const BatchOfStep of_step(step_rows(batch_rows(i)));
    executor.micro_batch(i, [&] {
      const bool last = sum != nullptr && i + 1 == micro_batches();
      const ListenToBackward listen(last ? sum->listener() : nullptr);
      Var auxiliary;  // losses that the attentions add, undefined if none
      // Only the tape holds the outputs, so that backward() frees them.
      const Var loss =
          weighted(model_.output_head().loss(model_.forward(batch.model_inputs(), true, &auxiliary),
                                             batch.targets),
                   batch.scored_share);
      if (watcher_.forward) watcher_.forward();

      backward(auxiliary.defined() ? add(loss, weighted(auxiliary, batch.key_share)) : loss);
      if (watcher_.backward) watcher_.backward();

      if (total.defined()) {
        ops::accumulate(loss.value(), total);
      } else {
        total = loss.value();
      }
      if (last) sum->take(total);
    });
  }
  if (sum != nullptr) {
    sum->exchange(notes_ ? notes_() : GradientSum::Notes{});
    total = sum->loss();
  }
  const SharedWork work = shared_updates();
  const ShareWork share(sum != nullptr && context().device.kind == DeviceKind::cpu ? &work
                                                                                   : nullptr);
  // Clips by the global norm and updates, if loss and norm are within the limits.
  executor.update([&] { optimizer_.apply(total); });
  return total;
}

// The ranks copy what each has computed, one text of each.
SharedWork TrainingStep::shared_updates() const {
  if (ranks_ == nullptr) return {};
  return {ranks_->rank(), ranks_->size(), [this](const std::vector<OwnedBytes>& results) {
            std::string own;
            for (const OwnedBytes& result : results)
              if (result.owner == ranks_->rank())
                own.append(static_cast<const char*>(result.address), result.bytes);
            const std::vector<std::string> all = ranks_->all_gather(own, "updates");
            std::vector<size_t> at(all.size());
            for (const OwnedBytes& result : results) {
              const auto owner = static_cast<size_t>(result.owner);
              if (all[owner].size() - at[owner] < result.bytes)
                fail(kRanksError, "{} sends too few updates", ranks_->name(result.owner));
              all[owner].copy(static_cast<char*>(result.address), result.bytes, at[owner]);
              at[owner] += result.bytes;
            }
          }};
}

StepResult TrainingStep::run(int64_t step, double learning_rate, const UpdateLimits& limits,
                             const SkipHandler& on_skip) {
  const ChosenThreads threads(threads_, ranks_);
  optimizer_.begin(learning_rate, limits);
  try {
    execute(step);
  } catch (...) {
    optimizer_.cancel();
    model_.skip_step();
    throw;
  }
  if (context().device.kind != DeviceKind::cpu && !has_part()) {
    const Share next = batch_rows(0);
    batches_.prefetch((step + 1) * rows() + next.first, next.count());
  }

  const bool updated = optimizer_.end();  // waits for the device
  const double loss = optimizer_.loss();
  const bool usable = std::isfinite(loss) && (limits.loss == 0 || loss <= limits.loss);
  const StepResult result{loss, usable ? optimizer_.gradient_norm() : 0, updated};
  if (updated) {
    const SumOverRanks sum = [this](std::vector<double>& x) {
      if (ranks_ != nullptr) ranks_->sum(x, "what attentions learn");
    };
    const AddOverRanks add(sum);
    model_.after_step();
    if (average_ != nullptr) average_->update();
    return result;
  }
  if (on_skip) {
    if (captures()) recompute_gradients(step);
    on_skip(result);
  }
  optimizer_.clear_gradients();
  model_.skip_step();
  return result;
}

// By capture where that works, else eagerly.
void TrainingStep::execute(int64_t step) {
  if (captures()) {
    if (capture_->run([&](StepExecutor& executor) { compute(step, executor, interrupt_); })) return;
    not_captured_reason_ = capture_->refusal();
    optimizer_.clear_gradients();
    capture_.reset();
  }
  StepExecutor eager;
  compute(step, eager, interrupt_);
}

Tensor TrainingStep::add_gradients(int64_t step) {
  GradientExecutor executor;
  return compute(step, executor);
}

// The gradients of captured work are not in the parameters' tensors. An eager step needs memory
// besides that of the captured one: where there is too little, there are no gradients.
void TrainingStep::recompute_gradients(int64_t step) {
  optimizer_.clear_gradients();
  try {
    add_gradients(step);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::memory) throw;
    optimizer_.clear_gradients();
  }
}

Tensor TrainingStep::forward_loss(int64_t step, int64_t micro_batch) {
  const NoGrad no_grad;
  const UseSequencePart use(part());
  const BatchTensors batch = next_batch(step, micro_batch);
  const BatchOfStep of_step(step_rows(batch_rows(micro_batch)));
  const Var outputs = model_.forward(batch.model_inputs(), true);
  return model_.output_head().loss(outputs, batch.targets).value();
}

// Dropout's random numbers are those of (seed, step, token of the step).
BatchTensors TrainingStep::next_batch(int64_t step, int64_t micro_batch) {
  context().step->seed = static_cast<uint64_t>(config_.seed);
  context().step->step = static_cast<uint64_t>(step);
  send_step(context());
  const Share own = batch_rows(micro_batch);
  BatchTensors batch = batches_.take(step * rows() + own.first, own.count());
  if (watcher_.batch) watcher_.batch();
  return batch;
}

}  // namespace linea
