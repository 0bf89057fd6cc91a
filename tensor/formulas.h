// Scalar formulas, shared by all backends. They have no branches that would prevent vectorization.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/random.h"

namespace linea {

// The class of a sequence whose first token is `token`, `classes` for none.
LINEA_HOST_DEVICE inline int32_t class_row(int32_t token, int64_t first, int64_t classes) {
  const bool is_class = token >= first && token < first + classes;
  return static_cast<int32_t>(is_class ? token - first : classes);
}

template <typename To, typename From>
LINEA_HOST_DEVICE inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; exp(r) by its Taylor series to r^7,
// whose relative error there is below 1e-8; ln 2 split in two so that r is exact. Relative error
// measured over all floats: below 1.3e-7 where the result is normal; 0 below -104, infinite
// above 88.73, NaN for NaN.
struct ExpSplit {
  float series;  // e^r
  int32_t n;     // in its low bits
};
LINEA_HOST_DEVICE inline ExpSplit split_exp(float x) {
  const float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float series = 1.0f / 5040.0f;
  series = series * r + 1.0f / 720.0f;
  series = series * r + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  return {series * r * r + r + 1.0f, same_bits<int32_t>(shifted)};
}
LINEA_HOST_DEVICE inline float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const ExpSplit split = split_exp(x);
  // 2^n in two factors, so that results below the normal range and above the largest float come
  // out.
  const int32_t exponent = split.n - 0x4B400000;
  const int32_t half = exponent >> 1;
  const float scale1 = same_bits<float>((half + 127) << 23);
  const float scale2 = same_bits<float>((exponent - half + 127) << 23);
  return split.series * scale1 * scale2;
}
LINEA_HOST_DEVICE inline double exp_of(double x) { return std::exp(x); }

// e^x for x <= 0 in two thirds of the operations: 0 below the normal range, x < -87.33; undefined
// for x > 0.
LINEA_HOST_DEVICE inline float exp_below(float x) {
  const ExpSplit split = split_exp(x);
  const auto scale = static_cast<uint32_t>(split.n) * (1u << 23) + 0x3F800000u;  // the bits of 2^n
  return x < -87.33f ? 0.0f : split.series * same_bits<float>(scale);
}
LINEA_HOST_DEVICE inline double exp_below(double x) { return std::exp(x); }

// log(1 + t), 0 <= t <= 1: 2 atanh(s), s = t / (2 + t) <= 1/3, by its series to s^13, with a
// relative error below 2e-8. Accurate for tiny t.
LINEA_HOST_DEVICE inline float log1p_of(float t) {
  const float s = t / (2.0f + t), s2 = s * s;
  float series = 2.0f / 13.0f;
  series = series * s2 + 2.0f / 11.0f;
  series = series * s2 + 2.0f / 9.0f;
  series = series * s2 + 2.0f / 7.0f;
  series = series * s2 + 2.0f / 5.0f;
  series = series * s2 + 2.0f / 3.0f;
  return s * (series * s2 + 2.0f);
}
LINEA_HOST_DEVICE inline double log1p_of(double t) { return std::log1p(t); }

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), whose second term is that of -x, too.
template <typename T>
LINEA_HOST_DEVICE inline T softplus_tail(T x) {
  return log1p_of(exp_of(x > T(0) ? -x : x));
}
template <typename T>
LINEA_HOST_DEVICE inline T softplus(T x) {
  return (x > T(0) ? x : T(0)) + softplus_tail(x);
}

// Elementwise functions and their derivatives: those of Pointwise.
template <typename T>
struct Relu {
  LINEA_HOST_DEVICE static T value(T x) { return x > T(0) ? x : T(0); }
  LINEA_HOST_DEVICE static T grad(T x) { return x > T(0) ? T(1) : T(0); }
};

template <typename T>
struct Sigmoid {
  LINEA_HOST_DEVICE static T value(T x) { return T(1) / (T(1) + exp_of(-x)); }
  // s(x) s(-x): 1 - s(x) would lose all digits of s(-x) where s(x) is near 1.
  LINEA_HOST_DEVICE static T grad(T x) { return value(x) * value(-x); }
};

// gelu(x) = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function as S computes it: the
// tanh form of Hendrycks & Gimpel 2016, section 2.
template <typename T, typename S>
struct GeluBy {
  LINEA_HOST_DEVICE static T gate(T x) {
    return S::value(T(1.5957691216057308) * (x + T(0.044715) * x * x * x));
  }
  LINEA_HOST_DEVICE static T value(T x) { return x * gate(x); }
  LINEA_HOST_DEVICE static T grad(T x) { return derivative_at(x, gate(x)); }
  LINEA_HOST_DEVICE static T derivative_at(T x, T s) {
    return s + x * s * (T(1) - s) * T(1.5957691216057308) * (T(1) + T(3 * 0.044715) * x * x);
  }
};
template <typename T>
struct Gelu : GeluBy<T, Sigmoid<T>> {};

template <typename T>
struct Softplus {
  LINEA_HOST_DEVICE static T value(T x) { return softplus(x); }
  LINEA_HOST_DEVICE static T grad(T x) { return Sigmoid<T>::value(x); }
};

// silu(x) = x s(x), s the logistic function as S computes it; from s(x).   (Elfwing 2018)
template <typename T, typename S>
struct SiluBy {
  LINEA_HOST_DEVICE static T value(T x) { return value_at(x, S::value(x)); }
  LINEA_HOST_DEVICE static T grad(T x) { return derivative_at(x, S::value(x)); }
  LINEA_HOST_DEVICE static T value_at(T x, T s) { return x * s; }
  LINEA_HOST_DEVICE static T derivative_at(T x, T s) { return s + x * s * (T(1) - s); }
};
template <typename T>
struct Silu : SiluBy<T, Sigmoid<T>> {};

// The smallest number that is divided by: a reciprocal times a gradient up to 1000 is finite.
template <typename T>
inline constexpr T kMinDivisor = 256 * std::numeric_limits<T>::min();

// The least log of a decay: a state that decays by e^-100 is forgotten, and sums of logs over a
// chunk stay small.
inline constexpr double kMinLogDecay = -100;

// A gate g = s(x) from its logit x, in logs that neither round 1 - g to 0 nor g:
//   log g = -softplus(-x), at least kMinLogDecay      d log g / dx = s(-x), 0 at that bound
//   log(1 - g) = -softplus(x)                         d log(1 - g) / dx = -s(x)
template <typename T>
struct LogSigmoid {
  LINEA_HOST_DEVICE static T value(T x) {
    return x < T(kMinLogDecay) ? T(kMinLogDecay) : -softplus(-x);
  }
  LINEA_HOST_DEVICE static T grad(T x) {
    return x < T(kMinLogDecay) ? T(0) : Sigmoid<T>::value(-x);
  }
};
template <typename T>
struct LogOneMinusSigmoid {
  LINEA_HOST_DEVICE static T value(T x) { return -softplus(x); }
  LINEA_HOST_DEVICE static T grad(T x) { return -Sigmoid<T>::value(x); }
};

// log g of a gate g in [0, 1], at least kMinLogDecay. The derivative is 0 there, and below
// kMinDivisor. Where subnormal numbers count as 0 (base/subnormals.h), so does the bound of a float.
template <typename T>
struct LogGate {
  LINEA_HOST_DEVICE static T value(T x) { return x <= T(3.7e-44) ? T(kMinLogDecay) : std::log(x); }
  LINEA_HOST_DEVICE static T grad(T x) {
    return x < std::max(T(3.7e-44), kMinDivisor<T>) ? T(0) : T(1) / x;
  }
};

template <typename T>
struct Exp {
  LINEA_HOST_DEVICE static T value(T x) { return exp_of(x); }
  LINEA_HOST_DEVICE static T grad(T x) { return exp_of(x); }
};

// log(1 - x), x in [0, 1]. At 1 a key has no weight, and the derivative is 0.
template <typename T>
struct LogOneMinusGate {
  LINEA_HOST_DEVICE static T value(T x) { return std::log1p(-x); }
  LINEA_HOST_DEVICE static T grad(T x) { return x == T(1) ? T(0) : T(-1) / (T(1) - x); }
};

// phi(x) = x + 1 if x >= 0, exp(x) if x < 0: elu + 1, not computed as expm1(x) + 1, which loses all
// digits of a small result (Katharopoulos 2020, eq. 7).
template <typename T>
struct FeatureElu {
  LINEA_HOST_DEVICE static T value(T x) { return x < T(0) ? exp_below(x) : x + T(1); }
  LINEA_HOST_DEVICE static T grad(T x) { return x < T(0) ? exp_of(x) : T(1); }
  LINEA_HOST_DEVICE static T derivative_at(T phi) { return phi < T(1) ? phi : T(1); }
};

// phi(x) = max(x, 0) + 1e-3 (Choromanski 2021, generalized attention).
template <typename T>
struct FeatureRelu {
  LINEA_HOST_DEVICE static T value(T x) { return Relu<T>::value(x) + T(1e-3); }
  LINEA_HOST_DEVICE static T grad(T x) { return Relu<T>::grad(x); }
  LINEA_HOST_DEVICE static T derivative_at(T phi) { return phi > T(1e-3) ? T(1) : T(0); }
};

inline constexpr int64_t kLogistics = 10;  // components of a mixture
// One component then gives a central level of 256 a probability of at most 0.973.
inline constexpr double kMinLogScale = -7;

// A logistic distribution on the levels s = 0 .. last of a token: level s is at x_s = 2 s / last -
// 1 and its bin extends h = 1 / last to each side; the bins of the first and last level are
// unbounded. With the mean mu and the scale c = exp(max(log_scale, kMinLogScale)),
//   P(s) = sigma(b) - sigma(a) = sigma(b) sigma(-a) (1 - e^-w)
//   a = (x_s - h - mu) / c    b = (x_s + h - mu) / c    w = b - a = 2 h / c
// The first level has no factor sigma(-a), the last one no sigma(b), and both no (1 - e^-w). In
// logs these are sums, without overflow, underflow or cancellation. Source: Salimans 2017
// (PixelCNN++), section 2.1.
template <typename T>
struct Logistic {
  T mean, rate;         // mu, 1 / c
  T width, log_inside;  // w, log(1 - e^-w)
  T last;               // level
  bool clamped;         // log_scale is below its bound: no gradient

  LINEA_HOST_DEVICE static Logistic of(T mean, T log_scale, T last) {
    const bool bound = log_scale < T(kMinLogScale);
    const T log_c = bound ? T(kMinLogScale) : log_scale;
    const T rate = std::exp(-log_c), width = T(2) / last * rate;
    // log w - w / 2 where w may be rounded to 0
    const T inside = width < T(1e-7) ? std::log(T(2) / last) - log_c - width / T(2)
                                     : std::log(-std::expm1(-width));
    return {mean, rate, width, inside, last, bound};
  }

  LINEA_HOST_DEVICE T a(T s) const { return ((T(2) * s - T(1)) / last - T(1) - mean) * rate; }
  LINEA_HOST_DEVICE T b(T s) const { return ((T(2) * s + T(1)) / last - T(1) - mean) * rate; }

  LINEA_HOST_DEVICE T log_mass(T s) const {
    return log_mass(s, softplus_tail(a(s)), softplus_tail(b(s)));
  }
  // From the softplus_tail() of a and b; b(s) is a(s + 1), to the bit.
  LINEA_HOST_DEVICE T log_mass(T s, T tail_of_a, T tail_of_b) const {
    const T below = s > T(0) ? Relu<T>::value(a(s)) + tail_of_a : T(0),
            above = s < last ? Relu<T>::value(-b(s)) + tail_of_b : T(0);
    const T inside = s > T(0) && s < last ? log_inside : T(0);
    return inside - below - above;
  }

  // d log P / dmu = (sigma(a) - sigma(-b)) / c
  // d log P / dlog_scale = a sigma(a) - b sigma(-b) - w / (e^w - 1)
  LINEA_HOST_DEVICE void grads(T s, T& dmean, T& dlog_scale) const {
    const T below = s > T(0) ? Sigmoid<T>::value(a(s)) : T(0),
            above = s < last ? Sigmoid<T>::value(-b(s)) : T(0);
    const T inside =
        s > T(0) && s < last ? (width < T(1e-7) ? T(1) : width / std::expm1(width)) : T(0);
    dmean = (below - above) * rate;
    dlog_scale = clamped ? T(0) : a(s) * below - b(s) * above - inside;
  }
};

// Features that attention kernels compute from rows of q and k in cache. derivative_at(phi(x)) is
// phi'(x): exp is evaluated once.
enum class KernelFeature : uint8_t { given, elu, relu };

template <typename T>
struct FeatureGiven {
  LINEA_HOST_DEVICE static T value(T x) { return x; }
  LINEA_HOST_DEVICE static T derivative_at(T) { return T(1); }
};

// Calls body(F<T>{}) with the struct F of `which`, an enumerator of Last's enumeration, whose structs
// are given in its order.
template <typename T, auto Last, template <typename> typename... F, typename Body>
void with_formula(decltype(Last) which, const Body& body) {
  static_assert(static_cast<size_t>(Last) + 1 == sizeof...(F));
  size_t index = 0;
  ((index++ == static_cast<size_t>(which) ? body(F<T>{}) : void()), ...);
}

template <typename T, typename Body>
void with_feature(KernelFeature feature, const Body& body) {
  with_formula<T, KernelFeature::relu, FeatureGiven, FeatureElu, FeatureRelu>(feature, body);
}

enum class Pointwise : uint8_t {
  relu,
  gelu,
  sigmoid,
  log_sigmoid,
  log_one_minus_sigmoid,
  log_gate,
  log_one_minus_gate,
  exp,
  softplus,
  silu,
  feature_elu,
  feature_relu
};

template <typename T, typename Body>
void with_pointwise(Pointwise function, const Body& body) {
  with_formula<T, Pointwise::feature_relu, Relu, Gelu, Sigmoid, LogSigmoid, LogOneMinusSigmoid,
               LogGate, LogOneMinusGate, Exp, Softplus, Silu, FeatureElu, FeatureRelu>(function,
                                                                                       body);
}

// Dropout keeps an element where its random number is at least the rate.
LINEA_HOST_DEVICE inline bool keeps(uint32_t word, float rate) {
  return word_to_uniform(word) >= rate;
}

template <typename T>
inline constexpr T kNothing = -std::numeric_limits<T>::infinity();  // the log of 0

// exp(log - reference), where `log` may be the log of 0.
template <typename T>
LINEA_HOST_DEVICE inline T factor(T log, T reference) {
  return log == kNothing<T> ? T(0) : exp_of(log - reference);
}

// Below this a denominator of linear attention may have lost relevant terms; its row is summed
// again by logs.
template <typename T>
inline constexpr T kMinTrustedDenominator = sizeof(T) == 4 ? T(1e-25) : T(1e-200);

inline constexpr double kLayerNormEpsilon = 1e-5, kGatedNormEpsilon = 1e-6;

// 1 / d, or 0 where |d| is below kMinDivisor: a row without weight has the output 0 and no gradient.
template <typename T>
LINEA_HOST_DEVICE inline T reciprocal_or_zero(T d) {
  return std::abs(d) < kMinDivisor<T> ? T(0) : T(1) / d;
}

}  // namespace linea
