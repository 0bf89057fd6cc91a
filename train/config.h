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

// Calls visit(key, member, help, group) for every setting, in the order in which files list them. A
// key's underscores are dashes in its flag.
template <typename Config, typename Visitor>
void visit_settings(Config& c, const Visitor& visit) {
  visit("task", c.task, "digits, mnist, cifar10, images, text, copy or retrieval", "Data");
  visit("data", c.data, "what to learn from: a folder (mnist, cifar10, images) or a file (text)",
        "Data");
  visit("length", c.length, "tokens in a sequence; 0: the task's own", "Data");
  visit("size", c.size, "side of a image in pixels; 0: the task's own", "Data");
  visit("channels", c.channels,
        "of a pixel of cifar10 and images: 3, or 1 for gray; 0: the task's own", "Data");
  visit("levels", c.levels, "gray levels of a image, 2 to 256; 0: 256", "Data");
  visit("flip", c.flip, "training images are mirrored, left to right, at random", "Data");
  visit("class_token", c.class_token, "a image starts with its class", "Data");
  visit("bytes", c.bytes, "a text's tokens are the 256 bytes, whatever the file holds", "Data");
  visit("associations", c.associations, "keys of retrieval; 0: 20", "Data");
  visit("repeat_keys", c.repeat_keys, "retrieval writes keys again; the last value counts", "Data");
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
  visit("layers", c.layers, "blocks of the Transformer", "Model");
  visit("heads", c.heads, "attention heads; must divide dim", "Model");
  visit("dim", c.dim, "width of the model", "Model");
  visit("ffn", c.ffn, "width of the feed-forward layers", "Model");
  visit("positions", c.positions, "learned or sinusoidal", "Model");
  visit("output_head", c.output_head,
        "categorical: a score a token; logistics: of images, ten distributions on the levels",
        "Model");
  visit("tie", c.tie, "the head is the transposed embedding", "Model");
  visit("bias", c.bias, "linear layers and norms have biases", "Model");
  visit("reversible", c.reversible,
        "blocks of two streams that the backward undoes: it keeps none of them, for a third more "
        "work",
        "Model");
  visit("batch", c.batch, "sequences in a batch", "Training");
  visit("accumulate", c.accumulate, "batches whose gradients make one step", "Training");
  visit("steps", c.steps, "updates", "Training");
  visit("optimizer", c.optimizer, "adamw, adam or radam", "Training");
  visit("lr", c.lr, "peak learning rate", "Training");
  visit("min_lr", c.min_lr, "learning rate at the end of the cosine", "Training");
  visit("warmup", c.warmup, "steps of linear warm-up", "Training");
  visit("beta1", c.beta1, "decay of the gradient's mean", "Training");
  visit("beta2", c.beta2, "decay of the gradient's mean square", "Training");
  visit("weight_decay", c.weight_decay, "decoupled, on matrices only", "Training");
  visit("clip", c.clip, "largest global norm of the gradient; 0: none", "Training");
  visit("dropout", c.dropout, "share of activations dropped", "Training");
  visit("recompute", c.recompute,
        "keep only what a block is given, run it again in the backward: less memory, a third more "
        "work",
        "Training");
  visit("seed", c.seed, "of everything that is drawn", "Training");
  visit("eval_every", c.eval_every, "steps between looks at the validation split; 0: at the end",
        "Training");
  visit("save_every", c.save_every,
        "steps between checkpoints; 0: every ten minutes, and at the end", "Training");
  visit("sample_every", c.sample_every, "steps between samples; 0: at the end", "Training");
  visit("keep_last", c.keep_last,
        "newest checkpoints to keep, besides the best by validation; 0: all", "Training");
  visit("keep_every", c.keep_every,
        "checkpoints of multiples of this many steps are kept too; 0: none", "Training");
  visit("max_time", c.max_time, "save and stop after this long, such as 3h50m; empty: never",
        "Training");
  visit("spike_guard", c.spike_guard,
        "skip updates whose loss or gradient is this many times the usual; 0: only those that are "
        "not finite",
        "Training");
  visit("tensorboard", c.tensorboard, "metrics and samples also as event files in RUN/tensorboard",
        "Training");
  visit("threads", c.threads, "processor threads; 0: all cores", "Machine");
  visit("device", c.device, "cpu, cuda, or one of several as cuda:1", "Machine");
  visit("dtype", c.dtype,
        "fp32, or on a CUDA device tf32 (products) or bf16 (products and activations); a CPU only "
        "draws by bf16 weights",
        "Machine");
  visit("segment", c.segment, "positions of a sequence whose features exist at a time; 0: chosen",
        "Machine");
  visit("chunk", c.chunk, "rows of a matrix product in linear attention; 0: chosen", "Machine");
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
