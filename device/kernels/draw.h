// The body of fettle_draw (device/gpu_kernels.h), for both vendors. FETTLE_DRAW, FETTLE_SQRT,
// FETTLE_BLOCK_INDEX and FETTLE_THREAD_INDEX are defined before it, and core/draw.h is included.

namespace fettle::draw {

// The formats that it writes, by number.
enum Format { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kBool };
enum Kind { kConstant, kNormal, kUniform, kBelow };

FETTLE_DRAW void Put(unsigned char* to, Bits index, int format, double value) {
  switch (format) {
    case kF64:
      reinterpret_cast<double*>(to)[index] = value;
      break;
    case kF32:
      reinterpret_cast<float*>(to)[index] = static_cast<float>(value);
      break;
    default:
      reinterpret_cast<unsigned short*>(to)[index] = static_cast<unsigned short>(
          format == kF16 ? RoundSmall(value, 10, 15) : RoundSmall(value, 7, 127));
  }
}

FETTLE_DRAW void PutInteger(unsigned char* to, Bits index, int format, long long value) {
  switch (format) {
    case kI64:
      reinterpret_cast<long long*>(to)[index] = value;
      break;
    case kI32:
      reinterpret_cast<int*>(to)[index] = static_cast<int>(value);
      break;
    case kI16:
      reinterpret_cast<short*>(to)[index] = static_cast<short>(value);
      break;
    default:
      to[index] = format == kBool ? value != 0 : static_cast<unsigned char>(value);
  }
}

}  // namespace fettle::draw

extern "C" __global__ void fettle_draw(unsigned char* to, unsigned long long count,
                                       unsigned long long format, unsigned long long kind,
                                       unsigned long long a_bits, unsigned long long b_bits,
                                       unsigned long long low, unsigned long long span,
                                       unsigned long long seed, unsigned long long blocks) {
  using namespace fettle::draw;
  const Bits stream = StreamOf(seed);
  const double a = FromBits(a_bits), b = FromBits(b_bits);
  for (Bits i = FETTLE_BLOCK_INDEX * 256ull + FETTLE_THREAD_INDEX; i < count; i += blocks * 256) {
    const Bits bits = StreamBits(stream, i);
    if (kind == kBelow) {
      const auto drawn = static_cast<Bits>(static_cast<unsigned __int128>(bits) * span >> 64);
      PutInteger(to, i, static_cast<int>(format), static_cast<long long>(low + drawn));
      continue;
    }
    double value = a;
    if (kind == kNormal) value = a + b * NormalOf(UnitOf(bits));
    if (kind == kUniform) value = a + b * UnitOf(bits);
    Put(to, i, static_cast<int>(format), value);
  }
}
