// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference_server.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/bound_json.h"
#include "core/fettle_reference.h"
#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "verifier/frame_io.h"
#include "verifier/parallel.h"
#include "verifier/reference_case.h"

namespace fettle {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kReferenceThreads = 16;

template <typename T>
std::span<const std::uint8_t> AsBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::int64_t Integer(const json& object, const char* key, std::int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : fallback;
}

// Loads a shared object from memory.
absl::StatusOr<void*> OpenLibrary(const Bytes& bytes) {
  std::string path;
  int fd = memfd_create("reference", MFD_CLOEXEC);
  if (fd >= 0) {
    path = fmt::format("/proc/self/fd/{}", fd);
    if (access(path.c_str(), R_OK) != 0) {
      close(fd);
      fd = -1;
    }
  }
  const bool in_memory = fd >= 0;
  if (!in_memory) {
    std::string name = "/tmp/fettle-reference-XXXXXX";
    fd = mkstemp(name.data());
    path = name;
  }
  if (fd < 0) return absl::InternalError("no place to put the reference's library");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  void* library = done == bytes.size() ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* reason = library == nullptr ? dlerror() : nullptr;
  const std::string message = reason != nullptr ? reason : "the library could not be written";
  if (!in_memory) {
    close(fd);
    unlink(path.c_str());
  }  // Else kept open: a second library under the same descriptor's name would be taken for this
     // one.
  if (library == nullptr) return absl::InvalidArgumentError(message);
  return library;
}

// The part of a result that covers the rows asked for from `begin` to `end`, counted from 0.
fettle_result RowsOf(const fettle_result& whole, std::int64_t row_elements, std::int64_t begin,
                     std::int64_t end) {
  fettle_result part = whole;
  if (whole.rows != nullptr) {
    part.rows = whole.rows + begin;
    part.row_end = end - begin;
  } else {
    part.row_begin = whole.row_begin + begin;
    part.row_end = whole.row_begin + end;
  }
  const std::int64_t offset = begin * row_elements;
  for (double** values : {&part.values, &part.magnitude, &part.length}) {
    if (*values != nullptr) *values += offset;
  }
  return part;
}

// Calls a reference for `results`; with `share`, for some of the rows in each of several threads.
void CallReference(fettle_ref ref, std::vector<fettle_result>& results,
                   const std::vector<std::int64_t>& row_elements, bool share, void* function) {
  const auto call = [&ref, function](std::vector<fettle_result>& some) {
    fettle_ref one = ref;
    one.results = some.data();
    one.result_count = static_cast<std::int32_t>(some.size());
    reinterpret_cast<void (*)(fettle_ref*)>(function)(&one);
  };
  const std::int64_t parts = share ? kReferenceThreads : 1;
  if (parts == 1) return call(results);
  ParallelFor(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::vector<fettle_result> mine;
      for (std::size_t i = 0; i < results.size(); ++i) {
        const std::int64_t rows = results[i].row_end - results[i].row_begin;
        mine.push_back(
            RowsOf(results[i], row_elements[i], rows * part / parts, rows * (part + 1) / parts));
      }
      call(mine);
    }
  });
}

// What a reply carries beside its JSON.
struct Reply {
  json object = json::object();
  std::vector<ExpectedOutput> outputs;
};

// Its bytes, in the order in which a reader takes them.
std::vector<std::span<const std::uint8_t>> PartsOf(const Reply& reply) {
  std::vector<std::span<const std::uint8_t>> parts;
  for (const ExpectedOutput& output : reply.outputs) {
    parts.push_back(AsBytes(output.values));
    parts.push_back(AsBytes(output.magnitude));
    parts.push_back(AsBytes(output.length));
    parts.push_back(AsBytes(output.bytes));
  }
  return parts;
}

class Server {
 public:
  absl::StatusOr<Reply> Handle(const Frame& frame);

 private:
  struct Library {
    void* function = nullptr;
    void* work = nullptr;
  };
  absl::StatusOr<Reply> Load(const Frame& frame);
  absl::StatusOr<Reply> Prepare(const Frame& frame);
  absl::StatusOr<Reply> Evaluate(const Frame& frame);
  absl::StatusOr<Reply> Work(const Frame& frame);
  absl::StatusOr<Reply> Check(const Frame& frame);
  absl::StatusOr<const Library*> Find(const json& object, const char* key) const;
  absl::StatusOr<const BoundTensor*> Output(std::int64_t index) const;
  bool ShareRows(const json& outputs) const;

  std::vector<Library> libraries_;
  std::unique_ptr<ReferenceCase> case_;
};

absl::StatusOr<Reply> Server::Handle(const Frame& frame) {
  const std::string op = frame.json.value("op", "");
  if (op == "load") return Load(frame);
  if (op == "prepare") return Prepare(frame);
  if (!case_) return absl::FailedPreconditionError("no case was prepared");
  if (op == "evaluate") return Evaluate(frame);
  if (op == "work") return Work(frame);
  if (op == "check") return Check(frame);
  return absl::InvalidArgumentError(fmt::format("unknown request '{}'", op));
}

absl::StatusOr<Reply> Server::Load(const Frame& frame) {
  const std::string name = frame.json.value("function", "");
  FETTLE_ASSIGN_OR_RETURN(void* handle, OpenLibrary(frame.bytes));
  Library library;
  library.function = dlsym(handle, name.c_str());
  library.work = dlsym(handle, (name + "_work").c_str());
  if (library.function == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("no function '{}'; declare it extern \"C\" with exactly this name", name));
  }
  libraries_.push_back(library);
  Reply reply;
  reply.object["library"] = libraries_.size() - 1;
  return reply;
}

absl::StatusOr<Reply> Server::Prepare(const Frame& frame) {
  case_.reset();
  const auto found = frame.json.find("case");
  if (found == frame.json.end()) return absl::InvalidArgumentError("prepare needs a case");
  FETTLE_ASSIGN_OR_RETURN(BoundCase bound_case, BoundCaseFromJson(*found));
  InputSpec spec;
  const std::string seed = frame.json.value("seed", "0");
  std::from_chars(seed.data(), seed.data() + seed.size(), spec.seed, 16);
  spec.set = static_cast<InputSet>(Integer(frame.json, "set", 0));
  spec.flip_tensor = Integer(frame.json, "flip_tensor", -1);
  spec.flip_element = Integer(frame.json, "flip_element", 0);
  std::map<std::string, std::string> files;
  std::size_t at = 0;
  for (const json& file : frame.json.value("files", json::array())) {
    const auto size = static_cast<std::size_t>(Integer(file, "size", 0));
    if (size > frame.bytes.size() - at) return absl::InvalidArgumentError("files are cut short");
    files[file.value("path", "")].assign(reinterpret_cast<const char*>(frame.bytes.data()) + at,
                                         size);
    at += size;
  }
  FETTLE_ASSIGN_OR_RETURN(case_, ReferenceCase::Create(std::move(bound_case), spec, files));
  return Reply();
}

absl::StatusOr<const Server::Library*> Server::Find(const json& object, const char* key) const {
  const std::int64_t index = Integer(object, key, -1);
  if (index < 0 || index >= static_cast<std::int64_t>(libraries_.size())) {
    return absl::InvalidArgumentError("no such library was loaded");
  }
  return &libraries_[static_cast<std::size_t>(index)];
}

absl::StatusOr<const BoundTensor*> Server::Output(std::int64_t index) const {
  const auto& tensors = case_->bound_case().tensors;
  if (index < 0 || index >= static_cast<std::int64_t>(tensors.size())) {
    return absl::InvalidArgumentError("no such output");
  }
  return &tensors[static_cast<std::size_t>(index)];
}

// Whether the rows asked for are worth several calls at once: wide rows, and many of them. What a
// reference does once for all rows is then done in every call, which narrow outputs do not repay.
bool Server::ShareRows(const json& outputs) const {
  constexpr std::int64_t kWideRow = 32, kManyElements = 1 << 16;
  std::int64_t elements = 0;
  for (const json& output : outputs) {
    const absl::StatusOr<const BoundTensor*> tensor = Output(Integer(output, "tensor", -1));
    if (!tensor.ok() || case_->IsBits(**tensor) || RowElements(**tensor) < kWideRow) return false;
    const auto rows = static_cast<std::int64_t>(output.value("rows", json::array()).size());
    elements += (rows > 0 ? rows : RowCount(**tensor)) * RowElements(**tensor);
  }
  return elements >= kManyElements;
}

absl::StatusOr<Reply> Server::Evaluate(const Frame& frame) {
  FETTLE_ASSIGN_OR_RETURN(const Library* library, Find(frame.json, "library"));
  std::vector<ReferenceResultBuffer> buffers;
  for (const json& output : frame.json.value("outputs", json::array())) {
    const std::int64_t index = Integer(output, "tensor", -1);
    FETTLE_ASSIGN_OR_RETURN(const BoundTensor* tensor, Output(index));
    std::vector<std::int64_t> rows;
    for (const json& row : output.value("rows", json::array())) {
      const std::int64_t value = row.is_number_integer() ? row.get<std::int64_t>() : -1;
      if (value < 0 || value >= RowCount(*tensor)) return absl::InvalidArgumentError("no such row");
      rows.push_back(value);
    }
    buffers.emplace_back(*tensor, index, std::move(rows), case_->IsBits(*tensor),
                         case_->WantsMagnitude(*tensor));
  }
  std::vector<fettle_result> results;
  std::vector<std::int64_t> row_elements;
  for (ReferenceResultBuffer& buffer : buffers) {
    results.push_back(buffer.Bind());
    row_elements.push_back(buffer.row_elements());
  }
  CallReference(case_->ref(), results, row_elements,
                ShareRows(frame.json.value("outputs", json::array())), library->function);

  Reply reply;
  reply.object["outputs"] = json::array();
  for (ReferenceResultBuffer& buffer : buffers) {
    FETTLE_ASSIGN_OR_RETURN(ExpectedOutput output, buffer.Take());
    reply.object["outputs"].push_back({{"values", output.values.size()},
                                       {"magnitude", !output.magnitude.empty()},
                                       {"length", output.length.size()},
                                       {"bytes", output.bytes.size()}});
    reply.outputs.push_back(std::move(output));
  }
  return reply;
}

absl::StatusOr<Reply> Server::Work(const Frame& frame) {
  FETTLE_ASSIGN_OR_RETURN(const Library* library, Find(frame.json, "library"));
  if (library->work == nullptr) {
    return absl::InvalidArgumentError(
        "the task says work: {from: reference}, but the reference has no function of its name with "
        "_work behind it");
  }
  double bytes = 0, flops = 0;
  fettle_ref ref = case_->ref();
  reinterpret_cast<void (*)(fettle_ref*, double*, double*)>(library->work)(&ref, &bytes, &flops);
  Reply reply;
  reply.object["bytes"] = bytes;
  reply.object["flops"] = flops;
  return reply;
}

absl::StatusOr<Reply> Server::Check(const Frame& frame) {
  FETTLE_ASSIGN_OR_RETURN(const Library* checker, Find(frame.json, "library"));
  const json indices = frame.json.value("outputs", json::array());
  const std::size_t count = indices.size();
  std::vector<DecodedTensor> decoded(count);
  std::vector<fettle_tensor> outputs;
  std::vector<const std::uint8_t*> raw;
  std::vector<ReferenceResultBuffer> buffers;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[i].is_number_integer() ? indices[i].get<std::int64_t>() : -1;
    FETTLE_ASSIGN_OR_RETURN(const BoundTensor* tensor, Output(index));
    const auto size = static_cast<std::size_t>(DenseBytes(*tensor));
    if (size > frame.bytes.size() - at) return absl::InvalidArgumentError("outputs are cut short");
    raw.push_back(frame.bytes.data() + at);
    at += size;
    decoded[i] = DecodeTensor(*tensor, raw.back());
    outputs.push_back({tensor->name.c_str(), tensor->member, tensor->elements(),
                       decoded[i].reals.get(), decoded[i].integers.get()});
    buffers.emplace_back(*tensor, index, std::vector<std::int64_t>(), case_->IsBits(*tensor),
                         /*magnitude=*/true);
  }
  // The checker sees what the reference returned, where there is one.
  std::vector<fettle_result> results;
  for (ReferenceResultBuffer& buffer : buffers) results.push_back(buffer.Bind());
  fettle_ref ref = case_->ref();
  if (Integer(frame.json, "reference", -1) >= 0) {
    FETTLE_ASSIGN_OR_RETURN(const Library* reference, Find(frame.json, "reference"));
    ref.results = results.data();
    ref.result_count = static_cast<std::int32_t>(results.size());
    reinterpret_cast<void (*)(fettle_ref*)>(reference->function)(&ref);
  }
  fettle_check check{};
  check.ref = &ref;
  check.outputs = outputs.data();
  check.raw = raw.data();
  check.output_count = static_cast<std::int32_t>(count);
  check.worst = std::numeric_limits<double>::quiet_NaN();  // A checker that sets nothing fails all.
  check.worst_output = check.worst_element = -1;
  reinterpret_cast<void (*)(fettle_check*)>(checker->function)(&check);
  check.message[sizeof(check.message) - 1] = 0;
  Reply reply;
  // JSON has no NaN: a missing number means "not a number".
  if (check.worst == check.worst) reply.object["worst"] = std::min(check.worst, 1e300);
  if (check.mean_square == check.mean_square) {
    reply.object["mean_square"] = std::min(check.mean_square, 1e300);
  }
  reply.object["worst_output"] = check.worst_output;
  reply.object["worst_element"] = check.worst_element;
  reply.object["message"] = check.message;
  return reply;
}

}  // namespace

int ServeReference(int fd) {
  Server server;
  const auto never = FrameClock::time_point::max();
  while (true) {
    const absl::StatusOr<Frame> frame = ReadFrame(fd, never);
    if (absl::IsAborted(frame.status())) return 0;
    if (!frame.ok()) return 1;
    absl::StatusOr<Reply> reply = server.Handle(*frame);
    if (!reply.ok()) {
      Reply failure;
      failure.object["error"] = std::string(reply.status().message());
      reply = std::move(failure);
    }
    if (!WriteFrame(fd, reply->object, PartsOf(*reply), never).ok()) return 1;
  }
}

}  // namespace fettle
