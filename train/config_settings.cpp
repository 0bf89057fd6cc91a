// The declarations of a run's settings.
#include "nn/embedding.h"
#include "nn/output_head.h"
#include "nn/self_attention.h"
#include "train/config.h"

namespace linea {
namespace {

constexpr double kMaxSeed = 9.2e18;

// `member`: of RunConfig or its base, ModelSettings.
template <typename T, typename Part>
GeneralSetting general(const char* group, T Part::*member, Setting setting) {
  setting.initial = RunConfig().*member;
  return {setting, group, static_cast<T RunConfig::*>(member)};
}

Setting integer_of(const char* key, double min, const char* help) {
  return declare::integer(key, 0, at_least(min), help);
}

// A setting of where, how fast and what is written, not of what is learned.
Setting not_learned(Setting setting) {
  setting.affects_training = false;
  return setting;
}

using Config = RunConfig;

void add_model(std::vector<GeneralSetting>& list) {
  using namespace declare;
  const auto add = [&](auto member, Setting setting,
                       MayChange may_change = MayChange::by_init_from) {
    list.push_back(general("Model", member, changing(may_change, std::move(setting))));
  };
  add(&Config::attention,
      list_of("attention", "", attention_names(),
              "attention mechanism, or several, which the layers take in turn, such as "
              "linear:rule=gated/softmax"));
  add(&Config::layers, integer_of("layers", 1, "number of blocks"));
  add(&Config::heads, integer_of("heads", 1, "attention heads; must divide dim"));
  add(&Config::dim, integer_of("dim", 1, "width of the model"), MayChange::never);
  add(&Config::ffn, integer_of("ffn", 1, "width of the feed-forward layers"), MayChange::never);
  add(&Config::positions,
      choice("positions", "", position_kinds(),
             "position embedding; learned+grid: also of the row, column and channel of an image; "
             "rotary: attentions turn their rows by position; none: samples have no end"));
  add(&Config::layer_convolution,
      choice("layer_convolution", "", convolution_kinds(),
             "causal convolution of the inputs of attention and feed-forward: 1d: 4 positions; 2d: "
             "of images, with the row above"),
      MayChange::never);
  add(&Config::class_embedding,
      choice("class_embedding", "", {"first", "every"},
             "where an image's class is read: at the first position alone, or at every one"));
  add(&Config::attention_output,
      choice("attention_output", "", attention_output_kinds(),
             "gated: normalize each head of an attention's output, except of softmax, and multiply "
             "it by a gate, silu of a product with the layer's input"),
      MayChange::never);
  add(&Config::output_head,
      choice("output_head", "", output_head_names(),
             "categorical: one logit per token; logistics: for images, a mixture of ten logistic "
             "distributions over the levels"),
      MayChange::never);
  add(&Config::skip_blank,
      flag("skip_blank",
           "images: the blocks skip pixels whose neighborhood is background, which is level 0, and "
           "a "
           "small layer predicts these"),
      MayChange::never);
  add(&Config::mask,
      choice("mask", "", {"auto", "causal"},
             "whether a position reads later ones: auto: where the task has one answer and the "
             "attention allows it; causal: never"));
  add(&Config::tie, flag("tie", "use the transposed token embedding as output matrix"));
  add(&Config::bias, flag("bias", "biases in linear layers and norms"));
  add(&Config::reversible,
      flag("reversible",
           "reversible blocks of two streams: activations are not saved, a third more work"));
}

void add_training(std::vector<GeneralSetting>& list) {
  using namespace declare;
  const auto add = [&](auto member, Setting setting) {
    list.push_back(general("Training", member, std::move(setting)));
  };
  std::vector<std::string> names;
  for (const Mechanism& optimizer : optimizers()) names.push_back(optimizer.name);
  add(&Config::batch, integer_of("batch", 1, "sequences per batch"));
  add(&Config::accumulate, integer_of("accumulate", 1, "batches per step (gradient accumulation)"));
  add(&Config::steps, integer_of("steps", 1, "updates"));
  add(&Config::optimizer,  // its moments belong to it
      changing(MayChange::by_init_from, choice("optimizer", "", names, "optimizer")));
  add(&Config::lr, positive("lr", 0, "peak learning rate"));
  add(&Config::min_lr, real("min_lr", 0, at_least(0), "learning rate at the end of the cosine"));
  add(&Config::warmup, integer_of("warmup", 0, "steps of linear warm-up"));
  add(&Config::decay_steps,
      integer_of("decay_steps", 0,
                 "step at which the cosine ends and min_lr begins; 0: the last of steps"));
  add(&Config::clip, real("clip", 0, at_least(0), "maximum global gradient norm; 0: no clipping"));
  add(&Config::ema,
      real("ema", 0, {0, kBelowOne},
           "decay of an average of the weights, which checkpoints also hold (--weights ema), such "
           "as 0.999; 0: none"));
  add(&Config::dropout,
      real("dropout", 0, {0, kBelowOne}, "probability of dropping an activation"));
  add(&Config::recompute,
      flag("recompute",
           "save only the input of each block and recompute it in the backward pass: less memory, "
           "a third more work"));
  add(&Config::seed, integer("seed", 0, {0, kMaxSeed}, "random seed"));
}

// What a run evaluates, saves and stops for.
void add_records(std::vector<GeneralSetting>& list) {
  using namespace declare;
  const auto add = [&](auto member, Setting setting) {
    list.push_back(general("Training", member, std::move(setting)));
  };
  add(&Config::eval_every,
      not_learned(integer_of("eval_every", 0,
                             "steps between evaluations on the validation split; 0: at the end")));
  add(&Config::early_stop,
      not_learned(
          integer_of("early_stop", 0,
                     "end the run where val_loss does not improve in this many evaluations in "
                     "a row; 0: never")));
  add(&Config::save_every,
      not_learned(integer_of("save_every", 0,
                             "steps between checkpoints; 0: every ten minutes, and at the end")));
  add(&Config::sample_every,
      not_learned(integer_of("sample_every", 0, "steps between samples; 0: at the end")));
  add(&Config::judge_samples,
      not_learned(integer("judge_samples", 0, {0, static_cast<double>(kMaxJudgedSamples)},
                          "samples that are judged at the same steps, as by linea judge")));
  add(&Config::keep_last,
      not_learned(
          integer_of("keep_last", 0,
                     "newest checkpoints to keep, in addition to the best by validation; 0: all")));
  add(&Config::keep_every,
      not_learned(integer_of("keep_every", 0,
                             "also keep checkpoints at multiples of this many steps; 0: none")));
  add(&Config::max_time,
      not_learned(
          text("max_time", "", "save and stop after this time, such as 3h50m; empty: never")));
  add(&Config::spike_guard,
      real("spike_guard", 0, at_least(0),
           "skip updates whose loss or gradient norm exceeds its running mean by this factor; 0: "
           "only non-finite ones"));
  add(&Config::tensorboard,
      not_learned(
          flag("tensorboard", "also write metrics and samples as event files to RUN/tensorboard")));
}

void add_machine(std::vector<GeneralSetting>& list) {
  using namespace declare;
  const auto add = [&](auto member, Setting setting) {
    list.push_back(general("Machine", member, std::move(setting)));
  };
  add(&Config::threads,
      not_learned(integer_of("threads", 0,
                             "CPU threads; 0: all cores; fewer while other programs use them")));
  add(&Config::device, text("device", "", "cpu, cuda, or a device by number such as cuda:1"));
  add(&Config::dtype,
      changing(MayChange::by_init_from,  // other products, other losses
               text("dtype", "",
                    "fp32 or bf16: products and saved activations. Trains up to 2.2 times as fast "
                    "by AMX, 1.1 to 1.5 times by AVX512-BF16 of AMD, no faster on other CPUs; a "
                    "CUDA device takes tf32, too; auto: bf16 where it is faster")));
  add(&Config::sequence_ranks,
      not_learned(
          integer("sequence_ranks", 1, {1, 1 << 20},
                  "with mpirun: how many processes share the positions of a sequence, by linear "
                  "attention; 1: each has whole sequences")));
  add(&Config::comm_timeout,
      not_learned(text("comm_timeout", "",
                       "with mpirun: how long to wait for a process that does not answer, such as "
                       "10m; empty: for ever")));
  add(&Config::segment,
      integer_of("segment", 0, "positions whose features are in memory at once; 0: automatic"));
  add(&Config::chunk, integer_of("chunk", 0, "chunk length of linear attention; 0: automatic"));
}

}  // namespace

std::vector<GeneralSetting> general_settings() {
  std::vector<GeneralSetting> list;
  list.push_back(
      general("Data", &Config::task,
              declare::of_model(declare::choice("task", "", task_names(), "what to learn"))));
  add_model(list);
  add_training(list);
  add_records(list);
  add_machine(list);
  return list;
}

const Settings& deleted_settings() {
  static const Settings settings = {{"bigram_embedding", false},
                                    {"embedding_convolution", std::string("none")}};
  return settings;
}

std::vector<MechanismKind> mechanism_kinds() {
  MechanismKind of_task{"task", &Config::task, &Config::task_settings, {}, true};
  for (const TaskEntry& entry : tasks()) of_task.mechanisms.push_back({entry.name, entry.settings});
  MechanismKind of_attention{
      "attention", &Config::attention, &Config::attention_settings, {}, false, true};
  for (const AttentionEntry& entry : attentions())
    of_attention.mechanisms.push_back({entry.name, entry.settings});
  return {of_task,
          of_attention,
          {"optimizer", &Config::optimizer, &Config::optimizer_settings, optimizers(), true}};
}

}  // namespace linea
