#include "nn/attention.h"

#include <algorithm>

#include "nn/attention/builtin.h"
#include "tensor/context.h"

namespace linea {
namespace {

std::vector<AttentionEntry>& registry() {
  static std::vector<AttentionEntry> entries = [] {
    std::vector<AttentionEntry> all = builtin_attentions();
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return all;
  }();
  return entries;
}

}  // namespace

void Attention::require_form(bool causal) const {
  require(!causal || traits_.not_causal.empty(), "`attention` {} has no causal form: {}",
          options_.name, traits_.not_causal);
}

std::unique_ptr<AttentionState> Attention::start(int64_t, DType) const {
  return require_form(true), nullptr;
}

Tensor Attention::step(AttentionState&, const AttentionInputs&) const {
  return require_form(true), Tensor();
}

std::vector<AttentionOptions> AttentionEntry::variant_options() const {
  std::vector<AttentionOptions> result;
  for (const Settings& variant : variants) result.push_back({name, variant});
  return result;
}

void register_attention(AttentionEntry entry) {
  std::vector<AttentionEntry>& entries = registry();
  const auto position =
      std::find_if(entries.begin(), entries.end(),
                   [&](const AttentionEntry& other) { return other.name >= entry.name; });
  require(position == entries.end() || position->name != entry.name,
          "there is an attention '{}' already; choose another name", entry.name);
  entries.insert(position, std::move(entry));
}

const std::vector<AttentionEntry>& attentions() { return registry(); }

std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const AttentionEntry& entry : attentions()) names.push_back(entry.name);
  return names;
}

const AttentionEntry& find_attention(const std::string& name) {
  return find_named("attention", attentions(), name);
}

Settings complete_settings(const AttentionOptions& options) {
  return complete(find_attention(options.name).settings, options.settings,
                  "attention " + options.name);
}

std::unique_ptr<Attention> make_attention(AttentionOptions options) {
  options.settings = complete_settings(options);
  const AttentionEntry& entry = find_attention(options.name);
  require(
      !entry.cpu_only || context().device.kind == DeviceKind::cpu,
      "`attention` {} has no kernels for `device` cuda yet: choose another, or leave `device` out",
      options.name);
  return entry.make(options);
}

std::unique_ptr<Attention> make_smallest(AttentionOptions options) {
  for (const auto& [key, value] : complete_settings(options))
    if (std::holds_alternative<int64_t>(value)) options.settings.erase(key);
  options.heads = options.key_size = options.value_size = 1;
  return make_attention(options);
}

AttentionTraits traits_of(AttentionOptions options) {
  options.image_width = options.image_channels = 1;
  return make_smallest(std::move(options))->traits();
}

std::string label_of(const AttentionOptions& options) {
  return options.name + label_of(find_attention(options.name).settings, complete_settings(options));
}

void set_constant_gates(AttentionInputs& in, const Attention& attention, const Shape& positions,
                        double value, DType dtype, bool requires_grad) {
  const GateSpec& gate = attention.gate();
  if (gate.size == 0) return;
  const Shape shape{positions[0], positions[1], positions[2], gate.size};
  if (!gate.values.empty()) in.gate_form = GateForm::logit;
  std::vector<double> gates;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t head = i / (shape[2] * shape[3]) % shape[1];
    const auto at = static_cast<size_t>(head * gate.size + i % gate.size);
    const double bias = gate.initial_bias.empty() ? 0 : gate.initial_bias[at];
    gates.push_back(gate.values.empty() ? value : bias);
  }
  in.gate = Var(Tensor::from(gates, shape, dtype), requires_grad);
}

void write_values(const std::vector<double>& values, const Tensor& into) {
  std::vector<double> rounded;
  for (const double value : values) rounded.push_back(static_cast<float>(value));
  ops::copy_into(Tensor::from(rounded, into.shape(), into.dtype()), into);
}

}  // namespace linea
