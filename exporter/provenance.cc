// SPDX-License-Identifier: Apache-2.0
#include "exporter/provenance.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/json_text.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using nlohmann::json;

// Reads members by path; remembers the first one that is missing or of the wrong kind.
class Reader {
 public:
  explicit Reader(const json& root) : root_(root) {}

  const json& At(const std::string& path) {
    static const json kNull;
    const json::json_pointer pointer(path);
    if (root_.contains(pointer)) return root_.at(pointer);
    Complain(path, "is missing");
    return kNull;
  }
  std::string Text(const std::string& path) {
    const json& value = At(path);
    if (value.is_string()) return value.get<std::string>();
    Complain(path, "must be text");
    return "";
  }
  double Number(const std::string& path) {
    const json& value = At(path);
    if (value.is_number()) return value.get<double>();
    Complain(path, "must be a number");
    return 0;
  }
  json Object(const std::string& path) {
    const json& value = At(path);
    if (!value.is_object()) Complain(path, "must be an object");
    return value;
  }
  void Complain(const std::string& path, const char* what) {
    if (complaint_.empty()) complaint_ = fmt::format("provenance document: {} {}", path, what);
  }
  absl::Status status() const {
    return complaint_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(complaint_);
  }

 private:
  const json& root_;
  std::string complaint_;
};

// An id becomes part of file names.
bool IsPlainId(const std::string& id) {
  return !id.empty() && id.size() <= 80 && id[0] != '-' &&
         std::all_of(id.begin(), id.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
}

bool IsDigest(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

std::vector<std::string> Words(const json& value) {
  std::vector<std::string> words;
  if (!value.is_array()) return words;
  for (const json& word : value) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

ProvenanceBuild ReadBuild(Reader& reader, std::size_t index, const std::string& target) {
  const std::string at = fmt::format("/builds/{}", index);
  const json build = reader.Object(at);
  ProvenanceBuild result;
  result.target = build.value("target", json(target)).is_string()
                      ? build.value("target", json(target)).get<std::string>()
                      : "";
  const json status = build.value("status", json("run"));
  result.status = status.is_string() ? status.get<std::string>() : "";
  if (result.status != "run" && result.status != "emulated" && result.status != "compiled_only") {
    reader.Complain(at + "/status", "must be run, emulated or compiled_only");
  }
  result.key = reader.Text(at + "/key");
  result.code_object = reader.Text(at + "/code_object");
  if (!IsDigest(result.code_object)) reader.Complain(at + "/code_object", "must be a digest");
  result.compiler = reader.Text(at + "/compiler");
  result.entries = Words(reader.At(at + "/entries"));
  result.symbols = Words(reader.At(at + "/symbols"));
  if (result.entries.empty() || result.entries.size() != result.symbols.size()) {
    reader.Complain(at + "/symbols", "must name one symbol for each entry");
  }
  result.facts = build.value("facts", json::object());
  return result;
}

}  // namespace

absl::StatusOr<VariantProvenance> ParseProvenance(std::string_view text) {
  VariantProvenance result;
  result.document = ParseJson(text);
  if (!result.document.is_object()) {
    return absl::InvalidArgumentError("provenance document: not a JSON object");
  }
  Reader reader(result.document);
  if (reader.At("/format") != json(1)) reader.Complain("/format", "must be 1");
  result.id = reader.Text("/variant/id");
  if (!IsPlainId(result.id)) {
    reader.Complain("/variant/id", "must be letters, digits, '-' and '_', at most 80");
  }
  result.status = reader.Text("/variant/status");
  result.values = reader.Object("/variant/values");
  result.ratio = reader.Number("/variant/ratio");
  result.ratio_low = reader.Number("/variant/ratio_low");
  result.ratio_high = reader.Number("/variant/ratio_high");
  result.task_name = reader.Text("/task/name");
  result.task_digest = reader.Text("/task/digest");
  result.task_blob = reader.Text("/task/blob");
  result.target = reader.Text("/target");
  result.kernel = reader.Object("/kernel");
  result.baseline_kernel = reader.Object("/baseline/kernel");
  result.baseline_values = reader.Object("/baseline/values");
  result.denominator_kernel = reader.Object("/denominator/kernel");
  result.denominator_values = reader.Object("/denominator/values");
  const json& builds = reader.At("/builds");
  if (!builds.is_array()) reader.Complain("/builds", "must be a list");
  for (std::size_t i = 0; builds.is_array() && i < builds.size(); ++i) {
    result.builds.push_back(ReadBuild(reader, i, result.target));
  }
  const json verification = reader.Object("/verification");
  const json measurement = reader.Object("/measurement");
  FETTLE_RETURN_IF_ERROR(reader.status());
  FETTLE_ASSIGN_OR_RETURN(result.verification, VerificationReportFromJson(verification));
  FETTLE_ASSIGN_OR_RETURN(result.measurement, MeasurementFromJson(measurement));
  return result;
}

}  // namespace fettle
