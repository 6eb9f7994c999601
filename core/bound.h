// SPDX-License-Identifier: Apache-2.0
#pragma once

// A task's case and a kernel's launch plan with every expression evaluated: what crosses from the
// worker into the runner. Nothing here refers back to the task. All of it converts to and from JSON
// (bound_json.h); unknown fields are errors.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"

namespace fettle {

enum class Role { kIn, kOut, kInOut, kIndex, kScalar, kPointers, kNone };

// How an input's bytes are made from a seed. Deterministic: the same (fill, shape, seed) gives the
// same bytes on every machine (verifier/inputs.h).
struct Fill {
  enum class Kind {
    kZero,
    kConstant,
    kNormal,
    kUniform,  // Values; kNormal mean a, deviation b.
    kIndexUniform,
    kIndexZipf,
    kIndexSorted,
    kIndexPermutation,
    kIndexRepeated,
    kIndexRuns,
    kIndexOffsets,  // Prefix sums of `list`.
    kList,          // The entries of `list`.
    kFile,          // The bytes of `file`, an .npy in the task.
  };
  Kind kind = Kind::kZero;
  double a = 0, b = 0;             // Parameters: mean/deviation, lo/hi, zipf exponent, k.
  std::int64_t lo = 0, hi = 0;     // Index range [lo, hi).
  std::vector<std::int64_t> list;  // kList, kIndexOffsets, kIndexRuns.
  std::string file;                // Path within the task.
  std::vector<std::pair<std::int64_t, Fill>> rows;  // Row overrides (`rows: {3: ...}`).
};

struct Restore {
  enum class Kind { kNone, kAll, kTouchedIndex, kTouchedList, kTouchedReference };
  Kind kind = Kind::kNone;
  std::string index;               // kTouchedIndex: the index argument's name.
  std::vector<std::int64_t> rows;  // kTouchedList.
};

// One device buffer.
struct BoundTensor {
  std::string name;  // Argument name; members of `pointers` share it.
  std::int64_t member = 0;
  Role role = Role::kIn;  // kIn, kOut, kInOut or kIndex.
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // Elements; dense row-major unless the task says otherwise.
  std::int64_t align_bytes = 0;  // 0: the allocator's own (256). Else exactly this much at most
                                 // in at least one checked case.
  Fill fill;
  Restore restore;
  bool is_null = false;    // `role: none`, or `optional` with a zero dim.
  bool nonfinite = false;  // NaN and infinities may be injected (contract).

  // Product of shape.
  std::int64_t elements() const;
  // Elements from the first to the last addressed, plus one; 0 when empty. Padding included.
  std::int64_t extent() const;
};

// A scalar argument's value, already rounded to its dtype.
struct BoundScalar {
  std::string name;
  DType dtype = DType::kI64;
  std::int64_t integer = 0;  // For integer dtypes.
  double real = 0;           // For floating dtypes.
};

// A `role: pointers` argument: tensors[first .. first + count) of the case.
struct BoundPointers {
  std::string name;
  std::int64_t first = 0, count = 0;
  bool in_struct = false;  // `table: struct`; else a read-only array in device memory.
};

struct BoundTolerance {
  enum class Kind { kAuto, kRelative, kExactBits, kExactValues, kChecker };
  std::string output;
  Kind kind = Kind::kAuto;
  double rtol = 0, atol = 0;   // kRelative.
  bool raw = false;            // kExactBits, written as `exact: bits`: the reference
                               // fills raw bytes. With a plain `exact` it fills values.
  std::int64_t reduce = 1;     // kAuto: K where the reference gives none.
  DType acc = DType::kF32;     // kAuto.
  std::optional<DType> inner;  // kAuto.
};

struct BoundDim {
  std::string name;
  bool is_list = false;
  std::vector<std::int64_t> values;  // One entry unless is_list.
};

enum class CaseSet { kTimed, kChecked, kHeldOut };

struct BoundCase {
  std::string label;  // "timed/0", "checked/3"; "held_out/1" never leaves the worker.
  CaseSet set = CaseSet::kChecked;
  double weight = 1;
  std::vector<std::pair<std::string, DType>> types;  // Family name -> dtype.
  std::vector<BoundDim> dims;
  std::vector<BoundTensor> tensors;  // In signature order, members of pointers in order.
  std::vector<BoundScalar> scalars;
  std::vector<BoundPointers> pointers;
  std::vector<BoundTolerance> tolerances;  // One per output name.
  double work_bytes = 0, work_flops = 0;   // Lower bounds; 0 = unknown.
  bool work_is_estimate = false;
  bool work_from_reference = false;
  bool deterministic = true;  // Contract: bit-equal repeats.
  bool linear = false;        // Contract `linear: true`: with small integers as inputs every
                              // output is exact, so it is compared bit by bit.

  // "rows=3 cols=257 T=f16", for messages.
  std::string Describe() const;
};

// Bytes of the case's tensors, padding included; saturates at int64 max.
std::int64_t CaseBytes(const BoundCase& bound_case);

// One kernel argument.
struct BoundArg {
  enum class Kind { kTensor, kPointers, kWorkspace, kValue, kStruct, kNull, kTensorMap };
  Kind kind = Kind::kValue;
  std::int64_t index = 0;           // Into tensors, pointers or workspace.
  std::int64_t offset = 0;          // Elements (kTensor, kWorkspace).
  std::vector<std::uint8_t> bytes;  // kValue: the little-endian value. kStruct: the bytes, zeroed.
  std::int64_t align = 0;           // kStruct.
  // kStruct: where addresses go: byte offset -> kTensor/kWorkspace/kPointers/kNull argument.
  // kTensorMap: one entry, the buffer that it describes.
  std::vector<std::pair<std::int64_t, BoundArg>> fields;
  std::string tensor_map;  // kTensorMap: JSON of the encode parameters.
};

struct BoundStep {
  enum class Kind { kKernel, kFill, kCopy };
  Kind kind = Kind::kKernel;
  std::string entry;  // kKernel: name expression, e.g. "layernorm_fwd<__half>".
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{0, 0, 0};
  std::int64_t shared_bytes = 0;  // Dynamic.
  bool cooperative = false;
  std::vector<BoundArg> args;
  BoundArg target, source;      // kFill, kCopy: buffers.
  std::int64_t byte_count = 0;  // kFill, kCopy.
  std::uint8_t fill_byte = 0;   // kFill.
};

struct BoundWorkspace {
  std::string name;
  DType dtype = DType::kU8;
  std::int64_t count = 0;  // Elements.
  bool zero = false;       // Zeroed before every call, inside the timing.
};

// The steps of one call. Steps whose grid has a zero are already left out.
struct BoundPlan {
  std::vector<BoundStep> steps;
  std::vector<BoundWorkspace> workspace;
};

}  // namespace fettle
