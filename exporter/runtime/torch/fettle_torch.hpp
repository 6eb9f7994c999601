// SPDX-License-Identifier: Apache-2.0
//
// Calls an exported operator from PyTorch. With FETTLE_TORCH_STABLE over PyTorch's stable C interface
// (PyTorch 2.9 and later): needs no header of PyTorch, and one binary serves every later version. Else
// over its C++ interface, for the version that it is compiled against. Both offer the same names.
#ifndef FETTLE_TORCH_HPP
#define FETTLE_TORCH_HPP

#include <cstdint>
#include <string>

#include <fettle/runtime.hpp>

#ifdef FETTLE_TORCH_STABLE
#include "fettle_torch_stable.hpp"
#else
#include "fettle_torch_aten.hpp"
#endif

namespace fettle {
namespace torch_call {

// The operator of one extension. Never destroyed: at the end of the program the driver may be gone.
template <class Operator>
Operator& instance() {
  static Operator* const op = new Operator;
  return *op;
}

template <class T>
void assign(View<T>& out, const Tensor& tensor, const char* op) {
  out = view<T>(tensor, op);
}

// Runs the operator on the current stream of the device where `first` lies.
template <class Operator>
void run(const char* name, const Tensor& first, const typename Operator::Types& types,
         const typename Operator::Shape& shape, const typename Operator::Args& args, bool may_need_workspace) {
  Operator& op = instance<Operator>();
  const Stream stream = stream_of(first, name);
  Workspace workspace;
  Memory memory;
  const auto reserve = [&] {
    workspace.bytes = op.workspace_bytes(stream.backend, types, shape, args);
    if (workspace.bytes > 0) workspace.data = memory.take(first, static_cast<std::int64_t>(workspace.bytes));
  };
  if (may_need_workspace) reserve();
  Result result = op(stream, types, shape, args, workspace);
  if (result.status == Status::kNotPrepared) {
    // First use of this device. It must not be within a graph capture: call the operator once before.
    const Result ready = op.prepare(stream.backend);
    if (!ready) fail(std::string(name) + ": " + ready.message);
    if (may_need_workspace) reserve();
    result = op(stream, types, shape, args, workspace);
  }
  if (!result) fail(std::string(name) + ": " + result.message + " (driver code " + std::to_string(result.code) + ")");
}

// What the operator did so far: counts per kind of choice, then a JSON line per size that no exact
// choice served. Lives until the thread's next call.
template <class Operator>
const char* statistics() {
  thread_local std::string text;
  const Statistics s = instance<Operator>().statistics();
  text = "{\"exact\":" + std::to_string(s.exact) + ",\"bucket\":" + std::to_string(s.bucket) +
         ",\"generic\":" + std::to_string(s.generic) + ",\"fallback\":" + std::to_string(s.fallback) +
         ",\"refused\":" + std::to_string(s.refused) + "}\n" + instance<Operator>().misses();
  return text.c_str();
}

}  // namespace torch_call
}  // namespace fettle

// What loader.py calls.
#define FETTLE_TORCH_CONTROLS(Operator)                                                                       \
  extern "C" __attribute__((visibility("default"))) const char* fettle_torch_statistics() {                   \
    return ::fettle::torch_call::statistics<Operator>();                                                      \
  }                                                                                                           \
  extern "C" __attribute__((visibility("default"))) void fettle_torch_read_switches() {                       \
    ::fettle::torch_call::instance<Operator>().read_switches();                                               \
  }                                                                                                           \
  extern "C" __attribute__((visibility("default"))) void fettle_torch_allow_compiled_only(int allow) {         \
    ::fettle::torch_call::instance<Operator>().allow_compiled_only(allow != 0);                               \
  }                                                                                                           \
  extern "C" __attribute__((visibility("default"))) void fettle_torch_set_root(const char* root) {            \
    ::fettle::torch_call::instance<Operator>().set_root(root);                                                \
  }

#endif  // FETTLE_TORCH_HPP
