// SPDX-License-Identifier: Apache-2.0

// Correct kernels compute the right values in every build, warp width and schedule, and the checker
// has nothing against them.

#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/cpu_harness.h"

namespace fettle {
namespace {

using Floats = std::vector<float>;

Floats Random(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats out(count);
  for (float& v : out) v = uniform(engine);
  return out;
}

std::uint16_t HalfOf(float f) {  // Of values that a half holds exactly, or nearly.
  const _Float16 h = static_cast<_Float16>(f);
  std::uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}
float OfHalf(std::uint16_t bits) {
  _Float16 h;
  std::memcpy(&h, &bits, 2);
  return static_cast<float>(h);
}
std::vector<std::uint16_t> Halves(const Floats& values) {
  std::vector<std::uint16_t> out;
  for (float v : values) out.push_back(HalfOf(v));
  return out;
}

// A kernel, how to call it, and what it must leave behind.
struct KernelCase {
  std::string file, entry;
  LaunchConfig config;
  std::function<std::vector<CpuArgument>()> arguments;
  std::function<void(const std::vector<CpuArgument>&)> verify;
};

void ExpectNear(const Floats& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
  }
}

LaunchConfig Config(std::int64_t grid, std::int64_t block, std::int64_t shared = 0) {
  return {.grid = {grid, 1, 1}, .block = {block, 1, 1}, .shared_bytes = shared};
}

KernelCase Saxpy(const std::string& name) {
  const Floats x = Random(1000, 1), y = Random(1000, 2);
  return {"kernels/" + name + ".cu", name, Config(name == "saxpy" ? 8 : 3, 128),
          [=] {
            return std::vector{Scalar(2.5f), In("x", x), InOut("y", y), Scalar(1000)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want;
            for (std::size_t i = 0; i < x.size(); ++i) want.push_back(2.5 * x[i] + y[i]);
            ExpectNear(ValuesOf<float>(a[2]), want, 1e-6);
          }};
}

KernelCase Poly() {
  const Floats x = Random(300, 3);
  return {"kernels/poly.cu", "poly", Config(3, 128),
          [=] {
            return std::vector{In("x", x), Out<float>("y", 300), Scalar(300)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want;
            for (double v : x) {
              for (int k = 0; k < 64; ++k) v = v * 0.999 + 0.001;
              want.push_back(v);
            }
            ExpectNear(ValuesOf<float>(a[1]), want, 1e-4);
          }};
}

KernelCase Gelu() {
  const Floats x = Random(514, 4);
  return {"kernels/gelu_half.cu", "gelu_half", Config(3, 128),
          [=] {
            return std::vector{In("x", Halves(x)), Out<std::uint16_t>("y", 514), Scalar(257)};
          },
          [=](const std::vector<CpuArgument>& a) {
            Floats got;
            for (std::uint16_t bits : ValuesOf<std::uint16_t>(a[1])) got.push_back(OfHalf(bits));
            std::vector<double> want;
            for (std::uint16_t bits : Halves(x)) {
              const double v = OfHalf(bits);
              want.push_back(0.5 * v * (1 + std::tanh(0.79788456 * (v + 0.044715 * v * v * v))));
            }
            ExpectNear(got, want, 1e-3);
          }};
}

KernelCase Histogram() {
  std::vector<std::uint8_t> data(5000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * i % 251);
  return {"kernels/histogram.cu", "histogram", Config(4, 192),
          [=] {
            return std::vector{In("data", data), InOut("hist", std::vector<unsigned>(256, 0)),
                               Scalar(5000)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<unsigned> want(256, 0);
            for (std::uint8_t byte : data) ++want[byte];
            EXPECT_EQ(ValuesOf<unsigned>(a[1]), want);
          }};
}

std::vector<double> LayerNorm(const Floats& x, const Floats& gamma, const Floats& beta,
                              std::size_t d) {
  std::vector<double> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < d; ++i) {
      sum += x[row + i];
      square += double{x[row + i]} * x[row + i];
    }
    const double mean = sum / double(d),
                 scale = 1 / std::sqrt(square / double(d) - mean * mean + 1e-5);
    for (std::size_t i = 0; i < d; ++i) {
      out[row + i] = (x[row + i] - mean) * scale * gamma[i] + beta[i];
    }
  }
  return out;
}

KernelCase LayerNormCase() {
  const Floats x = Random(5 * 260, 5), gamma = Random(260, 6), beta = Random(260, 7);
  return {"kernels/layernorm.cu", "layernorm", Config(5, 128),
          [=] {
            return std::vector{In("x", x),       In("gamma", gamma),
                               In("beta", beta), Out<float>("y", x.size()),
                               Scalar(260),      Scalar(1e-5f)};
          },
          [=](const std::vector<CpuArgument>& a) {
            ExpectNear(ValuesOf<float>(a[3]), LayerNorm(x, gamma, beta, 260), 1e-4);
          }};
}

KernelCase MatMul() {
  constexpr std::size_t m = 33, n = 20, k = 27;
  const Floats a = Random(m * k, 8), b = Random(k * n, 9);
  return {"kernels/matmul.cu",
          "matmul",
          {.grid = {2, 3, 1}, .block = {16, 16, 1}},
          [=] {
            return std::vector{In("a", a),
                               In("b", b),
                               Out<float>("c", m * n),
                               Scalar(static_cast<int>(m)),
                               Scalar(static_cast<int>(n)),
                               Scalar(static_cast<int>(k))};
          },
          [=](const std::vector<CpuArgument>& arguments) {
            std::vector<double> want(m * n, 0);
            for (std::size_t i = 0; i < m; ++i) {
              for (std::size_t j = 0; j < n; ++j) {
                for (std::size_t t = 0; t < k; ++t) {
                  want[i * n + j] += double{a[i * k + t]} * b[t * n + j];
                }
              }
            }
            ExpectNear(ValuesOf<float>(arguments[2]), want, 1e-5);
          }};
}

KernelCase Reduce() {
  Floats x(3001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2;
  return {"kernels/reduce.cu", "reduce", Config(3, 256),
          [=] {
            return std::vector{In("x", x), InOut("out", Floats{0}), Scalar(3001)};
          },
          [=](const std::vector<CpuArgument>& a) {
            EXPECT_EQ(ValuesOf<float>(a[1])[0], std::accumulate(x.begin(), x.end(), 0.f));
          }};
}

KernelCase Softmax() {
  const Floats x = Random(4 * 100, 10);
  return {"kernels/softmax.cu", "softmax", Config(4, 64, 64 * 4),
          [=] {
            return std::vector{In("x", x), Out<float>("y", x.size()), Scalar(100)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want(x.size());
            for (std::size_t row = 0; row < x.size(); row += 100) {
              double sum = 0;
              for (std::size_t i = 0; i < 100; ++i) sum += std::exp(double{x[row + i]});
              for (std::size_t i = 0; i < 100; ++i)
                want[row + i] = std::exp(double{x[row + i]}) / sum;
            }
            ExpectNear(ValuesOf<float>(a[1]), want, 1e-5);
          }};
}

KernelCase Scan() {
  std::vector<int> in(500);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i % 5) - 1;
  return {"kernels/scan_cg.cu", "scan_cg", Config(4, 128),
          [=] {
            return std::vector{In("in", in), Out<int>("out", in.size()), Scalar(500)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<int> want(in.size());
            for (std::size_t i = 0; i < in.size(); ++i) {
              want[i] = in[i] + (i % 128 == 0 ? 0 : want[i - 1]);
            }
            EXPECT_EQ(ValuesOf<int>(a[1]), want);
          }};
}

KernelCase Transpose() {
  std::vector<std::uint16_t> in(37 * 21);
  std::iota(in.begin(), in.end(), std::uint16_t{0});
  return {"kernels/transpose.cu",
          "transpose<unsigned short, 16>",
          {.grid = {3, 2, 1}, .block = {16, 4, 1}},
          [=] {
            return std::vector{In("in", in), Out<std::uint16_t>("out", in.size()), Scalar(37),
                               Scalar(21)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<std::uint16_t> want(in.size());
            for (std::size_t y = 0; y < 21; ++y) {
              for (std::size_t x = 0; x < 37; ++x) want[x * 21 + y] = in[y * 37 + x];
            }
            EXPECT_EQ(ValuesOf<std::uint16_t>(a[1]), want);
          }};
}

KernelCase AtomicsMix() {
  const Floats x = Random(600, 11);
  return {"tricky/atomics_mix.cu", "atomics_mix", Config(5, 128),
          [=] {
            return std::vector{In("x", x), InOut("mx", std::vector<int>{-100000, 0}),
                               InOut("bits", std::vector<unsigned>{0}),
                               InOut("sum", std::vector<double>{0}), Scalar(600)};
          },
          [=](const std::vector<CpuArgument>& a) {
            int most = -100000;
            double sum = 0;
            for (float v : x) {
              most = std::max(most, static_cast<int>(v * 1000.f));
              sum += v;
            }
            EXPECT_EQ(ValuesOf<int>(a[1]), (std::vector<int>{most, 600}));
            EXPECT_EQ(ValuesOf<unsigned>(a[2])[0], 0xffffffffu);
            EXPECT_NEAR(ValuesOf<double>(a[3])[0], sum, 1e-9);
          }};
}

KernelCase Bitonic() {
  std::vector<int> in(2 * 128);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * 7919 % 1009);
  return {"tricky/bitonic.cu", "bitonic", Config(2, 128, 128 * 4),
          [=] {
            return std::vector{In("in", in), Out<int>("out", in.size()), Scalar(256)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<int> want = in;
            std::sort(want.begin(), want.begin() + 128);
            std::sort(want.begin() + 128, want.end());
            EXPECT_EQ(ValuesOf<int>(a[1]), want);
          }};
}

KernelCase DynamicParts() {
  Floats x(128);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 9) + 1;
  return {"tricky/dynparts.cu", "dynparts", Config(2, 64, 64 * 8),
          [=] {
            return std::vector{In("x", x), Out<float>("y", 128), Scalar(128)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want;
            for (std::size_t i = 0; i < 128; ++i) {
              const std::size_t block = i / 64 * 64;
              double total = 0;
              for (std::size_t k = 0; k < 64; ++k) total += x[block + k * 7 % 64];
              want.push_back(x[i] / total);
            }
            ExpectNear(ValuesOf<float>(a[1]), want, 1e-6);
          }};
}

KernelCase Flash() {
  constexpr std::size_t n = 64, d = 32;
  const Floats q = Random(n * d, 12), k = Random(n * d, 13), v = Random(n * d, 14);
  return {"tricky/flash.cu",
          "flash",
          {.grid = {2, 1, 1}, .block = {32, 8, 1}},
          [=] {
            return std::vector{In("q", q),
                               In("k", k),
                               In("v", v),
                               Out<float>("o", n * d),
                               Scalar(static_cast<int>(n)),
                               Scalar(0.25f)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want(n * d, 0);
            for (std::size_t i = 0; i < n; ++i) {
              std::vector<double> weight(n);
              double total = 0;
              for (std::size_t j = 0; j < n; ++j) {
                double dot = 0;
                for (std::size_t t = 0; t < d; ++t) dot += double{q[i * d + t]} * k[j * d + t];
                total += weight[j] = std::exp(dot * 0.25);
              }
              for (std::size_t j = 0; j < n; ++j) {
                for (std::size_t t = 0; t < d; ++t) {
                  want[i * d + t] += weight[j] / total * v[j * d + t];
                }
              }
            }
            ExpectNear(ValuesOf<float>(a[3]), want, 1e-4);
          }};
}

struct Parameters {
  float s;
  int k[3];
};

KernelCase LocalPointers() {
  const Floats x = Random(100, 15);
  return {"tricky/localptr.cu", "localptr", Config(1, 128),
          [=] {
            return std::vector{In("x", x), Out<float>("y", 100), Scalar(Parameters{2.f, {1, 3, 5}}),
                               Scalar(100)};
          },
          [=](const std::vector<CpuArgument>& a) {
            std::vector<double> want;
            for (float v : x) want.push_back(v * 1.875 * 2 + 4 * 3);
            ExpectNear(ValuesOf<float>(a[1]), want, 1e-6);
          }};
}

KernelCase RmsNorm() {
  constexpr std::size_t d = 256;
  const Floats x = Random(3 * d, 16), w = Random(d, 17);
  return {"tricky/rms_vec.cu", "rms_vec", Config(3, 64),
          [=] {
            return std::vector{In("x", Halves(x)), In("w", Halves(w)),
                               Out<std::uint16_t>("y", x.size()), Scalar(static_cast<int>(d)),
                               Scalar(1e-5f)};
          },
          [=](const std::vector<CpuArgument>& a) {
            Floats got;
            for (std::uint16_t bits : ValuesOf<std::uint16_t>(a[2])) got.push_back(OfHalf(bits));
            const auto hx = Halves(x), hw = Halves(w);
            std::vector<double> want(x.size());
            for (std::size_t row = 0; row < x.size(); row += d) {
              double square = 0;
              for (std::size_t i = 0; i < d; ++i) square += std::pow(OfHalf(hx[row + i]), 2);
              for (std::size_t i = 0; i < d; ++i) {
                want[row + i] = OfHalf(hx[row + i]) / std::sqrt(square / d + 1e-5) * OfHalf(hw[i]);
              }
            }
            ExpectNear(got, want, 2e-3);
          }};
}

KernelCase SpinLock() {
  Floats x(192);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 4);
  return {"tricky/spinlock.cu", "spinlock", Config(3, 64),
          [=] {
            return std::vector{In("x", x), InOut("out", Floats{0}), Scalar(192)};
          },
          [=](const std::vector<CpuArgument>& a) {
            EXPECT_EQ(ValuesOf<float>(a[1])[0], std::accumulate(x.begin(), x.end(), 0.f));
          }};
}

KernelCase SyncWarpReduce() {
  Floats x(512);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 6);
  return {"tricky/syncwarp_reduce.cu", "syncwarp_reduce", Config(2, 256),
          [=] {
            return std::vector{In("x", x), Out<float>("out", 2), Scalar(512)};
          },
          [=](const std::vector<CpuArgument>& a) {
            EXPECT_EQ(ValuesOf<float>(a[1]),
                      (Floats{std::accumulate(x.begin(), x.begin() + 256, 0.f),
                              std::accumulate(x.begin() + 256, x.end(), 0.f)}));
          }};
}

KernelCase LastBlock() {
  Floats x(512);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 8);
  return {
      "tricky/last_block.cu", "last_block", Config(4, 128),
      [=] {
        return std::vector{In("x", x), Out<float>("part", 4), Out<float>("out", 1), Scalar(512)};
      },
      [=](const std::vector<CpuArgument>& a) {
        EXPECT_EQ(ValuesOf<float>(a[2])[0], std::accumulate(x.begin(), x.end(), 0.f));
      }};
}

std::vector<KernelCase> AllKernels() {
  return {Saxpy("saxpy"),   Saxpy("saxpy_stride"),
          Poly(),           Gelu(),
          Histogram(),      LayerNormCase(),
          MatMul(),         Reduce(),
          Softmax(),        Scan(),
          Transpose(),      AtomicsMix(),
          Bitonic(),        DynamicParts(),
          Flash(),          LocalPointers(),
          RmsNorm(),        SpinLock(),
          SyncWarpReduce(), LastBlock()};
}

class CpuKernels : public ::testing::TestWithParam<int> {};

TEST_P(CpuKernels, AreRightInEveryBuildWidthAndSchedule) {
  const KernelCase kernel = AllKernels()[static_cast<std::size_t>(GetParam())];
  const std::string source = CpuTestSource(kernel.file);
  for (const CompileMode mode : {CompileMode::kFast, CompileMode::kCheck}) {
    for (const int lanes : {32, 64}) {
      const CompileResult compiled = CompileOrFail(
          CpuRequest("kernel.cu", source, {kernel.entry}, {.mode = mode, .lanes = lanes}));
      ASSERT_TRUE(compiled.accepted);
      auto device = CpuDevice::Create({.threads = 2});
      ASSERT_TRUE(device.ok());
      for (const char* schedule : {"forward", "reverse", "random"}) {
        SCOPED_TRACE(fmt::format("{} lanes {} {} {}", kernel.file, lanes, schedule,
                                 mode == CompileMode::kCheck ? "check" : "fast"));
        (*device)->SetSchedule(schedule, 7);
        std::vector<CpuArgument> arguments = kernel.arguments();
        const CpuRun run = RunKernel(**device, compiled, kernel.config, arguments);
        ASSERT_TRUE(run.status.ok()) << run.Text();
        EXPECT_TRUE(run.Errors().empty()) << run.Text();
        kernel.verify(arguments);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuKernels,
                         ::testing::Range(0, static_cast<int>(AllKernels().size())),
                         [](const ::testing::TestParamInfo<int>& which) {
                           const std::string file =
                               AllKernels()[static_cast<std::size_t>(which.param)].file;
                           return file.substr(file.find('/') + 1,
                                              file.rfind('.') - file.find('/') - 1);
                         });

}  // namespace
}  // namespace fettle
