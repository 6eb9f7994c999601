// SPDX-License-Identifier: Apache-2.0

// What -fsanitize=bounds,alignment,shift,... makes check builds call. Nothing here belongs to the
// UBSan runtime, which is not linked.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/cpu_checker.h"

namespace fettle {

// See LinkCpuRuntime.
void LinkCpuUndefinedHooks() {}

namespace {

// The compiler's descriptions, as its ABI lays them out.
struct Place {
  const char* file;
  std::uint32_t line, column;
};
struct TypeName {
  std::uint16_t kind;  // 0: integer.
  std::uint16_t info;  // Bit 0: signed; the rest: log2 of the bits.
  char name[1];
};
struct OutOfBounds {
  Place place;
  const TypeName* array;
  const TypeName* index;
};
struct Overflow {
  Place place;
  const TypeName* type;
};
struct Shift {
  Place place;
  const TypeName* left;
  const TypeName* right;
};
struct TypeMismatch {
  Place place;
  const TypeName* type;
  unsigned char log_alignment, kind;
};

std::string Value(const TypeName* type, std::uintptr_t bits) {
  const int width = 1 << (type->info >> 1);
  if (width > 64) return "a wide integer";
  if ((type->info & 1) == 0) return std::to_string(bits);
  const int unused = 64 - width;
  return std::to_string(static_cast<std::int64_t>(bits << unused) >> unused);
}

void Report(const std::string& kind, const std::string& message, const Place& place, bool fatal) {
  std::string file = place.file == nullptr ? "" : place.file;
  file = file.substr(file.rfind('/') + 1);
  const RuntimeGuard guard;
  if (CpuChecker* checker = CpuChecker::Current(); checker != nullptr) {
    checker->Undefined(kind, message, file, static_cast<int>(place.line), fatal);
    return;
  }
  // Not a kernel: this program itself, built with UBSan.
  std::fprintf(stderr, "%s:%u: %s\n", file.c_str(), place.line, message.c_str());
  std::abort();
}

void ReportArithmetic(const Overflow* data, const char* sign, std::uintptr_t a, std::uintptr_t b) {
  Report("ub.overflow",
         fmt::format("signed overflow: {} {} {}", Value(data->type, a), sign, Value(data->type, b)),
         data->place, false);
}

void ReportMismatch(const TypeMismatch* data, std::uintptr_t address) {
  if (address == 0) {
    Report("ub.null", fmt::format("access through a null pointer to {}", data->type->name),
           data->place, true);
  } else if (data->log_alignment != 0 &&
             (address & ((std::uintptr_t{1} << data->log_alignment) - 1)) != 0) {
    Report("ub.align",
           fmt::format("misaligned access to {}, which needs {}-byte alignment", data->type->name,
                       1 << data->log_alignment),
           data->place, true);
  } else {
    Report("ub.object", fmt::format("access outside of an object of type {}", data->type->name),
           data->place, false);
  }
}

}  // namespace
}  // namespace fettle

using namespace fettle;  // NOLINT: the hooks below are all of this file.

// Each handler exists twice; compilers call the second where they may not go on.
#define FETTLE_UB_HOOK(NAME, DATA, BODY)                                            \
  void __ubsan_handle_##NAME(DATA* data, [[maybe_unused]] std::uintptr_t a,         \
                             [[maybe_unused]] std::uintptr_t b) {                   \
    BODY;                                                                           \
  }                                                                                 \
  void __ubsan_handle_##NAME##_abort(DATA* data, [[maybe_unused]] std::uintptr_t a, \
                                     [[maybe_unused]] std::uintptr_t b) {           \
    BODY;                                                                           \
  }

extern "C" {

FETTLE_UB_HOOK(out_of_bounds, OutOfBounds,
               Report("ub.index",
                      fmt::format("index {} is out of bounds for type {}", Value(data->index, a),
                                  data->array->name),
                      data->place, true))
FETTLE_UB_HOOK(add_overflow, Overflow, ReportArithmetic(data, "+", a, b))
FETTLE_UB_HOOK(sub_overflow, Overflow, ReportArithmetic(data, "-", a, b))
FETTLE_UB_HOOK(mul_overflow, Overflow, ReportArithmetic(data, "*", a, b))
FETTLE_UB_HOOK(negate_overflow, Overflow,
               Report("ub.overflow", "signed overflow in a negation", data->place, false))
FETTLE_UB_HOOK(divrem_overflow, Overflow,
               Report("ub.division", b == 0 ? "integer division by zero" : "division overflow",
                      data->place, true))
FETTLE_UB_HOOK(shift_out_of_bounds, Shift,
               Report("ub.shift",
                      fmt::format("shift of {} by {}", Value(data->left, a), Value(data->right, b)),
                      data->place, false))
FETTLE_UB_HOOK(type_mismatch_v1, TypeMismatch, ReportMismatch(data, a))
FETTLE_UB_HOOK(builtin_unreachable, Place,
               Report("ub.unreachable", "unreachable code was reached", *data, true))
FETTLE_UB_HOOK(missing_return, Place,
               Report("ub.return", "a function ends without returning its value", *data, true))
FETTLE_UB_HOOK(vla_bound_not_positive, Overflow,
               Report("ub.bound", "an array's length is not positive", data->place, true))
FETTLE_UB_HOOK(load_invalid_value, Overflow,
               Report("ub.value", "a bool or enumeration holds no value of its type", data->place,
                      false))

}  // extern "C"
