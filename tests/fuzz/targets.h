// Every fuzz target: one reader each, in fuzz_NAME.cpp, with the signature that libFuzzer calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace linea::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

int fuzz_cifar10(const uint8_t* data, size_t size);
int fuzz_idx(const uint8_t* data, size_t size);
int fuzz_jpeg(const uint8_t* data, size_t size);
int fuzz_manifest(const uint8_t* data, size_t size);
int fuzz_metrics(const uint8_t* data, size_t size);
int fuzz_model(const uint8_t* data, size_t size);
int fuzz_optimizer(const uint8_t* data, size_t size);
int fuzz_png(const uint8_t* data, size_t size);
int fuzz_safetensors(const uint8_t* data, size_t size);
int fuzz_safetensors_header(const uint8_t* data, size_t size);
int fuzz_state(const uint8_t* data, size_t size);
int fuzz_tar(const uint8_t* data, size_t size);
int fuzz_text(const uint8_t* data, size_t size);
int fuzz_toml(const uint8_t* data, size_t size);
int fuzz_vocabulary(const uint8_t* data, size_t size);
int fuzz_zip(const uint8_t* data, size_t size);

// The name is that of the folder of its seeds in tests/fuzz/corpus/.
struct NamedTarget {
  const char* name;
  Target run;
};

inline constexpr NamedTarget kTargets[] = {
    {"cifar10", fuzz_cifar10},
    {"idx", fuzz_idx},
    {"jpeg", fuzz_jpeg},
    {"manifest", fuzz_manifest},
    {"metrics", fuzz_metrics},
    {"model", fuzz_model},
    {"optimizer", fuzz_optimizer},
    {"png", fuzz_png},
    {"safetensors", fuzz_safetensors},
    {"safetensors_header", fuzz_safetensors_header},
    {"state", fuzz_state},
    {"tar", fuzz_tar},
    {"text", fuzz_text},
    {"toml", fuzz_toml},
    {"vocabulary", fuzz_vocabulary},
    {"zip", fuzz_zip},
};

}  // namespace linea::fuzz
