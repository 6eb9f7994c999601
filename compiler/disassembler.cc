// SPDX-License-Identifier: Apache-2.0
#include "compiler/disassembler.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "compiler/child_process.h"
#include "compiler/files.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::size_t kNoteColumn = 72;
constexpr std::int64_t kMostText = std::int64_t{64} << 20;

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view FirstWord(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t"), text.size()));
}

// Bytes of each thread from the modifiers of a SASS load or store.
int SassBytes(std::string_view mnemonic) {
  if (Has(mnemonic, ".128")) return 16;
  if (Has(mnemonic, ".64")) return 8;
  if (Has(mnemonic, ".U16") || Has(mnemonic, ".S16")) return 2;
  return Has(mnemonic, ".U8") || Has(mnemonic, ".S8") ? 1 : 4;
}

struct Note {
  std::string_view prefix, text;
  bool sized = false;
};
// The first prefix that fits decides.
constexpr Note kSass[] = {
    {"LDGSTS", "global to shared, not through registers"},
    {"LDGDEPBAR", "wait for copies"},
    {"LDG", "global load", true},
    {"STG", "global store", true},
    {"LDSM", "shared load of matrix fragments"},
    {"STSM", "shared store of matrix fragments"},
    {"LDS", "shared load", true},
    {"STS", "shared store", true},
    {"LDL", "local memory load: a spill or an indexed array", true},
    {"STL", "local memory store: a spill or an indexed array", true},
    {"HGMMA", "matrix"},
    {"QGMMA", "matrix"},
    {"IGMMA", "matrix"},
    {"HMMA", "matrix"},
    {"IMMA", "matrix"},
    {"DMMA", "matrix"},
    {"QMMA", "matrix"},
    {"UTCHMMA", "matrix"},
    {"UTCQMMA", "matrix"},
    {"UTMALDG", "bulk load of a tensor tile"},
    {"UTMASTG", "bulk store of a tensor tile"},
    {"UBLKCP", "bulk copy"},
    {"BAR", "barrier"},
    {"SYNCS", "barrier object"},
    {"WARPSYNC", "warp barrier"},
    {"ATOMS", "shared atomic"},
    {"ATOM", "atomic"},
    {"RED", "atomic without result"},
    {"SHFL", "lane exchange"},
    {"MUFU", "special function"},
    {"CALL", "call"},
};

// Labels seen so far, and the one on the line before.
struct Labels {
  std::set<std::string, std::less<>> seen;
  std::string last;
};

std::string SassNote(std::string_view line, Labels& labels) {
  std::string_view text = Trimmed(line);
  if (text.starts_with(".L") && text.ends_with(":")) {
    labels.last = std::string(text.substr(0, text.size() - 1));
    labels.seen.insert(labels.last);
    return "";
  }
  const std::string here = std::exchange(labels.last, "");
  if (text.starts_with("/*"))
    text = Trimmed(text.substr(std::min(text.find("*/") + 2, text.size())));
  if (text.starts_with("@")) text = Trimmed(text.substr(std::min(text.find(' '), text.size())));
  const std::string_view mnemonic = FirstWord(text);
  if (mnemonic.starts_with("BRA")) {
    const std::size_t label = text.find(".L");
    if (label == std::string_view::npos) return "";
    const std::size_t end = std::min(text.find_first_of(")` ;", label), text.size());
    const std::string_view target = text.substr(label, end - label);
    // A jump to itself ends the code.
    return labels.seen.contains(target) && target != here ? "back: a loop" : "";
  }
  for (const Note& note : kSass) {
    if (!mnemonic.starts_with(note.prefix)) continue;
    if (!note.sized) return std::string(note.text);
    return fmt::format("{}, {} B a thread", note.text, SassBytes(mnemonic));
  }
  return "";
}

// Bytes of each lane from the suffix of an AMD load or store.
int AmdBytes(std::string_view mnemonic) {
  if (Has(mnemonic, "dwordx4") || Has(mnemonic, "_b128")) return 16;
  if (Has(mnemonic, "dwordx3") || Has(mnemonic, "_b96")) return 12;
  if (Has(mnemonic, "dwordx2") || Has(mnemonic, "_b64")) return 8;
  if (Has(mnemonic, "short") || Has(mnemonic, "16")) return 2;
  return Has(mnemonic, "byte") || Has(mnemonic, "_u8") || Has(mnemonic, "_i8") ||
                 Has(mnemonic, "_b8")
             ? 1
             : 4;
}

std::string AmdMemoryNote(std::string_view mnemonic, std::string_view text) {
  const bool scratch = mnemonic.starts_with("scratch_");
  const bool lds = mnemonic.starts_with("ds_");
  const bool memory = mnemonic.starts_with("global_") || mnemonic.starts_with("buffer_") ||
                      mnemonic.starts_with("flat_");
  if (!scratch && !lds && !memory) return "";
  if (Has(mnemonic, "atomic") || mnemonic.starts_with("ds_add") || mnemonic.starts_with("ds_max") ||
      mnemonic.starts_with("ds_min")) {
    return lds ? "LDS atomic" : "atomic";
  }
  if (Has(mnemonic, "permute") || Has(mnemonic, "swizzle")) return "lane exchange";
  const bool load = Has(mnemonic, "load") || Has(mnemonic, "read");
  if (!load && !Has(mnemonic, "store") && !Has(mnemonic, "write")) return "";
  if (memory && load && (Has(mnemonic, "_lds") || Has(text, " lds"))) {
    return fmt::format("memory to LDS, not through registers, {} B a lane", AmdBytes(mnemonic));
  }
  return fmt::format("{} {}, {} B a lane",
                     scratch ? "scratch: a spill or an indexed array,"
                     : lds   ? "LDS"
                             : "memory",
                     load ? "load" : "store", AmdBytes(mnemonic));
}

std::string AmdNote(std::string_view line) {
  const std::string_view text = Trimmed(line);
  const std::string_view mnemonic = FirstWord(text);
  if (mnemonic.starts_with("v_mfma") || mnemonic.starts_with("v_smfmac")) return "matrix";
  if (mnemonic.starts_with("v_accvgpr")) return "move to or from an accumulator";
  if (mnemonic.starts_with("s_barrier")) return "barrier";
  if (mnemonic.starts_with("s_waitcnt")) return "wait";
  if (mnemonic.starts_with("s_load") || mnemonic.starts_with("s_buffer_load")) return "scalar load";
  for (const char* unit : {"v_exp", "v_log", "v_rcp", "v_rsq", "v_sqrt", "v_sin", "v_cos"}) {
    if (mnemonic.starts_with(unit)) return "special function";
  }
  if (mnemonic.starts_with("s_cbranch") || mnemonic == "s_branch") {
    const std::string_view target = Trimmed(text.substr(mnemonic.size()));
    unsigned offset = 0;  // In words, of 16 bits with sign.
    std::from_chars(target.data(), target.data() + target.size(), offset);
    return offset >= 0x8000 ? "back: a loop" : "";
  }
  return AmdMemoryNote(mnemonic, text);
}

struct Tool {
  std::string path;
  std::vector<std::string> arguments;  // Before the file.
};

absl::StatusOr<Tool> FindTool(const Target& target) {
  const std::vector<std::string> cuda = {"/usr/local/cuda/bin"}, rocm = {"/opt/rocm/llvm/bin"};
  if (target.vendor == Vendor::kNvidia) {
    if (std::string path = FindOnPath("nvdisasm", cuda); !path.empty()) {
      return Tool{std::move(path), {"--print-code"}};
    }
    if (std::string path = FindOnPath("cuobjdump", cuda); !path.empty()) {
      return Tool{std::move(path), {"--dump-sass"}};
    }
    return absl::UnavailableError(
        "disassemble a cubin: neither nvdisasm nor cuobjdump is here; install CUDA's toolkit");
  }
  if (target.vendor == Vendor::kCpu) {
    return absl::InvalidArgumentError(
        "disassemble an object of the cpu target: use objdump -d; name a GPU's target");
  }
  for (const char* name : {"llvm-objdump-22", "llvm-objdump"}) {
    std::string path = FindOnPath(name, rocm);
    if (!path.empty()) return Tool{std::move(path), {"-d", "--mcpu=" + target.name}};
  }
  return absl::UnavailableError(
      "disassemble an AMD code object: llvm-objdump is not here; install llvm-22 or ROCm");
}

}  // namespace

absl::StatusOr<Disassembly> Disassemble(std::string_view code_object, const Target& target,
                                        std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const Tool tool, FindTool(target));
  FETTLE_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create(""));
  const std::string file = folder.path() + "/object";
  FETTLE_RETURN_IF_ERROR(WriteFile(file, code_object));
  ChildCommand command;
  command.argv.push_back(tool.path);
  command.argv.insert(command.argv.end(), tool.arguments.begin(), tool.arguments.end());
  command.argv.push_back(file);
  // cuobjdump starts nvdisasm, which lies beside it.
  command.environment = {"PATH=" + tool.path.substr(0, tool.path.rfind('/')) + ":/usr/bin:/bin",
                         "LC_ALL=C", "TMPDIR=" + folder.path()};
  command.limits = {.wall = std::chrono::seconds(60), .output_bytes = kMostText};
  FETTLE_ASSIGN_OR_RETURN(const ChildResult result, RunChild(command, std::move(stop)));
  Disassembly disassembly;
  disassembly.tool = tool.path.substr(tool.path.rfind('/') + 1);
  if (result.timed_out) {
    return absl::DeadlineExceededError(
        fmt::format("{} did not disassemble the object within 60 s", disassembly.tool));
  }
  if (!result.ok()) {
    return absl::InvalidArgumentError(fmt::format("{} does not take the object: {}",
                                                  disassembly.tool, result.output.substr(0, 300)));
  }
  disassembly.text = Annotate(result.output, target.vendor);
  return disassembly;
}

std::string Annotate(std::string_view disassembly, Vendor vendor) {
  std::string out;
  Labels labels;
  while (!disassembly.empty()) {
    const std::size_t end = std::min(disassembly.find('\n'), disassembly.size());
    std::string_view line = disassembly.substr(0, end);
    disassembly.remove_prefix(std::min(end + 1, disassembly.size()));
    const std::string note = vendor == Vendor::kNvidia ? SassNote(line, labels) : AmdNote(line);
    // The encoding, which objdump puts behind the instruction, gives way to the note.
    const std::size_t comment = vendor == Vendor::kAmd ? line.find("//") : std::string_view::npos;
    if (!note.empty() && comment != std::string_view::npos) line = line.substr(0, comment);
    std::string text(line);
    while (text.ends_with(' ') || text.ends_with('\t')) text.pop_back();
    if (!note.empty()) {
      if (text.size() < kNoteColumn) text.resize(kNoteColumn, ' ');
      text += "  <- " + note;
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace fettle
