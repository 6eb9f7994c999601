// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_module.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/code_object/elf.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::string_view kWaits[] = {
    "fettle_rt_barrier", "fettle_rt_barrier_vote", "fettle_rt_shuffle",   "fettle_rt_ballot",
    "fettle_rt_match",   "fettle_rt_reduce",       "fettle_rt_warp_sync", "fettle_rt_grid_sync"};

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// A static of a function: _ZZ<function>E<length><name>[_<number>].
struct LocalName {
  std::string function, name;
};
std::optional<LocalName> ParseLocal(std::string_view symbol) {
  if (!symbol.starts_with("_ZZ")) return std::nullopt;
  const std::size_t end = symbol.rfind('E');
  if (end == std::string_view::npos || end < 3) return std::nullopt;
  LocalName out{std::string(symbol.substr(3, end - 3)), ""};
  std::size_t at = end + 1, length = 0;
  while (at < symbol.size() && IsDigit(symbol[at])) {
    length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
  }
  out.name = std::string(symbol.substr(at, length));
  return out;
}

// A variable of the runtime header: fettle_x, as a static of the file _ZL<length>fettle_x.
bool IsOfRuntime(std::string_view symbol) {
  if (symbol.starts_with("_ZL")) {
    symbol.remove_prefix(3);
    while (!symbol.empty() && IsDigit(symbol[0])) symbol.remove_prefix(1);
  }
  return symbol.starts_with("fettle_");
}

std::string Demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return name;
}

// Writes the bytes to an anonymous file that dlopen can map.
absl::StatusOr<int> FileOf(std::string_view bytes) {
  const int fd = memfd_create("fettle-module", MFD_CLOEXEC);
  if (fd < 0) {
    return absl::ResourceExhaustedError(fmt::format("load a module: {}", std::strerror(errno)));
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) {
      const int error = errno;
      close(fd);
      return absl::ResourceExhaustedError(fmt::format("load a module: {}", std::strerror(error)));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuModule>> CpuModule::Load(std::string_view code_object,
                                                           std::span<const std::string> symbols) {
  std::unique_ptr<CpuModule> module(new CpuModule);
  // The name must stay taken while the module is loaded: dlopen tells libraries apart by it.
  FETTLE_ASSIGN_OR_RETURN(module->fd_, FileOf(code_object));
  const std::string path = fmt::format("/proc/self/fd/{}", module->fd_);
  module->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module->handle_ == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("load a module for cpu: {}; a program that loads modules must link "
                    "fettle::cpu_device_exports",
                    dlerror()));
  }
  module->facts_ =
      static_cast<const fettle_cpu_module*>(dlsym(module->handle_, "fettle_cpu_module_info"));
  if (module->facts_ == nullptr || module->facts_->abi != FETTLE_CPU_ABI) {
    return absl::InvalidArgumentError(
        "load a module for cpu: not made by this version of the cpu compiler; compile it again");
  }
  Dl_info where = {};
  if (dladdr(module->facts_, &where) == 0) return absl::InternalError("dladdr found no module");
  module->base_ = reinterpret_cast<std::uintptr_t>(where.dli_fbase);
  for (const std::string& symbol : symbols) {
    const void* entry = dlsym(module->handle_, symbol.c_str());
    if (entry == nullptr) {
      return absl::NotFoundError(fmt::format("no kernel {} in the module", symbol));
    }
    module->entries_[symbol] = static_cast<const fettle_cpu_entry*>(entry);
  }
  FETTLE_RETURN_IF_ERROR(module->ReadSymbols(code_object));
  return module;
}

CpuModule::~CpuModule() {
  if (handle_ != nullptr) dlclose(handle_);
  if (fd_ >= 0) close(fd_);
}

absl::Status CpuModule::ReadSymbols(std::string_view code_object) {
  FETTLE_ASSIGN_OR_RETURN(const ElfFile elf, ReadElf(AsBytes(code_object)));
  std::uintptr_t begin = UINTPTR_MAX, end = 0;
  for (const ElfSection& section : elf.sections) {
    if ((section.flags & SHF_WRITE) == 0 || (section.flags & SHF_ALLOC) == 0 ||
        (section.flags & SHF_TLS) != 0) {
      continue;
    }
    begin = std::min<std::uintptr_t>(begin, base_ + section.address);
    end = std::max<std::uintptr_t>(end, base_ + section.address + section.size);
  }
  if (begin < end) {
    data_begin_ = begin;
    data_end_ = end;
  }
  for (const ElfSymbol& symbol : elf.symbols) {
    if (symbol.section == SHN_UNDEF) {
      waits_ = waits_ ||
               std::find(std::begin(kWaits), std::end(kWaits), symbol.name) != std::end(kWaits);
      continue;
    }
    const bool thread_local_data = symbol.type == STT_TLS;
    if ((symbol.type != STT_OBJECT && !thread_local_data) || symbol.size == 0) continue;
    const std::uintptr_t at = base_ + symbol.value;
    if (!thread_local_data && (at < data_begin_ || at >= data_end_)) continue;
    if (IsOfRuntime(symbol.name)) continue;
    const std::optional<LocalName> local = ParseLocal(symbol.name);
    // In fast mode shared variables are thread-local, in check mode they are statics of functions
    // or (g++ marks those with a number) of the file.
    const std::size_t dot = symbol.name.find('.');
    const bool shared = thread_local_data || local.has_value() || dot != std::string::npos;
    const std::string name = local ? local->name : Demangled(symbol.name.substr(0, dot));
    const bool constant = symbol.section < elf.sections.size() &&
                          elf.sections[symbol.section].name == ".fettle_constant";
    if (constant) {
      // No state: kernels may only read it.
    } else if (shared) {
      shared_of_function_[local ? local->function : ""] += static_cast<std::int64_t>(symbol.size);
    } else {
      writable_globals_.push_back(name);
    }
    if (!thread_local_data)
      variables_.push_back({at, at + symbol.size, name, shared && !constant, constant});
  }
  const auto by_address = [](const CpuVariable& a, const CpuVariable& b) {
    return a.begin < b.begin;
  };
  std::sort(variables_.begin(), variables_.end(), by_address);
  if (const ElfSection* lines = elf.Find(".debug_line"); lines != nullptr) {
    lines_section_.assign(reinterpret_cast<const char*>(lines->bytes.data()), lines->bytes.size());
  }
  return absl::OkStatus();
}

const fettle_cpu_entry* CpuModule::Entry(std::string_view symbol) const {
  const auto found = entries_.find(symbol);
  return found == entries_.end() ? nullptr : found->second;
}

// A launch needs the shared variables of its kernel, of namespace scope, and of the helpers it may
// call; those of the module's other kernels do not count.
std::int64_t CpuModule::static_shared_bytes(const fettle_cpu_entry& entry) const {
  const auto base_name = [](const char* name) {
    std::string text = name;
    text = text.substr(0, text.find('<'));
    const std::size_t colon = text.rfind("::");
    return colon == std::string::npos ? text : text.substr(colon + 2);
  };
  const auto belongs = [&](const std::string& function, const char* name) {
    const std::string base = base_name(name);
    return function.find(fmt::format("{}{}", base.size(), base)) != std::string::npos ||
           function == base;
  };
  std::int64_t own = 0, common = 0;
  for (const auto& [function, bytes] : shared_of_function_) {
    if (belongs(function, entry.name)) {
      own = std::max(own, bytes);
      continue;
    }
    bool of_other_kernel = false;
    for (const auto& [symbol, other] : entries_) {
      of_other_kernel = of_other_kernel || belongs(function, other->name);
    }
    if (!of_other_kernel) common += bytes;
  }
  return own + common;
}

absl::StatusOr<FunctionInfo> CpuModule::Function(std::string_view symbol) {
  const fettle_cpu_entry* entry = Entry(symbol);
  if (entry == nullptr) {
    return absl::NotFoundError(fmt::format("no kernel {} in the module", std::string(symbol)));
  }
  FunctionInfo info;
  info.symbol = std::string(symbol);
  info.static_shared_bytes = static_shared_bytes(*entry);
  info.max_threads = 1024;
  for (int i = 0; i < entry->argument_count; ++i) {
    info.parameter_bytes.push_back(entry->argument_bytes[i]);
  }
  return info;
}

// Statics of functions are state like any other; what is shared lives as long as its block.
// Constants too: nothing keeps a kernel from casting the const away.
absl::StatusOr<std::int64_t> CpuModule::SaveState() {
  state_.clear();
  std::int64_t bytes = 0;
  for (const CpuVariable& variable : variables_) {
    state_.emplace_back(variable.begin, std::string(reinterpret_cast<const char*>(variable.begin),
                                                    variable.end - variable.begin));
    bytes += static_cast<std::int64_t>(variable.end - variable.begin);
  }
  return bytes;
}

absl::Status CpuModule::RestoreState() {
  for (const auto& [address, bytes] : state_) {
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
  }
  return absl::OkStatus();
}

SourcePlace CpuModule::PlaceOf(std::uint32_t offset) {
  if (lines_ == nullptr) lines_ = std::make_unique<LineTable>(lines_section_);
  SourcePlace place = lines_->Find(offset);
  if (place.file.starts_with("fettle_cpu") || place.file == "<entries>") place.file.clear();
  return place;
}

const std::string& CpuModule::main_file() {
  static const std::string kNone;
  if (lines_ == nullptr) lines_ = std::make_unique<LineTable>(lines_section_);
  static constexpr std::string_view kOurs[] = {
      "warp.h", "atomics.h", "builtins.h", "export.h",       "groups.h",  "half.h",
      "math.h", "main.cc",   "<entries>",  "vector_types.h", "<built-in>"};
  for (const std::string& file : lines_->files()) {
    if (std::find(std::begin(kOurs), std::end(kOurs), file) == std::end(kOurs)) return file;
  }
  return kNone;
}

}  // namespace fettle
