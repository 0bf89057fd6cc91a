// Samples as a person sees them: a grid of pictures, or text.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "nn/generator.h"
#include "train/checkpoint.h"

namespace linea {

struct PictureRequest {
  int64_t count = 64;
  int64_t class_label = -1;  // -1: each class in turn
};

// Draws pictures and writes their grid as a PNG; returns a preview for a terminal of this width.
// Errors: the model draws no pictures, a class that it does not have.
std::string draw_pictures(const Transformer& model, const TaskShape& shape, const SamplingOptions& options,
                          const PictureRequest& request, const std::filesystem::path& png,
                          int64_t preview_width,
                          const std::function<void(int64_t, int64_t)>& progress = {});

// Draws `tokens` symbols after the prompt; `print` gets each piece of text as it is drawn. Error: a prompt
// symbol outside the vocabulary.
void draw_text(const Transformer& model, const std::string& vocabulary, const SamplingOptions& options,
               const std::string& prompt, int64_t tokens,
               const std::function<void(const std::string&)>& print);

}  // namespace linea
