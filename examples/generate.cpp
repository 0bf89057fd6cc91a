// Loads a run of `linea train` and generates from it: text after a prompt, or a grid of images.
//
//   generate demo/run digits.png       16 images
//   generate runs/text "ROMEO:"        300 tokens after the prompt
//
// restart_with_tuned_libraries keeps it fast on cores that other programs use too:
// tensor/tuned_libraries.h.
#include <cstdio>

#include <linea/tensor/tuned_libraries.h>
#include <linea/train/run/checkpoint.h>
#include <linea/train/samples.h>

int main(int argc, char** argv) {
  linea::restart_with_tuned_libraries(argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate RUN PROMPT|IMAGE.png\n");
    return 2;
  }
  try {
    const linea::SavedModel run = linea::load_model(argv[1]);
    const linea::SamplingOptions options{.temperature = 0.8, .seed = 1};
    if (run.shape.side > 0) {
      const linea::ImageRequest request{.count = 16};
      linea::sample_images(*run.model, run.shape, options, request, argv[2], /*preview_width=*/0);
    } else {
      linea::sample_text(*run.model, run.vocabulary, options, {.prompt = argv[2], .tokens = 300},
                         [](const std::string& text) { std::fputs(text.c_str(), stdout); });
    }
  } catch (const linea::Error& error) {
    std::fprintf(stderr, "generate: %s\n", error.what());
    return error.exit_code();
  }
}
