// linea attend: one attention on the tensors of a safetensors file, and its gradients where the file holds dy.
//
//   in    q, k [B,H,N,D], v [B,H,N,M], all f32 or all f64, which is also what is computed in; dy [B,H,N,M];
//         what the attention needs: omega [H,R,D] (drawn where it is missing), codebook [H,F,D], sigma [1],
//         gate or beta [B,H,N]
//   out   y [B,H,N,M], the omega used, and of dy: dq, dk, dv, dcodebook, dsigma, dgate, dbeta where they exist
//
// Everything is checked before anything is computed, and the file appears whole or not at all.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "data/files.h"
#include "data/safetensors.h"
#include "nn/attention.h"
#include "tensor/ops.h"
#include "train/commands.h"

namespace linea {
namespace {

struct AttendOptions {
  AttentionOptions attention;
  std::string form = "chunked", device = "cpu", in, out;
  bool causal = false;
  int64_t seed = 1, threads = 0;
  std::set<std::string> given;  // flags, without their dashes
};

// The tensor that an attention reads under this name, a parameter or a buffer; undefined: it has none.
Tensor slot_of(const Attention& attention, const std::string& name) {
  for (const Parameter& parameter : attention.parameters())
    if (parameter.name == name) return parameter.var.value();
  for (const Buffer& buffer : attention.buffers())
    if (buffer.name == name) return buffer.tensor;
  return {};
}

// What one attention wants to be given beside q, k and v.
struct Needs {
  bool omega, codebook, sigma;
  std::string gate;  // "beta" or "gate"; empty: none
};

Needs needs_of(const Attention& attention, const AttentionOptions& options) {
  const auto has = [&](const char* name) { return slot_of(attention, name).defined(); };
  return {has("omega"), has("codebook"), has("sigma"),
          attention.gated() ? (options.rule == "delta" ? "beta" : "gate") : ""};
}

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, "{} is {}; it must be from {} to {}", flag, value, least, most);
}

void check_flags(const AttendOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 31;
  require(options.form == "quadratic" || options.form == "chunked" || options.form == "recurrent",
          "--form is '{}'; choose quadratic, chunked or recurrent", options.form);
  require(options.device == "cpu",
          "--device is '{}': this build has no CUDA backend; leave --device out or say cpu", options.device);
  check_range("--seed", options.seed, 0, INT64_MAX);
  check_range("--threads", options.threads, 0, 4096);
  check_range("--segment", options.attention.segment, 0, kMost);
  check_range("--chunk", options.attention.chunk, 0, kMost);
  check_range("--nu", options.attention.nu, 1, kMost);
  require(options.form != "recurrent" || options.causal,
          "--form recurrent goes from position to position and sees no later key: add --causal");
  std::error_code error;
  require(!std::filesystem::equivalent(options.in, options.out, error),
          "--in and --out are both {}: the result would replace the input", options.in);
}

// Refuses combinations that do not exist before any file is read. Sizes come from the file: of each the
// smallest here.
Needs check_combination(const AttendOptions& options) {
  AttentionOptions smallest = options.attention;
  smallest.nu = 1;
  const std::unique_ptr<Attention> attention = make_attention(smallest);
  require(options.causal || !attention->causal_only(),
          "--rule {} has an order of time and exists only with --causal", options.attention.rule);
  return needs_of(*attention, options.attention);
}

// One line for flags that do not change this attention.
void warn_of_unused_flags(const AttendOptions& options, const Needs& needs) {
  std::vector<std::string> unused;
  const auto unless = [&](bool used, const char* flag) {
    if (!used && options.given.count(flag) != 0) unused.push_back(std::string("--") + flag);
  };
  unless(feature_of(options.attention) == "dpfp", "nu");
  unless(needs.omega, "features");
  unless(needs.omega, "projection");
  unless(needs.codebook, "codes");
  unless(needs.sigma, "sigma");
  if (!unused.empty())
    fmt::print(stderr, "linea: {} does not use {}: ignored\n", label_of(options.attention),
               fmt::join(unused, ", "));
}

// Where element `index` of a tensor of this shape stands: "[0,2,1]".
std::string place_of(const Shape& shape, int64_t index) {
  std::vector<int64_t> place(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[static_cast<size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(place, ","));
}

struct Element {
  double value;
  std::string place;
};

// The first element that is not as it should be.
template <typename Good>
std::optional<Element> first_unlike(const Tensor& x, const Good& good) {
  return with_real(x.dtype(), "attend", [&](auto zero) -> std::optional<Element> {
    const auto values = x.to_vector<decltype(zero)>();
    for (size_t i = 0; i < values.size(); ++i)
      if (!good(values[i])) return Element{values[i], place_of(x.shape(), static_cast<int64_t>(i))};
    return std::nullopt;
  });
}

// An axis of a shape that is asked for: a size, or any where it is 0.
struct Axis {
  const char* name;
  int64_t size = 0;
};
using Axes = std::vector<Axis>;

std::string text_of(const Axes& axes) {
  std::vector<std::string> sizes;
  for (const Axis& axis : axes) sizes.push_back(axis.size > 0 ? std::to_string(axis.size) : axis.name);
  return fmt::format("[{}]", fmt::join(sizes, ","));
}

// The tensors of --in, each checked as it is read. Every error is ErrorKind::input and names file and tensor.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path), file_(SafetensorsFile::open(path)) {
    for (const std::string& warning : file_.warnings()) fmt::print(stderr, "linea: {}\n", warning);
  }

  bool has(const std::string& name) const { return file_.contains(name); }

  // `why` goes before the shape that is asked for: "with q [2,3,17,5] ".
  Tensor read(const std::string& name, const Axes& axes, const std::string& why = "") {
    if (!has(name))
      fail(ErrorKind::input, "{}: there is no tensor {}; {}it must be {}", path_, name, why, text_of(axes));
    const SafetensorsEntry& entry = file_.entry(name);
    check_dtype(entry);
    bool fits = entry.shape.size() == axes.size();
    for (size_t i = 0; fits && i < axes.size(); ++i) fits = axes[i].size == 0 || axes[i].size == entry.shape[i];
    if (!fits)
      fail(ErrorKind::input, "{}: {} is [{}]; {}it must be {}", path_, name, fmt::join(entry.shape, ","), why,
           text_of(axes));
    if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end())
      fail(ErrorKind::input, "{}: {} is [{}], which has no elements; {}it must be {}, every size at least 1",
           path_, name, fmt::join(entry.shape, ","), why, text_of(axes));
    const Tensor result = file_.read(name);
    used_.insert(name);
    refuse(
        name, result, [](auto x) { return std::isfinite(x); }, "every number must be finite");
    return result;
  }

  template <typename Good>
  void refuse(const std::string& name, const Tensor& x, const Good& good, const char* rule) const {
    if (const auto bad = first_unlike(x, good))
      fail(ErrorKind::input, "{}: {} is {:.9g} at {}; {}", path_, name, bad->value, bad->place, rule);
  }

  void warn_of_unused(const std::string& label) const {
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : file_.entries())
      if (used_.count(entry.name) == 0) names.push_back(quoted_name(entry.name));
    if (!names.empty())
      fmt::print(stderr, "linea: {}: {} does not use {}: ignored\n", path_, label, fmt::join(names, ", "));
  }

 private:
  // What is read first says what all have to be.
  void check_dtype(const SafetensorsEntry& entry) {
    if (entry.dtype != "F32" && entry.dtype != "F64")
      fail(ErrorKind::input, "{}: {} is {}; all tensors must be F32, or all F64", path_, entry.name, entry.dtype);
    if (first_.empty()) first_ = entry.name, dtype_ = entry.dtype;
    if (entry.dtype != dtype_)
      fail(ErrorKind::input, "{}: {} is {} and {} is {}; all tensors must be F32, or all F64", path_, entry.name,
           entry.dtype, first_, dtype_);
  }

  std::string path_;
  SafetensorsFile file_;
  std::string first_, dtype_;
  std::set<std::string> used_;
};

// What the file gave; undefined where it was not asked for, and an omega or sigma that was not there.
struct Inputs {
  Tensor q, k, v, dy, gate, omega, codebook, sigma;
};

// A size that a flag and a tensor both say.
void check_agrees(const AttendOptions& options, const char* flag, int64_t asked, const char* name,
                  const Tensor& x) {
  require(options.given.count(flag) == 0 || asked == x.size(1), "--{} is {}, and {} of {} is {}: leave --{} out",
          flag, asked, name, options.in, x.shape().str(), flag);
}

Inputs read_inputs(InputFile& file, const Needs& needs, const AttendOptions& options) {
  Inputs in;
  in.q = file.read("q", {{"B"}, {"H"}, {"N"}, {"D"}});
  const Axis B{"B", in.q.size(0)}, H{"H", in.q.size(1)}, N{"N", in.q.size(2)}, D{"D", in.q.size(3)};
  const std::string why = fmt::format("with q {} ", in.q.shape().str());
  in.k = file.read("k", {B, H, N, D}, why);
  in.v = file.read("v", {B, H, N, {"M"}}, why);
  if (!needs.gate.empty()) {
    in.gate = file.read(needs.gate, {B, H, N}, why);
    file.refuse(
        needs.gate, in.gate, [](auto g) { return g > 0 && g < 1; }, "it must be above 0 and below 1");
  }
  if (needs.omega && file.has("omega")) {
    in.omega = file.read("omega", {H, {"R"}, D}, why);
    check_agrees(options, "features", options.attention.features, "omega", in.omega);
  }
  if (needs.codebook) {
    in.codebook = file.read("codebook", {H, {"F"}, D}, why);
    check_agrees(options, "codes", options.attention.codes, "codebook", in.codebook);
  }
  if (needs.sigma && file.has("sigma")) {
    in.sigma = file.read("sigma", {{"1", 1}});
    file.refuse(
        "sigma", in.sigma, [](auto sigma) { return sigma > 0; }, "it must be above 0");
    const bool same = with_real(in.sigma.dtype(), "attend", [&](auto zero) {
      return static_cast<decltype(zero)>(options.attention.sigma) == static_cast<decltype(zero)>(in.sigma.item());
    });
    require(same || options.given.count("sigma") == 0,
            "--sigma is {}, and sigma of {} is {:.9g}: leave --sigma out", options.attention.sigma, options.in,
            in.sigma.item());
  }
  if (file.has("dy")) {
    in.dy = file.read("dy", {B, H, N, {"M", in.v.size(3)}},
                      fmt::format("with q {} and v {} ", in.q.shape().str(), in.v.shape().str()));
    require(
        options.form != "recurrent",
        "{} holds dy, and --form recurrent has no gradients: take --form chunked or quadratic, or leave dy out",
        options.in);
  }
  return in;
}

void copy_into(const Tensor& from, const Tensor& to) {
  std::vector<char> bytes(from.bytes());
  from.read(bytes.data());
  to.write(bytes.data());
}

// The attention at the file's sizes, holding the file's numbers.
std::unique_ptr<Attention> attention_for(const Inputs& in, AttentionOptions options) {
  options.dtype = in.q.dtype();
  options.heads = in.q.size(1);
  options.key_size = in.q.size(3);
  options.value_size = in.v.size(3);
  if (in.omega.defined()) options.features = in.omega.size(1);
  if (in.codebook.defined()) options.codes = in.codebook.size(1);
  std::unique_ptr<Attention> attention = make_attention(options);
  const std::pair<const char*, Tensor> given[] = {
      {"omega", in.omega}, {"codebook", in.codebook}, {"sigma", in.sigma}};
  for (const auto& [name, tensor] : given)
    if (tensor.defined()) copy_into(tensor, slot_of(*attention, name));
  attention->buffers_changed();
  return attention;
}

// y [B,H,N,M] of one position after the other.
template <typename T>
Tensor recurrent(const Attention& attention, const Inputs& in) {
  const int64_t B = in.q.size(0), H = in.q.size(1), N = in.q.size(2), M = in.v.size(3);
  const Kernels<T>& table = kernels<T>(context().device);
  const auto at = [&](const Tensor& x, int64_t n) {
    const int64_t width = x.numel() / (B * H * N);
    const Tensor row(x.shape().rank() == 3 ? Shape{B, H} : Shape{B, H, width}, x.dtype());
    table.copy_runs(context(), {x.data<T>() + n * width, N * width}, {row.data<T>(), width}, B * H, width);
    return row;
  };
  const Tensor y(in.v.shape(), in.v.dtype());
  const std::unique_ptr<AttentionState> state = attention.start(B, in.v.dtype());
  for (int64_t n = 0; n < N; ++n) {
    const Tensor row = attention.step(
        *state, {at(in.q, n), at(in.k, n), at(in.v, n), in.gate.defined() ? at(in.gate, n) : Tensor()});
    table.copy_runs(context(), {row.data<T>(), M}, {y.data<T>() + n * M, N * M}, B * H, M);
  }
  return y;
}

// y and, given dy, the gradients.
std::vector<NamedTensor> compute(const Attention& attention, const Inputs& in, const std::string& gate_name,
                                 const AttendOptions& options) {
  const bool slopes = in.dy.defined();
  std::optional<NoGrad> without_slopes;
  if (!slopes) without_slopes.emplace();
  if (options.form == "recurrent")
    return {{"y", with_real(in.q.dtype(), "attend",
                            [&](auto zero) { return recurrent<decltype(zero)>(attention, in); })}};

  const Var q(in.q, slopes), k(in.k, slopes), v(in.v, slopes);
  const Var gate = in.gate.defined() ? Var(in.gate, slopes) : Var();
  const AttentionMask mask{options.causal, {}};
  const Var y = options.form == "quadratic" ? attention.quadratic({q, k, v, gate}, mask)
                                            : attention.forward({q, k, v, gate}, mask);
  std::vector<NamedTensor> result = {{"y", y.value()}};
  if (!slopes) return result;
  backward(y, in.dy);
  const auto add = [&](const std::string& name, const Var& x) { result.push_back({"d" + name, x.grad()}); };
  add("q", q);
  add("k", k);
  add("v", v);
  if (gate.defined()) add(gate_name, gate);
  for (const Parameter& parameter : attention.parameters()) add(parameter.name, parameter.var);
  return result;
}

void run_attend(const AttendOptions& options) {
  check_flags(options);
  const Needs needs = check_combination(options);
  if (options.threads != 0) set_threads(static_cast<int>(options.threads));
  InputFile file(options.in);
  const Inputs in = read_inputs(file, needs, options);
  const std::unique_ptr<Attention> attention = attention_for(in, options.attention);
  warn_of_unused_flags(options, needs);
  file.warn_of_unused(label_of(options.attention));
  { AtomicFile probe(options.out); }  // a folder that takes no files is an error now, not after the work

  std::vector<NamedTensor> out = compute(*attention, in, needs.gate, options);
  for (const auto& [name, tensor] : out)
    if (const auto bad = first_unlike(tensor, [](auto x) { return std::isfinite(x); }))
      fail(ErrorKind::numeric, "{} of {} is {} at {}: the numbers are too large for {}", name, options.in,
           bad->value, bad->place, name_of(tensor.dtype()));
  if (needs.omega) out.insert(out.begin() + 1, {"omega", slot_of(*attention, "omega")});
  write_safetensors(options.out, out);
  std::vector<std::string> written;
  for (const auto& [name, tensor] : out) written.push_back(name + " " + tensor.shape().str());
  fmt::print("{}: {}\n", options.out, fmt::join(written, ", "));
}

}  // namespace

void add_attend(CLI::App& program, int& exit_code) {
  const auto options = std::make_shared<AttendOptions>();
  AttentionOptions& attention = options->attention;
  CLI::App* verb = program.add_subcommand("attend", "one attention, and its gradients, on tensors of your own");
  verb->footer(
      "--in holds q, k [B,H,N,D] and v [B,H,N,M], all F32 or all F64, and what the attention needs:\n"
      "  performer     omega [H,R,D]; without it, it is drawn by --features, --projection and --seed\n"
      "  vq            codebook [H,F,D]\n"
      "  soft-vq       codebook [H,F,D]; sigma [1], or --sigma\n"
      "  --rule gated  gate [B,H,N]      --rule delta  beta [B,H,N]      both between 0 and 1, --causal only\n"
      "With dy [B,H,N,M] the gradients are computed too (not by --form recurrent).\n"
      "--out holds y, the omega used, and of dy: dq, dk, dv, dcodebook, dsigma, dgate, dbeta where they exist.\n"
      "vq's dk is that of the code that stands for the key, straight through.");
  verb->add_option("--in", options->in, "a safetensors file")->required();
  verb->add_option("--out", options->out, "the safetensors file to write")->required();
  verb->add_option("--attention", attention.attention, "linear, performer, soft-vq, softmax or vq")
      ->capture_default_str();
  verb->add_option(
      "--feature", attention.feature,
      "of linear: elu (its default), relu, exp, square or dpfp; of performer: positive (its default), "
      "hyperbolic, trig or relu");
  verb->add_option("--rule", attention.rule, "of linear: sum, gated or delta")->capture_default_str();
  verb->add_option("--nu", attention.nu, "of dpfp: F = 2 D nu features")->capture_default_str();
  verb->add_option("--features", attention.features, "of performer: rows of omega a head, where it is drawn")
      ->capture_default_str();
  verb->add_option("--projection", attention.projection,
                   "of performer: iid, orthogonal, stratified or fixed-norm, where omega is drawn")
      ->capture_default_str();
  verb->add_option("--codes", attention.codes, "of vq and soft-vq: codes a head, as the codebook has them");
  verb->add_option("--sigma", attention.sigma, "of soft-vq: the width, where the file has no sigma")
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "of an omega that is drawn")->capture_default_str();
  verb->add_flag("--causal", options->causal, "position i sees j <= i; without it, all");
  verb->add_option("--form", options->form, "quadratic (the definition), chunked or recurrent (--causal only)")
      ->capture_default_str();
  verb->add_option("--threads", options->threads, "processor threads; 0: all cores")->capture_default_str();
  verb->add_option("--device", options->device, "cpu")->capture_default_str();
  verb->add_option("--segment", attention.segment, "positions whose features exist at a time; 0: chosen")
      ->capture_default_str();
  verb->add_option("--chunk", attention.chunk, "rows of a matrix product in linear attention; 0: chosen")
      ->capture_default_str();
  verb->callback([verb, options, &exit_code] {
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0) options->given.insert(option->get_lnames().front());
    options->attention.seed = static_cast<uint64_t>(options->seed);
    run_attend(*options);
    exit_code = 0;
  });
}

}  // namespace linea
