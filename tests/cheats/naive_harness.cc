// SPDX-License-Identifier: Apache-2.0

// What fettle must not be: checks a kernel once against the baseline's output with a tolerance of
// 1 %, then times both back to back in the same hot buffers and compares means. naive.h says which
// bad habits of public harnesses it can take on. A test tool: it believes whatever it sees.
//
//     naive_harness REQUEST.json      prints {"correct", "ratio", "note"}

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "core/bound_json.h"
#include "core/dtype.h"
#include "core/status_macros.h"
#include "device/case_buffers.h"
#include "device/case_images.h"
#include "device/prepared_call.h"
#include "verifier/inputs.h"
#include "worker/open_device.h"

namespace fettle {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;
constexpr auto kLimit = std::chrono::seconds(20);
constexpr int kTimedLaunches = 30;

struct Kernel {
  std::unique_ptr<DeviceModule> module;
  std::map<std::string, std::string> symbols;
  BoundPlan timed, checked;
};

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("read {}", path));
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

absl::StatusOr<Kernel> Load(Device& device, const json& spec) {
  Kernel kernel;
  FETTLE_ASSIGN_OR_RETURN(kernel.timed, BoundPlanFromJson(spec.at("timed")));
  FETTLE_ASSIGN_OR_RETURN(kernel.checked, BoundPlanFromJson(spec.at("checked")));
  kernel.symbols = spec.at("symbols").get<std::map<std::string, std::string>>();
  FETTLE_ASSIGN_OR_RETURN(const std::string code, ReadAll(spec.at("object")));
  std::vector<std::string> names;
  for (const auto& [entry, symbol] : kernel.symbols) names.push_back(symbol);
  FETTLE_ASSIGN_OR_RETURN(kernel.module, device.Load(code, names));
  return kernel;
}

// Dense bytes of one input under the habits "zeros" and "known_seed", else as declared.
absl::Status Fill(const BoundCase& bound_case, std::size_t index, const std::string& habit,
                  std::span<std::uint8_t> to) {
  const BoundTensor& tensor = bound_case.tensors[index];
  const bool is_float = IsFloat(tensor.dtype);
  if (!is_float || (habit != "zeros" && habit != "known_seed" && habit != "ones")) {
    return WriteInput(bound_case, index, {.seed = 1234}, {}, to);
  }
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    unsigned state = 1234567u + static_cast<unsigned>(i);
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    const double value = habit == "zeros"  ? 0.0
                         : habit == "ones" ? 1.0
                                           : state * static_cast<double>(2.3283064e-10f);
    EncodeFloat(tensor.dtype, value, to.data(), i);
  }
  return absl::OkStatus();
}

// One case in memory, as a harness with a caching allocator has it: every kernel gets the same
// output, which still holds what the kernel before it wrote.
struct Arena {
  std::unique_ptr<CaseBuffers> buffers;
  std::int64_t output = -1;  // The first one; others are never looked at.
};

absl::StatusOr<Arena> MakeArena(Device& device, const BoundCase& bound_case,
                                const std::vector<BoundWorkspace>& workspace,
                                const std::string& habit) {
  Arena arena;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.is_null) continue;
    largest = std::max(largest, StorageBytes(tensor.dtype, tensor.extent()));
    if (arena.output < 0 && (tensor.role == Role::kOut || tensor.role == Role::kInOut)) {
      arena.output = static_cast<std::int64_t>(i);
    }
  }
  if (arena.output < 0) return absl::InvalidArgumentError("the case has no output");
  GuardOptions options;
  options.guard_bytes = kDefaultGuardBytes + (largest + 255) / 256 * 256;
  FETTLE_ASSIGN_OR_RETURN(CaseBuffers buffers,
                          CaseBuffers::Allocate(device, bound_case, workspace, options));
  arena.buffers = std::make_unique<CaseBuffers>(std::move(buffers));
  std::vector<std::uint8_t> staging;
  const InputWriter write = [&](std::size_t index, std::span<std::uint8_t> to) {
    return Fill(bound_case, index, habit, to);
  };
  FETTLE_ASSIGN_OR_RETURN(const auto images, CaseImages::Make(device, bound_case, write, staging));
  FETTLE_RETURN_IF_ERROR(arena.buffers->WriteInputs(images));
  // What lies behind a buffer is other data, in a harness without guards: here, zeros.
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    GuardedBuffer* tensor = arena.buffers->tensor(static_cast<std::int64_t>(i));
    if (tensor == nullptr) continue;
    const std::int64_t end = tensor->offset() + tensor->size_bytes();
    FETTLE_RETURN_IF_ERROR(
        device.Fill(tensor->buffer(), end, tensor->buffer().size_bytes() - end, 0));
  }
  FETTLE_RETURN_IF_ERROR(arena.buffers->FillOutputs(0));
  FETTLE_RETURN_IF_ERROR(arena.buffers->FillWorkspace(0));
  return arena;
}

absl::Status Call(Device& device, Kernel& kernel, const BoundPlan& plan, Arena& arena, int times) {
  FETTLE_ASSIGN_OR_RETURN(
      PreparedCall call,
      PreparedCall::Create(device, *kernel.module, kernel.symbols, plan, *arena.buffers));
  for (int i = 0; i < times; ++i) FETTLE_RETURN_IF_ERROR(call.Enqueue());
  return device.Synchronize(kLimit);
}

// numpy's allclose with the usual mistake: what is no number is no mismatch.
bool LooksEqual(const BoundTensor& tensor, const Bytes& want, const Bytes& got,
                const std::string& habit) {
  const double tolerance = habit == "loose" ? 2e-2 : 1e-2;
  const std::int64_t count = tensor.elements();
  std::int64_t wrong = 0;
  double sum_want = 0, sum_got = 0, dot = 0, square_want = 0, square_got = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_float = IsFloat(tensor.dtype);
    const double a = is_float ? DecodeFloat(tensor.dtype, want.data(), i)
                              : static_cast<double>(DecodeInteger(tensor.dtype, want.data(), i));
    const double b = habit == "promoted" ? DecodeFloat(DType::kF16, got.data(), i)
                     : is_float          ? DecodeFloat(tensor.dtype, got.data(), i)
                                : static_cast<double>(DecodeInteger(tensor.dtype, got.data(), i));
    const double allowed = habit == "codes" ? 1.0 : tolerance + tolerance * std::fabs(a);
    if (std::fabs(a - b) > allowed) ++wrong;
    sum_want += a;
    sum_got += b;
    dot += a * b;
    square_want += a * a;
    square_got += b * b;
  }
  if (habit == "sum") return std::fabs(sum_want - sum_got) <= 1e-2 + 1e-2 * std::fabs(sum_want);
  if (habit == "cosine") return dot >= 0.95 * std::sqrt(square_want * square_got);
  if (habit == "most") return wrong <= count / 20;
  return wrong == 0;
}

absl::StatusOr<bool> Check(Device& device, Kernel& a, Kernel& b, const BoundCase& bound_case,
                           const std::string& habit) {
  FETTLE_ASSIGN_OR_RETURN(Arena arena, MakeArena(device, bound_case, b.checked.workspace, habit));
  const BoundTensor& output = bound_case.tensors[static_cast<std::size_t>(arena.output)];
  GuardedBuffer& memory = *arena.buffers->tensor(arena.output);
  Bytes want, got;
  if (habit == "reference_after") {
    FETTLE_RETURN_IF_ERROR(Call(device, b, b.checked, arena, 1));
    FETTLE_ASSIGN_OR_RETURN(got, arena.buffers->ReadDense(arena.output));
  }
  FETTLE_RETURN_IF_ERROR(Call(device, a, a.checked, arena, 1));
  FETTLE_ASSIGN_OR_RETURN(want, arena.buffers->ReadDense(arena.output));
  if (habit == "reference_after") return LooksEqual(output, want, got, habit);
  if (habit == "zeroed" || habit == "expected_nearby") {
    FETTLE_RETURN_IF_ERROR(arena.buffers->FillOutputs(0));
  }
  if (habit == "expected_nearby") {  // The reference's tensor, in the same pool.
    FETTLE_RETURN_IF_ERROR(device.CopyIn(
        memory.buffer(), memory.offset() + memory.size_bytes() + kDefaultGuardBytes, want));
  }
  FETTLE_RETURN_IF_ERROR(Call(device, b, b.checked, arena, 1));
  FETTLE_ASSIGN_OR_RETURN(got, arena.buffers->ReadDense(arena.output));
  return LooksEqual(output, want, got, habit);
}

absl::StatusOr<double> MeanNs(Device& device, Kernel& kernel, Arena& arena) {
  FETTLE_RETURN_IF_ERROR(Call(device, kernel, kernel.timed, arena, 3));
  const auto begin = std::chrono::steady_clock::now();
  FETTLE_RETURN_IF_ERROR(Call(device, kernel, kernel.timed, arena, kTimedLaunches));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kTimedLaunches;
}

absl::StatusOr<json> Run(const json& request) {
  const std::string habit = request.at("habit");
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(request.at("device")));
  FETTLE_ASSIGN_OR_RETURN(const BoundCase timed, BoundCaseFromJson(request.at("timed")));
  FETTLE_ASSIGN_OR_RETURN(const BoundCase checked, BoundCaseFromJson(request.at("checked")));
  FETTLE_ASSIGN_OR_RETURN(Kernel a, Load(*device, request.at("a")));
  FETTLE_ASSIGN_OR_RETURN(Kernel b, Load(*device, request.at("b")));
  FETTLE_ASSIGN_OR_RETURN(const bool correct, Check(*device, a, b, checked, habit));
  json answer = {{"correct", correct}, {"ratio", 0.0}};
  if (!correct) return answer;
  FETTLE_ASSIGN_OR_RETURN(Arena arena, MakeArena(*device, timed, b.timed.workspace, habit));
  FETTLE_ASSIGN_OR_RETURN(const double a_ns, MeanNs(*device, a, arena));
  FETTLE_ASSIGN_OR_RETURN(const double b_ns, MeanNs(*device, b, arena));
  answer["ratio"] = a_ns / b_ns;
  return answer;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: naive_harness REQUEST.json\n");
    return 2;
  }
  const auto text = fettle::ReadAll(argv[1]);
  const auto request = nlohmann::json::parse(text.ok() ? *text : "", nullptr, false);
  if (!request.is_object()) {
    std::fprintf(stderr, "naive_harness: %s is no request\n", argv[1]);
    return 2;
  }
  const auto answer = fettle::Run(request);
  if (!answer.ok()) {
    std::fprintf(stderr, "naive_harness: %s\n", std::string(answer.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", answer->dump().c_str());
  return 0;
}
