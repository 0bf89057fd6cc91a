// Every setting of a training run: one list gives the flags, the TOML keys, their defaults and
// help.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "data/tasks/task.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "train/machine.h"

namespace CLI {
class App;
}

namespace linea {

struct RunConfig {
  // data
  std::string task, data;
  int64_t length = 0, size = 0, channels = 0, levels = 0;
  bool flip = false, class_token = false, bytes = false;
  int64_t associations = 0;
  bool repeat_keys = false;
  // model
  std::string attention = "linear", feature, rule = "sum", projection = "orthogonal",
              codebook = "ema";
  std::string positions = "learned", output_head = "categorical";
  int64_t nu = 1, features = 64, redraw = 0, codes = 64, layers = 4, heads = 4, dim = 128,
          ffn = 512;
  double sigma = 1.0, anneal = 1.0, commitment = 0.01;
  bool tie = false, bias = true, recompute = false, reversible = false;
  // training
  int64_t batch = 16, accumulate = 1, steps = 1000;
  std::string optimizer = "adamw";
  double lr = 1e-3, min_lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.0, clip = 1.0,
         dropout = 0.0;
  int64_t warmup = 100, seed = 1, eval_every = 0, save_every = 0, sample_every = 0, keep_last = 3;
  int64_t keep_every = 0;
  double spike_guard = 0;
  std::string max_time;
  bool tensorboard = false;
  // machine
  int64_t threads = 0, segment = 0, chunk = 0;
  std::string device = "cpu", dtype = "fp32";
};

template <typename Config, typename Visitor>
void visit_data_settings(Config& c, const Visitor& visit) {
  visit("task", c.task, "digits, mnist, cifar10, images, text, copy or retrieval", "Data");
  visit("data", c.data, "training data: a folder (mnist, cifar10, images) or a file (text)",
        "Data");
  visit("length", c.length, "tokens per sequence; 0: the task's default", "Data");
  visit("size", c.size, "side of an image in pixels; 0: the task's default", "Data");
  visit("channels", c.channels,
        "channels per pixel of cifar10 and images: 3, or 1 for gray; 0: the task's default",
        "Data");
  visit("levels", c.levels, "levels per pixel and channel, 2 to 256; 0: 256", "Data");
  visit("flip", c.flip, "mirror training images at random, left to right", "Data");
  visit("class_token", c.class_token, "start each image with a token for its class", "Data");
  visit("bytes", c.bytes, "tokenize text by bytes (256 tokens) instead of characters", "Data");
  visit("associations", c.associations, "number of key-value pairs; 0: 20", "Data");
  visit("repeat_keys", c.repeat_keys, "write keys repeatedly; the last value counts", "Data");
}

template <typename Config, typename Visitor>
void visit_model_settings(Config& c, const Visitor& visit) {
  visit("attention", c.attention, "linear, performer, soft-vq, softmax or vq", "Model");
  visit("feature", c.feature,
        "of linear: elu (its default), relu, exp, square or dpfp; of performer: positive (its "
        "default), hyperbolic, "
        "trig or relu",
        "Model");
  visit("rule", c.rule, "of linear: sum, gated or delta", "Model");
  visit("nu", c.nu, "of dpfp: F = 2 D nu features", "Model");
  visit("features", c.features, "of performer: rows of omega a head", "Model");
  visit("projection", c.projection, "of performer: iid, orthogonal, stratified or fixed-norm",
        "Model");
  visit("redraw", c.redraw, "of performer: steps between draws of omega; 0: never", "Model");
  visit("codes", c.codes, "of vq and soft-vq: codes a head", "Model");
  visit("sigma", c.sigma, "of soft-vq: the width that training starts from", "Model");
  visit("anneal", c.anneal,
        "of soft-vq: the temperature at the end of training, from 1 at its start", "Model");
  visit("codebook", c.codebook, "of vq: codes move by ema or by gradient", "Model");
  visit("commitment", c.commitment, "of vq: weight of the term that draws keys to their codes",
        "Model");
  visit("layers", c.layers, "number of blocks", "Model");
  visit("heads", c.heads, "attention heads; must divide dim", "Model");
  visit("dim", c.dim, "width of the model", "Model");
  visit("ffn", c.ffn, "width of the feed-forward layers", "Model");
  visit("positions", c.positions, "learned or sinusoidal", "Model");
  visit("output_head", c.output_head,
        "categorical: one logit per token; logistics: for images, a mixture of ten logistic "
        "distributions over the levels",
        "Model");
  visit("tie", c.tie, "use the transposed token embedding as output matrix", "Model");
  visit("bias", c.bias, "biases in linear layers and norms", "Model");
  visit("reversible", c.reversible,
        "reversible blocks of two streams: activations are not saved, a third more work", "Model");
}

template <typename Config, typename Visitor>
void visit_training_settings(Config& c, const Visitor& visit) {
  visit("batch", c.batch, "sequences per batch", "Training");
  visit("accumulate", c.accumulate, "batches per step (gradient accumulation)", "Training");
  visit("steps", c.steps, "updates", "Training");
  visit("optimizer", c.optimizer, "adamw, adam or radam", "Training");
  visit("lr", c.lr, "peak learning rate", "Training");
  visit("min_lr", c.min_lr, "learning rate at the end of the cosine", "Training");
  visit("warmup", c.warmup, "steps of linear warm-up", "Training");
  visit("beta1", c.beta1, "decay of the mean gradient", "Training");
  visit("beta2", c.beta2, "decay of the mean squared gradient", "Training");
  visit("weight_decay", c.weight_decay, "decoupled weight decay, for matrices only", "Training");
  visit("clip", c.clip, "maximum global gradient norm; 0: no clipping", "Training");
  visit("dropout", c.dropout, "probability of dropping an activation", "Training");
  visit("recompute", c.recompute,
        "save only the input of each block and recompute it in the backward pass: less memory, a "
        "third more work",
        "Training");
  visit("seed", c.seed, "random seed", "Training");
  visit("eval_every", c.eval_every,
        "steps between evaluations on the validation split; 0: at the end", "Training");
  visit("save_every", c.save_every,
        "steps between checkpoints; 0: every ten minutes, and at the end", "Training");
  visit("sample_every", c.sample_every, "steps between samples; 0: at the end", "Training");
  visit("keep_last", c.keep_last,
        "newest checkpoints to keep, in addition to the best by validation; 0: all", "Training");
  visit("keep_every", c.keep_every,
        "also keep checkpoints at multiples of this many steps; 0: none", "Training");
  visit("max_time", c.max_time, "save and stop after this time, such as 3h50m; empty: never",
        "Training");
  visit("spike_guard", c.spike_guard,
        "skip updates whose loss or gradient norm exceeds its running mean by this factor; 0: only "
        "non-finite ones",
        "Training");
  visit("tensorboard", c.tensorboard,
        "also write metrics and samples as event files to RUN/tensorboard", "Training");
}

template <typename Config, typename Visitor>
void visit_machine_settings(Config& c, const Visitor& visit) {
  visit("threads", c.threads, "CPU threads; 0: all cores", "Machine");
  visit("device", c.device, "cpu, cuda, or a device by number such as cuda:1", "Machine");
  visit("dtype", c.dtype,
        "fp32; on a CUDA device also tf32 (products) or bf16 (products and activations); on a CPU "
        "bf16 weights for sampling only",
        "Machine");
  visit("segment", c.segment, "positions whose features are in memory at once; 0: automatic",
        "Machine");
  visit("chunk", c.chunk, "chunk length of linear attention; 0: automatic", "Machine");
}

// Calls visit(key, member, help, group) for every setting, in the order in which files list them. A
// key's underscores are dashes in its flag.
template <typename Config, typename Visitor>
void visit_settings(Config& c, const Visitor& visit) {
  visit_data_settings(c, visit);
  visit_model_settings(c, visit);
  visit_training_settings(c, visit);
  visit_machine_settings(c, visit);
}

// The settings as options of a command line; where `only` names some, those.
void add_settings(CLI::App& app, RunConfig& config, const std::set<std::string>& only = {});

// Sets what the TOML text says, but for the keys in `fixed`; `source` names it in errors: text that
// is not TOML, an unknown key (with the nearest known one), a value of the wrong kind.
void apply_toml(CLI::App& app, const std::string& text, const std::string& source,
                const std::set<std::string>& fixed = {});
// The same on settings without a command line.
void apply_toml(RunConfig& config, const std::string& text, const std::string& source);
RunConfig config_from_toml(const std::string& text, const std::string& source);
std::string to_toml(const RunConfig& config);

// The keys that the user gave as flags.
std::set<std::string> given_settings(const CLI::App& app);

// The files of configs/, which are part of the program. Error: an unknown name, with those that
// exist.
std::string preset_text(const std::string& name);
std::vector<std::string> preset_names();

// The known word nearest to `word` by edit distance; empty where none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

TaskOptions task_options(const RunConfig& config, const std::string& vocabulary);
AttentionOptions attention_options(const RunConfig& config);
ModelConfig model_config(const RunConfig& config, const TaskShape& shape);
OptimizerConfig optimizer_config(const RunConfig& config);

// Error: ErrorKind::usage where a number cannot work (steps below 1, levels of 1, an unknown device
// ...).
void check_settings(const RunConfig& config, Work work = Work::training);

}  // namespace linea
