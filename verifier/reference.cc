// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "core/bound_json.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/stored_output.h"
#include "device/tensor_layout.h"
#include "verifier/frame_io.h"
#include "verifier/npy.h"
#include "verifier/random.h"
#include "verifier/reference_build.h"
#include "verifier/reference_store.h"

namespace fettle {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kMostStoredBytes = std::int64_t{16} << 20;
constexpr double kStoredBytesPerSecond = 100e6;  // Packed, written, and its digest taken.

std::span<const std::uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

const BoundTolerance* ToleranceOf(const BoundCase& bound_case, const std::string& output) {
  for (const BoundTolerance& tolerance : bound_case.tolerances) {
    if (tolerance.output == output) return &tolerance;
  }
  return nullptr;
}

// Whether the comparison needs the reference's values of this output.
bool IsCompared(const BoundCase& bound_case, const BoundTensor& tensor) {
  if (!IsOutput(tensor)) return false;
  const BoundTolerance* tolerance = ToleranceOf(bound_case, tensor.name);
  return tolerance == nullptr || tolerance->kind != BoundTolerance::Kind::kChecker;
}

// How many elements of an output are compared at most, so that all of the case are within
// `max_elements`: what an output leaves of an equal part goes to the larger ones.
std::int64_t ElementsCompared(const BoundCase& bound_case, std::int64_t max_elements) {
  std::vector<std::int64_t> sizes;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (IsCompared(bound_case, tensor)) sizes.push_back(tensor.elements());
  }
  std::sort(sizes.begin(), sizes.end());
  std::int64_t left = max_elements;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t part = left / static_cast<std::int64_t>(sizes.size() - i);
    if (sizes[i] > part) return part;
    left -= sizes[i];
  }
  return max_elements;
}

std::string CaseKey(const ReferenceSource& source, const std::string& inputs,
                    const BoundCase& bound_case, const InputSpec& spec) {
  json form = ToJson(bound_case);
  form.erase("label");  // Held-out cases are drawn anew under the same labels.
  return Sha256Hex(fmt::format("{}|{}|{}|{:x}|{}|{}|{}", source.task_digest, inputs,
                               CanonicalJson(form), spec.seed, static_cast<int>(spec.set),
                               spec.flip_tensor, spec.flip_tensor < 0 ? 0 : spec.flip_element));
}

std::set<std::string> FilesOfFill(const Fill& fill) {
  std::set<std::string> files;
  if (fill.kind == Fill::Kind::kFile) files.insert(fill.file);
  for (const auto& [row, one] : fill.rows) files.merge(FilesOfFill(one));
  return files;
}

// Doubles at `*at` of the reply.
absl::Status TakeDoubles(const Bytes& bytes, std::size_t* at, std::size_t count,
                         std::vector<double>* out) {
  if (count > (bytes.size() - *at) / 8) {
    return absl::InternalError("the reference process sent a short answer");
  }
  out->resize(count);
  if (count > 0) std::memcpy(out->data(), bytes.data() + *at, count * 8);
  *at += count * 8;
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, std::string> FillFiles(const BoundCase& bound_case,
                                             const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> needed;
  for (const BoundTensor& tensor : bound_case.tensors) {
    for (const std::string& path : FilesOfFill(tensor.fill)) {
      const auto found = files.find(path);
      if (found != files.end()) needed.insert(*found);
    }
  }
  return needed;
}

std::vector<std::int64_t> ChooseRows(const BoundCase& bound_case, std::size_t output,
                                     std::int64_t max_elements, std::uint64_t seed) {
  const BoundTensor& tensor = bound_case.tensors[output];
  const std::int64_t share = ElementsCompared(bound_case, max_elements);
  const std::int64_t rows = RowCount(tensor), row = RowElements(tensor);
  if (tensor.elements() <= share || rows <= 2) return {};
  const std::int64_t want = std::clamp<std::int64_t>(share / std::max<std::int64_t>(1, row), 2,
                                                     std::min<std::int64_t>(rows, 65536));
  if (want >= rows) return {};
  std::set<std::int64_t> chosen{0, rows - 1};
  const RandomPermutation order(static_cast<std::uint64_t>(rows), DeriveSeed(seed, "rows", output));
  for (std::uint64_t i = 0; static_cast<std::int64_t>(chosen.size()) < want; ++i) {
    chosen.insert(static_cast<std::int64_t>(order(i)));
  }
  return {chosen.begin(), chosen.end()};
}

Reference::Reference(ReferenceSource source, ReferenceOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      store_(options_.cache_dir, options_.disk_cache_bytes) {
  if (options_.memory_cache_bytes == 0) {
    const std::int64_t memory =
        std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGESIZE)};
    options_.memory_cache_bytes =
        std::clamp<std::int64_t>(memory / 8, std::int64_t{256} << 20, std::int64_t{4} << 30);
  }
}

Reference::~Reference() = default;

absl::StatusOr<std::unique_ptr<Reference>> Reference::Create(ReferenceSource source,
                                                             ReferenceOptions options) {
  std::unique_ptr<Reference> result(new Reference(std::move(source), std::move(options)));
  FETTLE_RETURN_IF_ERROR(result->Build());
  return result;
}

absl::Status Reference::Build() {
  std::vector<ReferenceSource::Function> functions;
  if (source_.kind == "cxx") functions.push_back(source_.reference);
  functions.insert(functions.end(), source_.checkers.begin(), source_.checkers.end());
  std::map<std::string, std::string> built;  // One file may hold several functions.
  for (const ReferenceSource::Function& function : functions) {
    std::string& library = built[function.file];
    if (library.empty()) {
      FETTLE_ASSIGN_OR_RETURN(library, BuildReference(source_.files, function.file,
                                                      options_.compiler, options_.cache_dir));
    }
    libraries_.push_back(library);
  }
  return absl::OkStatus();
}

Reference::SeatHold Reference::TakeSeat(const std::string& key) {
  std::unique_lock lock(mutex_);
  const auto most = static_cast<std::size_t>(std::max(1, options_.processes));
  changed_.wait(lock, [&] { return !free_.empty() || seats_.size() < most; });
  const auto holds =
      std::find_if(free_.begin(), free_.end(), [&](Seat* seat) { return seat->prepared == key; });
  Seat* taken = nullptr;
  if (holds != free_.end() || !free_.empty()) {
    const auto chosen = holds != free_.end() ? holds : free_.end() - 1;
    taken = *chosen;
    free_.erase(chosen);
  } else {
    seats_.push_back(std::make_unique<Seat>());
    taken = seats_.back().get();
  }
  return SeatHold(taken, [this](Seat* seat) {
    const std::lock_guard relock(mutex_);
    free_.push_back(seat);
    changed_.notify_all();
  });
}

absl::Status Reference::EnsureProcess(Seat& seat) {
  if (seat.process) return absl::OkStatus();
  seat.prepared.clear();
  FETTLE_ASSIGN_OR_RETURN(seat.process, options_.start());
  std::vector<std::string> functions;
  if (source_.kind == "cxx") functions.push_back(source_.reference.function);
  for (const auto& checker : source_.checkers) functions.push_back(checker.function);
  for (std::size_t i = 0; i < libraries_.size(); ++i) {
    FETTLE_RETURN_IF_ERROR(
        Call(seat, {{"op", "load"}, {"function", functions[i]}}, {AsBytes(libraries_[i])}, nullptr)
            .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<json> Reference::Call(Seat& seat, const json& request,
                                     const std::vector<std::span<const std::uint8_t>>& bytes,
                                     Bytes* reply_bytes) {
  const std::string op = request.value("op", "");
  const auto deadline = FrameClock::now() + options_.call_limit;
  absl::Status status = WriteFrame(seat.process->channel(), request, bytes, deadline);
  absl::StatusOr<Frame> reply = status.ok() ? ReadFrame(seat.process->channel(), deadline) : status;
  const std::string what = op == "check" ? "checker" : "reference";
  const std::string name = fmt::format("{} '{}' ({}){}", what, source_.reference.function,
                                       source_.reference.file, seat.place);
  if (!reply.ok()) {
    const std::string ending = seat.process->Ending();
    seat.process.reset();
    if (absl::IsDeadlineExceeded(reply.status())) {
      return absl::FailedPreconditionError(fmt::format(
          "the task's {} did not return within {} s; make it faster or the case smaller", name,
          options_.call_limit.count()));
    }
    // Nothing in its sandbox can raise it: the system ended it, for want of memory say.
    if (ending.find("SIGKILL") != std::string::npos) {
      return absl::UnavailableError(
          fmt::format("the process of the task's {} was killed from outside", name));
    }
    return absl::FailedPreconditionError(fmt::format(
        "the task's {} crashed: {}; run it under a debugger on this case", name, ending));
  }
  if (reply->json.contains("error")) {
    return absl::FailedPreconditionError(
        fmt::format("the task's {}: {}", name, reply->json.value("error", "")));
  }
  if (reply_bytes != nullptr) *reply_bytes = std::move(reply->bytes);
  return std::move(reply->json);
}

absl::Status Reference::PrepareCase(Seat& seat, const std::string& key, const BoundCase& bound_case,
                                    const InputSpec& spec) {
  seat.place = " on case " + bound_case.Describe();
  if (bound_case.set == CaseSet::kHeldOut) seat.place = " on a held-out case";
  FETTLE_RETURN_IF_ERROR(EnsureProcess(seat));
  if (seat.prepared == key) return absl::OkStatus();
  seat.prepared.clear();
  json request = {{"op", "prepare"},
                  {"case", ToJson(bound_case)},
                  {"seed", fmt::format("{:x}", spec.seed)},
                  {"set", static_cast<int>(spec.set)},
                  {"flip_tensor", spec.flip_tensor},
                  {"flip_element", spec.flip_element},
                  {"files", json::array()}};
  std::vector<std::span<const std::uint8_t>> parts;
  const auto files = FillFiles(bound_case, source_.files);
  for (const auto& [path, text] : files) {
    request["files"].push_back({{"path", path}, {"size", text.size()}});
    parts.push_back(AsBytes(text));
  }
  FETTLE_RETURN_IF_ERROR(Call(seat, request, parts, nullptr).status());
  seat.prepared = key;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Expected>> Reference::Evaluate(const BoundCase& bound_case,
                                                                    const InputSpec& spec,
                                                                    bool ahead) {
  const std::string key = CaseKey(source_, options_.inputs, bound_case, spec);
  {
    std::unique_lock lock(mutex_);
    const int most_ahead = std::max(1, options_.processes - 1);
    changed_.wait(lock, [&] {
      return !computing_.contains(key) && (!ahead || ahead_ < most_ahead || by_key_.contains(key));
    });
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->second;
    }
    computing_.insert(key);
    ahead_ += ahead;
  }
  auto expected = Compute(key, bound_case, spec);
  const std::lock_guard lock(mutex_);
  computing_.erase(key);
  ahead_ -= ahead;
  if (expected.ok()) Remember(key, *expected);
  changed_.notify_all();
  return expected;
}

absl::StatusOr<std::shared_ptr<const Expected>> Reference::Compute(const std::string& key,
                                                                   const BoundCase& bound_case,
                                                                   const InputSpec& spec) {
  if (auto stored = store_.Get(key)) return std::make_shared<const Expected>(*std::move(stored));
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Expected> expected =
      source_.kind == "npy" ? EvaluateStored(bound_case) : EvaluateCxx(key, bound_case, spec);
  if (!expected.ok()) return expected.status();
  auto shared = std::make_shared<const Expected>(*std::move(expected));
  // Others cost more to store and check than to compute again.
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto bytes = static_cast<double>(shared->bytes());
  if (shared->bytes() <= kMostStoredBytes && took.count() * kStoredBytesPerSecond > bytes) {
    store_.Put(key, *shared);
  }
  return shared;
}

void Reference::Remember(const std::string& key, std::shared_ptr<const Expected> expected) {
  cached_bytes_ += expected->bytes();
  recent_.emplace_front(key, std::move(expected));
  by_key_[key] = recent_.begin();
  while (cached_bytes_ > options_.memory_cache_bytes && recent_.size() > 1) {
    cached_bytes_ -= recent_.back().second->bytes();
    by_key_.erase(recent_.back().first);
    recent_.pop_back();
  }
}

absl::StatusOr<Expected> Reference::EvaluateCxx(const std::string& key, const BoundCase& bound_case,
                                                const InputSpec& spec) {
  const SeatHold seat = TakeSeat(key);
  FETTLE_RETURN_IF_ERROR(PrepareCase(*seat, key, bound_case, spec));
  Expected expected;
  json outputs = json::array();
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!IsCompared(bound_case, tensor)) continue;
    ExpectedOutput one;
    one.name = tensor.name;
    one.tensor = static_cast<std::int64_t>(i);
    one.row_elements = RowElements(tensor);
    one.rows = ChooseRows(bound_case, i, options_.max_elements, spec.seed);
    outputs.push_back({{"tensor", i}, {"rows", one.rows}});
    expected.outputs.push_back(std::move(one));
  }
  if (expected.outputs.empty()) return expected;
  Bytes bytes;
  FETTLE_ASSIGN_OR_RETURN(
      const json reply,
      Call(*seat, {{"op", "evaluate"}, {"library", 0}, {"outputs", std::move(outputs)}}, {},
           &bytes));
  const json sizes = reply.value("outputs", json::array());
  if (sizes.size() != expected.outputs.size()) {
    return absl::InternalError("the reference process answered another number of outputs");
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ExpectedOutput& output = expected.outputs[i];
    const auto count = sizes[i].value("values", std::size_t{0});
    const auto raw = sizes[i].value("bytes", std::size_t{0});
    FETTLE_RETURN_IF_ERROR(TakeDoubles(bytes, &at, count, &output.values));
    FETTLE_RETURN_IF_ERROR(
        TakeDoubles(bytes, &at, sizes[i].value("magnitude", false) ? count : 0, &output.magnitude));
    FETTLE_RETURN_IF_ERROR(
        TakeDoubles(bytes, &at, sizes[i].value("length", std::size_t{0}), &output.length));
    if (raw > bytes.size() - at) return absl::InternalError("the reference answer is cut short");
    output.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + raw));
    at += raw;
  }
  return expected;
}

absl::StatusOr<Expected> Reference::EvaluateStored(const BoundCase& bound_case) {
  Expected expected;
  std::size_t next = 0;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (!IsOutput(tensor)) continue;
    if (next >= source_.stored.size()) {
      return absl::FailedPreconditionError(
          fmt::format("the task stores {} reference files, output {} has none",
                      source_.stored.size(), tensor.name));
    }
    const std::string path =
        StoredOutputPath(source_.stored[next++], bound_case.label, tensor.member);
    if (!IsCompared(bound_case, tensor)) continue;
    const auto file = source_.files.find(path);
    if (file == source_.files.end()) {
      return absl::FailedPreconditionError(fmt::format("the task has no file '{}'", path));
    }
    const auto array = ParseNpy(file->second);
    if (!array.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: {}", path, std::string(array.status().message())));
    }
    if (array->elements() != tensor.elements()) {
      return absl::FailedPreconditionError(
          fmt::format("{} holds {} elements, output {} has {} in case {}", path, array->elements(),
                      tensor.name, tensor.elements(), bound_case.Describe()));
    }
    ExpectedOutput output;
    output.name = tensor.name;
    output.tensor = static_cast<std::int64_t>(i);
    output.row_elements = RowElements(tensor);
    const BoundTolerance* tolerance = ToleranceOf(bound_case, tensor.name);
    if (tolerance != nullptr && tolerance->kind == BoundTolerance::Kind::kExactBits) {
      FETTLE_ASSIGN_OR_RETURN(output.bytes, NpyToDType(*array, tensor.dtype));
    } else {
      for (std::int64_t e = 0; e < tensor.elements(); ++e) {
        output.values.push_back(array->AsDouble(e));
      }
    }
    expected.outputs.push_back(std::move(output));
  }
  return expected;
}

absl::StatusOr<CheckerResult> Reference::Check(const BoundCase& bound_case, const InputSpec& spec,
                                               std::size_t checker,
                                               const std::vector<Bytes>& outputs) {
  const std::string key = CaseKey(source_, options_.inputs, bound_case, spec);
  const SeatHold seat = TakeSeat(key);
  FETTLE_RETURN_IF_ERROR(PrepareCase(*seat, key, bound_case, spec));
  const bool has_reference = source_.kind == "cxx";
  json request = {{"op", "check"},
                  {"library", checker + (has_reference ? 1 : 0)},
                  {"reference", has_reference ? 0 : -1},
                  {"outputs", json::array()}};
  std::vector<std::span<const std::uint8_t>> parts;
  const std::vector<std::string>& judged = source_.checkers[checker].outputs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    if (!IsOutput(bound_case.tensors[i])) continue;
    const Bytes& bytes = outputs[next++];
    if (std::find(judged.begin(), judged.end(), bound_case.tensors[i].name) == judged.end())
      continue;
    request["outputs"].push_back(i);
    parts.emplace_back(bytes);
  }
  FETTLE_ASSIGN_OR_RETURN(const json reply, Call(*seat, request, parts, nullptr));
  CheckerResult result;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  result.worst = reply.value("worst", nan);
  result.mean_square = reply.value("mean_square", nan);
  result.output = reply.value("worst_output", std::int64_t{-1});
  result.element = reply.value("worst_element", std::int64_t{-1});
  result.message = reply.value("message", "");
  return result;
}

absl::StatusOr<Reference::WorkFigures> Reference::Work(const BoundCase& bound_case,
                                                       const InputSpec& spec) {
  if (source_.kind != "cxx") {
    return absl::FailedPreconditionError("work: {from: reference} needs a C++ reference");
  }
  const std::string key = CaseKey(source_, options_.inputs, bound_case, spec);
  const SeatHold seat = TakeSeat(key);
  FETTLE_RETURN_IF_ERROR(PrepareCase(*seat, key, bound_case, spec));
  FETTLE_ASSIGN_OR_RETURN(const json reply,
                          Call(*seat, {{"op", "work"}, {"library", 0}}, {}, nullptr));
  return WorkFigures{reply.value("bytes", 0.0), reply.value("flops", 0.0)};
}

}  // namespace fettle
