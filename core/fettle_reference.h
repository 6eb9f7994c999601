// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface between fettle and a task's reference or checker, version 1. References are C++17
// or newer, compiled by fettle; include this as "fettle_reference.h". Everything passed in belongs
// to fettle and lives for the call only.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {

struct fettle_tensor {
  const char* name;         // Argument name.
  int64_t member;           // Index within a `pointers` argument, else 0.
  int64_t count;            // Elements.
  const double* values;     // Decoded floats, dense row-major (strides, padding, dtype are gone);
                            // null for integers.
  const int64_t* integers;  // Integers, bool and index arguments; null for floats.
};

struct fettle_dim {
  const char* name;
  int64_t count;  // 1 for a plain dim.
  const int64_t* values;
};

// One output to fill.
struct fettle_result {
  const char* name;
  int64_t member;
  const int64_t* rows;  // The rows asked for (a row is the first axis); null: all of
                        // row_begin..row_end. Where given, row_begin is 0 and row_end their number.
  int64_t row_begin, row_end;
  double* values;     // To fill: rows asked for x elements per row. With `exact: bits` the raw
                      // bytes of the output's dtype instead, densely packed (fettle_bytes).
  double* magnitude;  // Optional: the size M of the terms summed; null when not wanted.
  double* length;     // Optional: how many terms were summed; null when not wanted.
};

struct fettle_ref {
  int32_t version, tensor_count, dim_count, scalar_count, result_count;
  const fettle_tensor* tensors;
  const fettle_dim* dims;
  const fettle_tensor* scalars;  // Floating-point scalars, as rounded to their dtype.
  fettle_result* results;
};

struct fettle_check {
  const fettle_ref* ref;         // Inputs, dims, scalars; results hold what the reference returned.
  const fettle_tensor* outputs;  // What the candidate wrote, decoded.
  const uint8_t* const* raw;     // And its bytes, dense row-major, one pointer per output.
  int32_t output_count;
  double worst;        // To fill: largest error over its tolerance; passes when <= 1.
  double mean_square;  // To fill: of error over tolerance; compared with the baseline's.
  int64_t worst_output, worst_element;
  char message[256];
};

}  // extern "C"

// A reference may be called by several threads at once, each for other rows of the same case; it
// must not keep state in variables that outlive a call.
//
// A reference is `extern "C" void f(fettle_ref*)`, a checker `extern "C" void f(fettle_check*)`,
// and `work: {from: reference}` calls `extern "C" void f_work(fettle_ref*, double* bytes, double*
// flops)`.

// Accessors. Asking for a name that is not there ends the reference with a message.

[[noreturn]] inline void fettle_missing(const char* kind, const char* name) {
  std::fprintf(stderr, "reference: no %s named '%s' in this task\n", kind, name);
  std::abort();
}

inline const fettle_tensor& fettle_input(const fettle_ref* ref, const char* name,
                                         int64_t member = 0) {
  for (int32_t i = 0; i < ref->tensor_count; ++i) {
    const fettle_tensor& tensor = ref->tensors[i];
    if (tensor.member == member && std::strcmp(tensor.name, name) == 0) return tensor;
  }
  fettle_missing("input", name);
}

inline const fettle_dim& fettle_dims(const fettle_ref* ref, const char* name) {
  for (int32_t i = 0; i < ref->dim_count; ++i) {
    if (std::strcmp(ref->dims[i].name, name) == 0) return ref->dims[i];
  }
  fettle_missing("dim", name);
}

// A plain dim's value.
inline int64_t fettle_size(const fettle_ref* ref, const char* name) {
  return fettle_dims(ref, name).values[0];
}

inline double fettle_scalar(const fettle_ref* ref, const char* name) {
  for (int32_t i = 0; i < ref->scalar_count; ++i) {
    if (std::strcmp(ref->scalars[i].name, name) == 0) return ref->scalars[i].values[0];
  }
  fettle_missing("floating-point scalar", name);
}

inline fettle_result& fettle_output(fettle_ref* ref, const char* name, int64_t member = 0) {
  for (int32_t i = 0; i < ref->result_count; ++i) {
    fettle_result& result = ref->results[i];
    if (result.member == member && std::strcmp(result.name, name) == 0) return result;
  }
  fettle_missing("output", name);
}

// How many rows of an output were asked for, and which one is number `i` of them.
inline int64_t fettle_row_count(const fettle_result& result) {
  return result.row_end - result.row_begin;
}
inline int64_t fettle_row(const fettle_result& result, int64_t i) {
  return result.rows != nullptr ? result.rows[i] : result.row_begin + i;
}

// Where to write an `exact: bits` output, as its own element type.
template <typename T>
inline T* fettle_bytes(fettle_result& result) {
  return reinterpret_cast<T*>(result.values);
}
