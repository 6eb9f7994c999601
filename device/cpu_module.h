// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "device/cpu_abi.h"
#include "device/cpu_lines.h"
#include "device/device.h"

namespace fettle {

// A variable of the module in writable memory: __shared__ (check mode) or __device__.
struct CpuVariable {
  std::uintptr_t begin = 0, end = 0;
  std::string name;
  bool shared = false;
  bool constant = false;  // __constant__
};

// A kernel module made by the cpu compiler, loaded into this process. Loading runs no code of it.
class CpuModule final : public DeviceModule {
 public:
  // kInvalidArgument: not such a module, or of another version; kNotFound: a symbol is missing.
  static absl::StatusOr<std::unique_ptr<CpuModule>> Load(std::string_view code_object,
                                                         std::span<const std::string> symbols);
  ~CpuModule() override;
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;

  absl::StatusOr<FunctionInfo> Function(std::string_view symbol) override;
  std::vector<std::string> WritableGlobals() override { return writable_globals_; }
  absl::StatusOr<std::int64_t> SaveState() override;
  absl::Status RestoreState() override;

  const fettle_cpu_module& facts() const { return *facts_; }
  const fettle_cpu_entry* Entry(std::string_view symbol) const;
  // A barrier or warp operation may be reached.
  bool waits() const { return waits_; }
  std::int64_t static_shared_bytes(const fettle_cpu_entry& entry) const;

  std::uintptr_t base() const { return base_; }
  // Writable memory of the module, and its variables in order of address.
  std::uintptr_t data_begin() const { return data_begin_; }
  std::uintptr_t data_end() const { return data_end_; }
  const std::vector<CpuVariable>& variables() const { return variables_; }
  // The source place of an offset into the module, as from a call's return address.
  SourcePlace PlaceOf(std::uint32_t offset);
  // The user's own source file; empty without debug information.
  const std::string& main_file();

 private:
  CpuModule() = default;
  absl::Status ReadSymbols(std::string_view code_object);

  int fd_ = -1;
  void* handle_ = nullptr;
  const fettle_cpu_module* facts_ = nullptr;
  std::map<std::string, const fettle_cpu_entry*, std::less<>> entries_;
  std::uintptr_t base_ = 0, data_begin_ = 0, data_end_ = 0;
  bool waits_ = false;
  std::vector<CpuVariable> variables_;
  std::vector<std::string> writable_globals_;
  std::vector<std::pair<std::uintptr_t, std::string>> state_;  // Address, bytes.
  // Shared bytes of each function (by the encoding of its name), and of namespace scope ("").
  std::map<std::string, std::int64_t> shared_of_function_;
  std::string lines_section_;
  std::unique_ptr<LineTable> lines_;
};

}  // namespace fettle
