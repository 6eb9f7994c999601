// SPDX-License-Identifier: Apache-2.0
#pragma once

// Drawn numbers and their rounding, in arithmetic that gives the same bits on every host and GPU:
// integers, and correctly rounded operations of f64 that nothing may fuse. verifier/random.cc,
// core/dtype.cc and the kernels in device/kernels/draw.h are made of it, so this file includes
// nothing. Who includes it is compiled without contraction (-ffp-contract=off, -fmad=false) and
// may define, before, FETTLE_DRAW (what stands before each function) and FETTLE_SQRT.

#ifndef FETTLE_DRAW
#define FETTLE_DRAW [[gnu::always_inline]] inline
#define FETTLE_SQRT(x) __builtin_sqrt(x)
#endif

namespace fettle::draw {

using Bits = unsigned long long;

FETTLE_DRAW Bits BitsOf(double x) { return __builtin_bit_cast(Bits, x); }
FETTLE_DRAW double FromBits(Bits x) { return __builtin_bit_cast(double, x); }

FETTLE_DRAW Bits Mix(Bits x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

constexpr Bits kGolden = 0x9E3779B97F4A7C15ull;

// A stream of random bits begins with StreamOf(seed); StreamBits is its entry `index`.
FETTLE_DRAW Bits StreamOf(Bits seed) { return Mix(seed + kGolden); }
FETTLE_DRAW Bits StreamBits(Bits stream, Bits index) { return Mix(stream + (index + 1) * kGolden); }

// In (0, 1), never an end point. The 52 bits become an integer of f64 without a conversion, which
// vector units lack.
FETTLE_DRAW double UnitOf(Bits bits) {
  return (FromBits(bits >> 12 | 0x4330000000000000ull) - 0x1p52 + 0.5) * 0x1p-52;
}

// The natural logarithm, within a few ulp; x > 0 and normal.
FETTLE_DRAW double Log(double x) {
  const Bits bits = BitsOf(x);
  double m = FromBits((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  // The biased exponent as an f64, exactly.
  double exponent = FromBits(bits >> 52 | 0x4330000000000000ull) - 0x1p52 - 1023;
  const bool large = m > 1.4142135623730951;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1 : exponent;
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 0;  // 2 atanh(s) / s - 2, |s| < 0.172
  series = (series + 2.0 / 23) * z;
  series = (series + 2.0 / 21) * z;
  series = (series + 2.0 / 19) * z;
  series = (series + 2.0 / 17) * z;
  series = (series + 2.0 / 15) * z;
  series = (series + 2.0 / 13) * z;
  series = (series + 2.0 / 11) * z;
  series = (series + 2.0 / 9) * z;
  series = (series + 2.0 / 7) * z;
  series = (series + 2.0 / 5) * z;
  series = (series + 2.0 / 3) * z;
  return exponent * 0.6931471805599453 + (2 * s + s * series);
}

FETTLE_DRAW double Horner8(double a, double b, double c, double d, double e, double f, double g,
                           double h, double x) {
  return ((((((a * x + b) * x + c) * x + d) * x + e) * x + f) * x + g) * x + h;
}

// The normal quantile of `p` in (0, 1), to about 1e-16: Wichura's AS 241 (PPND16), in three parts.
// p - 1/2 within 0.425:
FETTLE_DRAW double NormalCentre(double q) {
  const double r = 0.180625 - q * q;
  return q *
         Horner8(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                 4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                 1.3314166789178437745e2, 3.3871328727963666080e0, r) /
         Horner8(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
                 2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
                 4.2313330701600911252e1, 1.0, r);
}

// Further out, at sqrt(-log(p)) of the smaller side: up to 5 ...
FETTLE_DRAW double NormalTail(double root) {
  const double r = root - 1.6;
  return Horner8(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                 1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
                 4.63033784615654529590e0, 1.42343711074968357734e0, r) /
         Horner8(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
                 1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
                 2.05319162663775882187e0, 1.0, r);
}

// ... and beyond (p below 1.4e-11).
FETTLE_DRAW double NormalFarTail(double root) {
  const double r = root - 5;
  return Horner8(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                 2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
                 5.46378491116411436990e0, 6.65790464350110377720e0, r) /
         Horner8(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
                 7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
                 5.99832206555887937690e-1, 1.0, r);
}

FETTLE_DRAW double NormalOf(double p) {
  const double q = p - 0.5;
  if ((q < 0 ? -q : q) <= 0.425) return NormalCentre(q);
  const double root = FETTLE_SQRT(-Log(q < 0 ? p : 1 - p));
  const double value = root <= 5 ? NormalTail(root) : NormalFarTail(root);
  return q < 0 ? -value : value;
}

// The bits of the nearest value of a format with an IEEE layout of at most 16 bits, ties to even;
// infinity where it is too large. NaN is not rounded: ask before. `bias` is that of the exponent.
FETTLE_DRAW unsigned RoundSmall(double value, int mantissa_bits, int bias) {
  const Bits bits = BitsOf(value);
  const Bits magnitude = bits & 0x7FFFFFFFFFFFFFFFull;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const unsigned sign = static_cast<unsigned>(bits >> 63) << 15;
  const unsigned infinity = (2u * static_cast<unsigned>(bias) + 1) << mantissa_bits;
  int shift = 52 - mantissa_bits;
  Bits digits = 0, base = 0;
  if (exponent >= 1 - bias) {
    digits = magnitude;  // Exponent and all: a carry into it is right.
    base = static_cast<Bits>(1023 - bias) << mantissa_bits;
  } else {  // Subnormal there; what is subnormal here is zero there.
    digits = (magnitude & 0x000FFFFFFFFFFFFFull) | 0x0010000000000000ull;
    shift += 1 - bias - exponent;
    if (shift > 54) return sign;
  }
  const Bits half = (Bits{1} << (shift - 1)) - 1 + ((digits >> shift) & 1);
  const Bits rounded = ((digits + half) >> shift) - base;
  return sign | (rounded > infinity ? infinity : static_cast<unsigned>(rounded));
}

}  // namespace fettle::draw
