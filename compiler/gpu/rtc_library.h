// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVRTC or hiprtc through dlopen: no vendor header, no link dependency, no GPU. hiprtc copies
// NVRTC's signatures, so that one table serves both.

#include <memory>
#include <string>

#include "compiler/gpu/rtc_wire.h"

namespace fettle::rtc {

class Library {
 public:
  // Loads `files` (else the vendor's own names, newest first) and warms the first that loads with a
  // trivial kernel. `problem` says why there is none.
  static std::unique_ptr<Library> Load(bool nvrtc, const Strings& files, std::string& problem);

  Hello Describe() const;
  // May crash, abort or end the process: call it in a child.
  Reply Compile(const Request& request) const;

 private:
  using Program = struct OpaqueProgram*;
  Library() = default;
  std::string Bind(void* handle);
  void FindArchs();
  void LoadNvrtcBuiltins();
  std::string LoadComgr(void* hiprtc, const std::string& file);
  std::string Text(Program program, int (*size_of)(Program, std::size_t*),
                   int (*get)(Program, char*)) const;

  bool nvrtc_ = true;
  std::string file_, version_;
  Strings more_files_, archs_;

  const char* (*error_string_)(int) = nullptr;
  int (*version_of_)(int*, int*) = nullptr;
  int (*create_)(Program*, const char*, const char*, int, const char**, const char**) = nullptr;
  int (*compile_)(Program, int, const char**) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*add_name_)(Program, const char*) = nullptr;
  int (*lowered_name_)(Program, const char*, const char**) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*code_size_)(Program, std::size_t*) = nullptr;
  int (*code_)(Program, char*) = nullptr;
  int (*ptx_size_)(Program, std::size_t*) = nullptr;  // NVRTC only, like the next three.
  int (*ptx_)(Program, char*) = nullptr;
  int (*arch_count_)(int*) = nullptr;
  int (*archs_of_)(int*) = nullptr;
};

}  // namespace fettle::rtc
