// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/task.h"

namespace fettle {

// A kernel's parameter as read from its source.
struct KernelParameter {
  std::string name;
  std::string type;       // "const T*", "int", ...
  std::string base;       // Without const, pointers and restrict: "T", "int".
  int pointers = 0;       // Levels of indirection.
  bool is_const = false;  // The pointee of the innermost pointer is const.
};

struct KernelSignature {
  std::string name;
  std::vector<std::string> type_parameters;   // template <typename T>
  std::vector<std::string> value_parameters;  // template <int N>
  std::vector<KernelParameter> parameters;
};

// The `__global__` functions of a source. Comments, strings and preprocessor lines are skipped; no
// compiler is needed, so what only a macro spells out is not seen.
std::vector<KernelSignature> FindKernels(std::string_view source);

struct SkeletonRequest {
  std::string source_name;  // "kernel.cu"
  std::string source;
  std::string kernel;  // The kernel's name.
};

// A task folder to be completed by its author: task.yaml and reference.cc with places marked FILL
// IN, and the source itself. The task parses as it stands; its reference stops until it is written.
//
// kNotFound: no kernel of that name; the message lists those there are.
// kInvalidArgument: the source has no kernels, or the signature cannot be read.
absl::StatusOr<TaskFiles> MakeSkeleton(const SkeletonRequest& request);

}  // namespace fettle
