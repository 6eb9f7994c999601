// SPDX-License-Identifier: Apache-2.0
// Judges eigenvalues w and vectors q (columns) of each symmetric matrix by invariants, in double
// precision and the 1-norm: |A Q - Q W|, |Q W Q' - A| and |Q' Q - I| against multiples of n * eps;
// values in ascending order; no vector with a clearly negative sum of components. Vectors are never
// compared with others: those of close values may be any.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "fettle_reference.h"

namespace {

using Matrix = std::vector<double>;

constexpr double kEps = 0x1p-23;
constexpr double kFactor = 8;

// Largest sum of a column's sizes; NaN where anything is.
double Norm(const Matrix& a, std::int64_t n) {
  double norm = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::abs(a[static_cast<std::size_t>(i * n + j)]);
    norm = std::isnan(sum) || sum > norm ? sum : norm;
  }
  return norm;
}

// left * right, with `left` transposed if asked for.
Matrix Product(const Matrix& left, const Matrix& right, std::int64_t n, bool transpose_left,
               bool transpose_right) {
  Matrix out(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      const double x = left[static_cast<std::size_t>(transpose_left ? k * n + i : i * n + k)];
      for (std::int64_t j = 0; j < n; ++j) {
        out[static_cast<std::size_t>(i * n + j)] +=
            x * right[static_cast<std::size_t>(transpose_right ? j * n + k : k * n + j)];
      }
    }
  }
  return out;
}

struct Verdict {
  double over = 0;  // Largest error over its bound.
  const char* what = "";
};

void Note(Verdict& verdict, double error, double bound, const char* what) {
  double over =
      bound > 0 ? error / bound : (error == 0 ? 0.0 : std::numeric_limits<double>::infinity());
  if (std::isnan(over)) over = std::numeric_limits<double>::infinity();
  if (over > verdict.over) verdict = {over, what};
}

Verdict JudgeOne(const double* given, const double* w, const double* q, std::int64_t n) {
  Matrix a(static_cast<std::size_t>(n * n)), vectors(q, q + n * n), scaled(vectors);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      a[static_cast<std::size_t>(i * n + j)] = i >= j ? given[i * n + j] : given[j * n + i];
      scaled[static_cast<std::size_t>(i * n + j)] *= w[j];
    }
  }
  const double bound = kFactor * static_cast<double>(n) * kEps, norm = Norm(a, n);
  Verdict verdict;
  Matrix residual = Product(a, vectors, n, false, false);
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] -= scaled[i];
  Note(verdict, Norm(residual, n), bound * norm, "A Q - Q W");
  Matrix rebuilt = Product(scaled, vectors, n, false, true);
  for (std::size_t i = 0; i < rebuilt.size(); ++i) rebuilt[i] -= a[i];
  Note(verdict, Norm(rebuilt, n), bound * norm, "Q W Q' - A");
  Matrix identity = Product(vectors, vectors, n, true, false);
  for (std::int64_t i = 0; i < n; ++i) identity[static_cast<std::size_t>(i * n + i)] -= 1;
  Note(verdict, Norm(identity, n), bound, "Q' Q - I");
  for (std::int64_t j = 0; j < n; ++j) {
    if (j > 0 && !(w[j - 1] <= w[j])) Note(verdict, 1, 0, "the order of the values");
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += q[i * n + j];
    if (!(sum >= 0)) Note(verdict, -sum, bound, "the sign of a vector");
  }
  return verdict;
}

}  // namespace

extern "C" void batched_eigh_check(fettle_check* check) {
  const std::int64_t batch = fettle_size(check->ref, "batch"), n = fettle_size(check->ref, "n");
  const double* a = fettle_input(check->ref, "a").values;
  const fettle_tensor *w = nullptr, *q = nullptr;
  for (int i = 0; i < check->output_count; ++i) {
    (check->outputs[i].name[0] == 'w' ? w : q) = &check->outputs[i];
  }
  check->worst = check->mean_square = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const Verdict verdict = JudgeOne(a + b * n * n, w->values + b * n, q->values + b * n * n, n);
    check->mean_square += verdict.over * verdict.over / static_cast<double>(batch);
    if (!(verdict.over > check->worst)) continue;
    check->worst = verdict.over;
    check->worst_output = 1;
    check->worst_element = b * n * n;
    std::snprintf(check->message, sizeof(check->message), "matrix %lld: %s",
                  static_cast<long long>(b), verdict.what);
  }
}

// Nothing is compared with a reference.
extern "C" void batched_eigh_ref(fettle_ref*) {}
