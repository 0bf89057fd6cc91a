// Prints the scores that a saved model gives, for tools/check_linea_model.py: MODEL TOKEN...
// -> one line for each position.
#include <cstdio>
#include <cstdlib>

#include "nn/output_head.h"
#include "train/run/checkpoint.h"

int main(int argc, char** argv) try {
  const linea::NoGrad no_grad;
  const linea::SavedModel saved = linea::load_model(argv[1]);
  std::vector<int32_t> tokens;
  for (int i = 2; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  const auto count = static_cast<int64_t>(tokens.size());
  const linea::Tensor ids =
      linea::token_tensor(tokens, {1, count}, saved.model->config().input_vocab_size);
  const linea::Tensor outputs = saved.model->forward(ids, false).value();
  const linea::Tensor scores =
      saved.model->output_head().scores(outputs.reshape({count, outputs.size(-1)}));
  const std::vector<double> values = scores.to_doubles();
  const auto columns = static_cast<size_t>(scores.size(-1));
  for (size_t i = 0; i < values.size(); ++i)
    std::printf("%.9g%c", values[i], (i + 1) % columns == 0 ? '\n' : ' ');
  return 0;
} catch (const linea::Error& error) {
  std::fprintf(stderr, "model_scores: %s\n", error.what());
  return error.exit_code();
}
