// Trains a linear Transformer to repeat eight random digits, and lets it repeat eight more. Seconds
// on one core, also where other programs use it: restart_with_tuned_libraries. Output:
//
//   step   0  loss 2.395
//   step  50  loss 1.476
//   step 100  loss 0.008
//   step 150  loss 0.003
//   step 200  loss 0.002
//   after 3 1 4 1 5 9 2 6: 3 1 4 1 5 9 2 6
#include <cstdio>
#include <random>

#include <linea/nn/generation.h>
#include <linea/nn/optimizer.h>
#include <linea/nn/transformer.h>
#include <linea/tensor/tuned_libraries.h>

using linea::Tensor;

constexpr int kDigits = 8, kLength = 2 * kDigits + 1, kSeparator = 10, kNotScored = -1;

// One sequence: the inputs, and after each the token to predict, scored in the second copy alone.
void add_sequence(std::mt19937& random, std::vector<int>& inputs, std::vector<int>& targets) {
  std::vector<int> digits(kDigits);
  for (int& digit : digits) digit = static_cast<int>(random() % 10);
  inputs.push_back(kSeparator);
  inputs.insert(inputs.end(), digits.begin(), digits.end());
  inputs.push_back(kSeparator);
  inputs.insert(inputs.end(), digits.begin(), digits.end() - 1);
  targets.insert(targets.end(), kDigits + 1, kNotScored);
  targets.insert(targets.end(), digits.begin(), digits.end());
}

int main(int, char** argv) {
  linea::restart_with_tuned_libraries(argv);
  linea::ModelConfig config;
  config.layers = 2, config.heads = 4, config.dim = 64, config.ffn = 256;
  config.length = kLength, config.vocab_size = config.input_vocab_size = 11;
  linea::Transformer model(config);
  linea::Optimizer optimizer({.settings = {{"beta2", 0.999}}}, model.parameters());

  std::mt19937 random(1);
  constexpr int kBatch = 32;
  for (int step = 0; step <= 200; ++step) {
    std::vector<int> inputs, targets;
    for (int row = 0; row < kBatch; ++row) add_sequence(random, inputs, targets);
    const linea::Var outputs = model.forward(Tensor::from(inputs, {kBatch, kLength}), true);
    const linea::Var loss =
        model.output_head().loss(outputs, Tensor::from(targets, {kBatch, kLength}));
    linea::backward(loss);
    optimizer.step(3e-3);
    if (step % 50 == 0) std::printf("step %3d  loss %.3f\n", step, loss.value().item());
  }

  const std::vector<int> prompt = {kSeparator, 3, 1, 4, 1, 5, 9, 2, 6, kSeparator};
  std::printf("after 3 1 4 1 5 9 2 6:");
  const auto answers = linea::sample_tokens(model, {.greedy = true}, {prompt}, kDigits);
  for (const int token : answers[0]) std::printf(" %d", token);
  std::printf("\n");
}
