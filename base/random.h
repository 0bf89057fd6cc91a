// Counter-based random numbers: each is a pure function of (seed, purpose, stream id, step, index),
// the same on every device and at any number of threads, so that resuming needs no hidden state.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox 4x32-10).
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LINEA_HOST_DEVICE __host__ __device__
#else
#define LINEA_HOST_DEVICE
#endif

namespace linea {

// The purpose of a stream; streams of different purposes never share numbers.
enum class Purpose : uint32_t {
  init = 1,
  shuffle,
  dropout,
  sample,
  task,
  features,
  test,
  gates,
  pattern,
  hash,
  cluster,
  probe,
  sorting
};

// stream_id distinguishes streams of one purpose (a layer, a parameter, a head); `step` is the
// training step or the sampled position.
struct RandomStream {
  uint64_t seed = 0;
  Purpose purpose = Purpose::test;
  uint32_t stream_id = 0;
  uint64_t step = 0;
};

struct RandomWords {
  uint32_t word[4];
};

LINEA_HOST_DEVICE inline RandomWords philox(uint64_t key, RandomWords counter) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The four 32-bit words at `index` of a stream. The counter consists of 64 bits of index, 40 of
// step, 16 of stream id and 8 of purpose.
LINEA_HOST_DEVICE inline RandomWords random_words(const RandomStream& stream, uint64_t index) {
  const uint32_t low_step = static_cast<uint32_t>(stream.step);
  const uint32_t tag = (static_cast<uint32_t>(stream.purpose) << 24) |
                       ((stream.stream_id & 0xFFFFu) << 8) |
                       static_cast<uint32_t>((stream.step >> 32) & 0xFFu);
  return philox(stream.seed, {{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               low_step, tag}});
}

// Uniform in the open interval (0, 1), 23 bits: exact in float.
LINEA_HOST_DEVICE inline float word_to_uniform(uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

// One word for each index, four indices to a Philox block.
LINEA_HOST_DEVICE inline uint32_t random_word(const RandomStream& stream, uint64_t index) {
  return random_words(stream, index / 4).word[index % 4];
}

LINEA_HOST_DEVICE inline float random_uniform(const RandomStream& stream, uint64_t index) {
  return word_to_uniform(random_word(stream, index));
}

// Standard normal by Box-Muller on 53 + 32 random bits: r = sqrt(-2 log u), z = r cos(2 pi w).
LINEA_HOST_DEVICE inline double random_normal(const RandomStream& stream, uint64_t index) {
  const RandomWords words = random_words(stream, index);
  const uint64_t high = (uint64_t{words.word[0]} << 21) ^ (words.word[1] >> 11);
  const double u = (static_cast<double>(high) + 0.5) * (1.0 / 9007199254740992.0);
  const double w = static_cast<double>(words.word[2]) * (1.0 / 4294967296.0);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * w);
}

// Uniform integer in [0, count), count >= 1, by multiplication (bias below count / 2^32).
LINEA_HOST_DEVICE inline uint32_t random_below(const RandomStream& stream, uint64_t index,
                                               uint32_t count) {
  return static_cast<uint32_t>((uint64_t{random_word(stream, index)} * count) >> 32);
}

// The image of `index` under a random permutation of [0, count): a balanced Feistel network over
// the next even power of two, iterated until the result is below count. Nothing is stored.
LINEA_HOST_DEVICE inline uint64_t random_permutation(const RandomStream& stream, uint64_t count,
                                                     uint64_t index) {
  int half_bits = 1;
  while ((uint64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  do {
    uint64_t left = index >> half_bits, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (random_words(stream, (round << 40) ^ right).word[0] & mask);
      left = right;
      right = mixed;
    }
    index = (left << half_bits) | right;
  } while (index >= count);
  return index;
}

}  // namespace linea
