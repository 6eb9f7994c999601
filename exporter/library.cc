// SPDX-License-Identifier: Apache-2.0
#include "exporter/library.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/manifest.h"
#include "exporter/operator_view.h"
#include "exporter/verify.h"
#include "store/files.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

absl::StatusOr<Fd> Lock(const fs::path& library) {
  const fs::path path = library / ".lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return ErrnoStatus(errno, "lock " + path.string());
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "lock " + path.string());
  }
  return fd;
}

absl::StatusOr<json> ReadIndex(const fs::path& library) {
  const fs::path path = library / "registry" / "index.json";
  std::error_code error;
  if (!fs::exists(path, error)) {
    // An empty folder, or one where an export was cut short, may become a library.
    for (const fs::directory_entry& entry : fs::directory_iterator(library, error)) {
      const std::string name = entry.path().filename().string();
      if (name == ".lock" || name == "ops" || name.starts_with("registry.")) continue;
      return absl::AlreadyExistsError(fmt::format(
          "export into {}: it holds {} and is no library of fettle's; choose another folder",
          library.string(), name));
    }
    return json{{"format", 1}, {"ops", json::array()}};
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  json index = ParseJson(text);
  if (!index.is_object() || index.value("format", json()) != json(1) ||
      !index.value("ops", json()).is_array()) {
    return absl::DataLossError(
        fmt::format("export into {}: registry/index.json is damaged", library.string()));
  }
  return index;
}

json* FindOp(json& index, const std::string& name) {
  for (json& op : index["ops"]) {
    if (TextAt(op, "name") == name) return &op;
  }
  return nullptr;
}

// Two bundles of one operator as one.
struct Merged {
  BundleParts parts;
  BundleFiles files;  // Of both, as far as LayOutAgain needs them.
};

void AddBundle(const BundleParts& parts, const BundleFiles& files, const std::string& prefix,
               Merged& merged) {
  for (const auto& [path, bytes] : files) {
    // Objects are found by their digests; equal paths of two bundles may hold different bytes.
    if (path.starts_with("objects/")) merged.files["objects/" + prefix + path.substr(8)] = bytes;
    if (path.starts_with("task/")) merged.files[path] = bytes;
  }
  for (const VariantProvenance& variant : parts.variants) {
    const bool known =
        std::any_of(merged.parts.variants.begin(), merged.parts.variants.end(),
                    [&](const VariantProvenance& one) { return one.id == variant.id; });
    if (!known) merged.parts.variants.push_back(variant);
  }
  for (const ExtraBuild& build : parts.extras.builds) {
    const bool known = std::any_of(merged.parts.extras.builds.begin(),
                                   merged.parts.extras.builds.end(), [&](const ExtraBuild& one) {
                                     return one.kernel == build.kernel &&
                                            one.target == build.target && one.key == build.key;
                                   });
    if (!known) merged.parts.extras.builds.push_back(build);
  }
  merged.parts.extras.runs.insert(parts.extras.runs.begin(), parts.extras.runs.end());
  if (merged.parts.extras.vectors.empty()) merged.parts.extras.vectors = parts.extras.vectors;
}

void Keep(const std::set<std::string>& ids, BundleParts& parts) {
  std::erase_if(parts.variants,
                [&](const VariantProvenance& variant) { return !ids.contains(variant.id); });
  std::erase_if(parts.extras.builds, [&](const ExtraBuild& build) {
    return build.kernel != kBaselineId && !ids.contains(build.kernel);
  });
  std::erase_if(parts.extras.runs, [&](const auto& run) {
    return !ids.contains(TextAt(ParseJson(run.second), "variant"));
  });
}

std::string DigestOf(const BundleFiles& files) {
  const json manifest = ParseJson(files.at("manifest.json"));
  return TextAt(manifest.value("bundle", json()), "digest");
}

json OpEntry(const BundleFiles& files, const std::string& folder) {
  const json manifest = ParseJson(files.at("manifest.json"));
  json variants = json::array();
  for (const json& variant : manifest["variants"]) {
    variants.push_back({{"id", variant["id"]},
                        {"target", variant["target"]},
                        {"device", variant["device"]},
                        {"values", variant["kernel"]["values"]},
                        {"ratio", variant["performance"]["ratio"]},
                        {"ratio_low", variant["performance"]["ratio_low"]}});
  }
  json targets = json::array();
  for (const json& target : manifest["selection"]["targets"]) {
    targets.push_back({{"target", target["target"]},
                       {"mean_regret", target["mean_regret"]},
                       {"worst_regret", target["worst_regret"]}});
  }
  return {{"name", manifest["op"]["name"]},
          {"folder", folder},
          {"version", manifest["bundle"]["version"]},
          {"digest", manifest["bundle"]["digest"]},
          {"task_digest", manifest["op"]["task_digest"]},
          {"license", manifest["op"]["license"]},
          {"targets", targets},
          {"variants", variants},
          {"superseded", json::array()},
          {"history", json::array()}};
}

std::string CmakeConfig(const json& index) {
  std::string text =
      "# Generated by fettle; do not edit. Every operator of this library: find_package(fettle_ops "
      "CONFIG), then\n"
      "# fettle::ops for all of them or fettle::<op> for "
      "one.\ninclude(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n"
      "get_filename_component(_fettle_library \"${CMAKE_CURRENT_LIST_DIR}/..\" "
      "ABSOLUTE)\nset(_fettle_ops \"\")\n";
  for (const json& op : index["ops"]) {
    const std::string name = CppIdentifier(TextAt(op, "name"));
    text += fmt::format(
        "include(\"${{_fettle_library}}/{0}/cmake/fettle_{1}Targets.cmake\")\n"
        "list(APPEND _fettle_ops fettle::{1}-{2})\n",
        TextAt(op, "folder"), name, TextAt(op, "digest").substr(0, 8));
  }
  text +=
      "if(NOT TARGET fettle::ops)\n  add_library(fettle::ops INTERFACE IMPORTED)\n"
      "  set_target_properties(fettle::ops PROPERTIES INTERFACE_LINK_LIBRARIES \"${_fettle_ops}\"\n"
      "    INTERFACE_INCLUDE_DIRECTORIES \"${CMAKE_CURRENT_LIST_DIR}/include\")\nendif()\n";
  return text;
}

std::string RegistrationHeader(const json& index) {
  std::string includes, rows, calls;
  for (const json& op : index["ops"]) {
    const std::string name = CppIdentifier(TextAt(op, "name")),
                      digest = TextAt(op, "digest").substr(0, 8);
    includes += fmt::format("#include <fettle_ops/{}/{}.hpp>\n", name, digest);
    rows += fmt::format("    {{\"{}\", \"{}\", \"{}\"}},\n", TextAt(op, "name"),
                        TextAt(op, "version"), TextAt(op, "digest"));
    calls += fmt::format("  visit(static_cast<{}_{}::Operator*>(nullptr), \"{}\");\n", name, digest,
                         TextAt(op, "name"));
  }
  return "// Generated by fettle; do not edit. All operators of a library and their registration.\n"
         "#ifndef FETTLE_OPS_ALL_HPP\n#define FETTLE_OPS_ALL_HPP\n" +
         includes +
         "namespace fettle_ops {\nstruct Registration {\n  const char* name;\n  const char* "
         "version;\n  const char* digest;\n};\n"
         "inline constexpr Registration kOperators[] = {\n" +
         rows +
         "};\n// Calls visit(static_cast<Operator*>(nullptr), name) for every operator's type.\n"
         "template <class Visit>\nvoid for_each_operator(Visit&& visit) {\n" +
         calls + "}\n}  // namespace fettle_ops\n#endif\n";
}

absl::StatusOr<std::string> TunedRows(const fs::path& library, const json& index) {
  std::string rows;
  for (const json& op : index["ops"]) {
    const std::string name = CppIdentifier(TextAt(op, "name"));
    const fs::path path =
        library / TextAt(op, "folder") / "integrations" / "aiter_csv" / (name + ".csv");
    FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
    const std::size_t head = rows.empty() ? 0 : std::min(text.find('\n'), text.size() - 1) + 1;
    if (head < text.size()) rows.append(text, head, text.size() - head);
  }
  return rows;
}

// Free text as part of a line of the changelog.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text.substr(0, 300);
}

// `op`: the index's entry; null where the operator left the registry.
std::string ChangelogEntry(const LibraryUpdate& update, const json& op) {
  const std::string kept =
      update.previous.empty() ? "" : "; its bundle stays in " + update.previous;
  std::string text = op.is_null() ? fmt::format("## {} removed\n\n", update.op)
                                  : fmt::format("## {} {} ({})\n\n", update.op, update.version,
                                                TextAt(op, "digest").substr(0, 8));
  for (const json& variant : op.is_null() ? json::array() : op["variants"]) {
    const bool fresh = std::find(update.added.begin(), update.added.end(), TextAt(variant, "id")) !=
                       update.added.end();
    text +=
        fmt::format("- {} `{}` for {} on {}: {:.3f} times the baseline's speed, at least {:.3f}\n",
                    fresh ? "new" : "kept", TextAt(variant, "id"), TextAt(variant, "target"),
                    TextAt(variant, "device"), variant["ratio"].get<double>(),
                    variant["ratio_low"].get<double>());
  }
  for (const std::string& id : update.superseded) {
    text += fmt::format("- superseded `{}`{}\n", id, kept);
  }
  for (const std::string& id : update.declined) {
    text += fmt::format("- not taken `{}`: what is in force is as fast at every timed size\n", id);
  }
  for (const auto& [id, reason] : update.withdrawn) {
    text += fmt::format("- withdrawn `{}`: {}{}\n", id, OneLine(reason), kept);
  }
  return text + "\n";
}

// Replaces registry/ as a whole.
absl::Status WriteRegistry(const fs::path& library, const BundleFiles& files) {
  std::string pattern = (library / "registry.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return ErrnoStatus(errno, "write the registry in " + library.string());
  ::chmod(pattern.c_str(), 0755);
  const fs::path temporary(pattern), current = library / "registry";
  absl::Status status;
  std::error_code error;
  for (const auto& [name, bytes] : files) {
    const fs::path path = temporary / name;
    fs::create_directories(path.parent_path(), error);
    status.Update(WriteFileDurably(path, bytes));
    ::chmod(path.c_str(), 0644);
  }
  if (status.ok()) {
    const unsigned int how = fs::exists(current, error) ? RENAME_EXCHANGE : 0U;
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, current.c_str(), how) != 0) {
      status = ErrnoStatus(errno, "write the registry in " + library.string());
    }
  }
  fs::remove_all(temporary, error);  // The older registry, or what was not finished.
  return status;
}

// What becomes of the operator: the parts to lay out, which variants go, and the version.
struct Plan {
  Merged merged;
  LibraryUpdate update;
};

void Withdraw(const std::map<std::string, std::string>& withdrawn, BundleParts& parts,
              LibraryUpdate& update) {
  std::set<std::string> left;
  for (const VariantProvenance& variant : parts.variants) {
    const auto found = withdrawn.find(variant.id);
    if (found == withdrawn.end()) {
      left.insert(variant.id);
    } else {
      update.withdrawn.insert(*found);
    }
  }
  Keep(left, parts);
}

// `entry`: the operator's in the index, or null; `removed`: its latest one that left the registry.
absl::StatusOr<Plan> PlanUpdate(const fs::path& library, const BundleFiles& bundle,
                                const json* entry, const json* removed,
                                const std::map<std::string, std::string>& withdrawn) {
  Plan plan;
  FETTLE_ASSIGN_OR_RETURN(const LoadedBundle arriving, LoadBundle(bundle));
  plan.update.op = arriving.model.task->name();
  AddBundle(*arriving.parts, bundle, "new/", plan.merged);
  plan.merged.parts.extras.version = arriving.parts->extras.version;
  if (removed != nullptr) {
    plan.merged.parts.extras.version =
        NextVersion(TextAt(*removed, "version"),
                    TextAt(*removed, "task_digest") != arriving.model.task->digest());
  }
  std::set<std::string> before;
  bool same_task = false;
  if (entry != nullptr) {
    plan.update.previous = TextAt(*entry, "folder");
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles current,
                            ReadBundle((library / plan.update.previous).string()));
    const BundleReport report = VerifyBundle(current);
    if (!report.problems.empty()) {
      return absl::DataLossError(
          fmt::format("export into {}: {} is damaged: {}: {}; restore it first", library.string(),
                      plan.update.previous, report.problems[0].path, report.problems[0].message));
    }
    for (const VariantProvenance& variant : report.variants) before.insert(variant.id);
    plan.merged.parts.extras.version = TextAt(*entry, "version");
    same_task = TextAt(*entry, "task_digest") == arriving.model.task->digest();
    if (same_task) {
      FETTLE_ASSIGN_OR_RETURN(BundleParts parts, ReadParts(current));
      Withdraw(withdrawn, parts, plan.update);
      AddBundle(parts, current, "old/", plan.merged);
    }
  }
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles all, LayOutAgain(plan.merged.parts, plan.merged.files));
  FETTLE_ASSIGN_OR_RETURN(const LoadedBundle merged, LoadBundle(all));
  const std::set<std::string> in_force = VariantsInForce(merged.model);
  for (const VariantProvenance& variant : plan.merged.parts.variants) {
    const bool was = before.contains(variant.id), is = in_force.contains(variant.id);
    if (was && !is) plan.update.superseded.push_back(variant.id);
    if (!was && is) plan.update.added.push_back(variant.id);
    if (!was && !is) plan.update.declined.push_back(variant.id);
  }
  for (const std::string& id : before) {
    if (!same_task) plan.update.superseded.push_back(id);
  }
  std::sort(plan.update.superseded.begin(), plan.update.superseded.end());
  std::sort(plan.update.added.begin(), plan.update.added.end());
  std::sort(plan.update.declined.begin(), plan.update.declined.end());
  plan.update.variants.assign(in_force.begin(), in_force.end());
  Keep(in_force, plan.merged.parts);
  if (entry != nullptr) {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles same,
                            LayOutAgain(plan.merged.parts, plan.merged.files));
    if (DigestOf(same) == TextAt(*entry, "digest")) {
      plan.update.kind = LibraryUpdate::Kind::kUnchanged;
      plan.update.version = TextAt(*entry, "version");
      plan.update.folder = plan.update.previous;
      plan.update.previous.clear();
      return plan;
    }
    plan.update.kind = LibraryUpdate::Kind::kUpdated;
    plan.merged.parts.extras.version = NextVersion(TextAt(*entry, "version"), !same_task);
  }
  plan.update.version = plan.merged.parts.extras.version;
  return plan;
}

// Files of the registry for `index`, with `entry` on top of the changelog.
absl::Status WriteIndex(const fs::path& library, const json& index, const std::string& entry) {
  std::error_code error;
  const std::string title = "# Changes\n\n";
  const fs::path old_log = library / "registry" / "CHANGELOG.md";
  std::string older;
  if (fs::exists(old_log, error)) {
    FETTLE_ASSIGN_OR_RETURN(older, ReadWholeFile(old_log));
    if (older.starts_with(title)) older = older.substr(title.size());
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string rows, TunedRows(library, index));
  return WriteRegistry(library, {{"index.json", index.dump(2, ' ', false, kReplaceInvalid) + "\n"},
                                 {"CHANGELOG.md", title + entry + older},
                                 {"fettle_opsConfig.cmake", CmakeConfig(index)},
                                 {"include/fettle_ops_all.hpp", RegistrationHeader(index)},
                                 {"tuned.csv", rows}});
}

// Adds what an update took out of force to the operator's entry in the index.
void NoteChanges(const LibraryUpdate& update, json& op) {
  for (const std::string& id : update.superseded) {
    op["superseded"].push_back({{"variant", id}, {"in", update.previous}, {"by", update.version}});
  }
  if (!op.value("withdrawn", json()).is_array()) op["withdrawn"] = json::array();
  for (const auto& [id, reason] : update.withdrawn) {
    op["withdrawn"].push_back({{"variant", id}, {"in", update.previous}, {"reason", reason}});
  }
}

// Writes the planned bundle, then the registry that names it.
absl::StatusOr<LibraryUpdate> Publish(const fs::path& library, Plan plan,
                                      const std::string& signing_key, json index) {
  LibraryUpdate& update = plan.update;
  FETTLE_ASSIGN_OR_RETURN(BundleFiles files, LayOutAgain(plan.merged.parts, plan.merged.files));
  if (!signing_key.empty()) FETTLE_RETURN_IF_ERROR(SignBundle(signing_key, files));
  update.folder = fmt::format("ops/{}-{}-{}", CppIdentifier(update.op), update.version,
                              DigestOf(files).substr(0, 8));
  FETTLE_RETURN_IF_ERROR(WriteBundle((library / update.folder).string(), files));
  json fresh = OpEntry(files, update.folder);
  json* entry = FindOp(index, update.op);
  if (entry != nullptr) {
    fresh["history"] = (*entry)["history"];
    fresh["history"].push_back({{"folder", (*entry)["folder"]},
                                {"version", (*entry)["version"]},
                                {"digest", (*entry)["digest"]}});
    fresh["superseded"] = (*entry)["superseded"];
    fresh["withdrawn"] = entry->value("withdrawn", json::array());
  }
  NoteChanges(update, fresh);
  if (entry != nullptr) {
    *entry = fresh;
  } else {
    index["ops"].push_back(fresh);
    std::sort(index["ops"].begin(), index["ops"].end(),
              [](const json& a, const json& b) { return TextAt(a, "name") < TextAt(b, "name"); });
  }
  FETTLE_RETURN_IF_ERROR(WriteIndex(library, index, ChangelogEntry(update, fresh)));
  return update;
}

// Whether a name ends as mkdtemp's do, after a dot.
bool IsTemporary(std::string_view name) {
  return name.size() > 7 && name[name.size() - 7] == '.' &&
         std::all_of(name.end() - 6, name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0; });
}

// Removes the temporary folders of exporters that were killed. The lock must be held: then nobody
// is at work in one.
void RemoveRemains(const fs::path& library) {
  std::error_code error;
  std::vector<fs::path> remains;
  for (const auto& [folder, prefix] : {std::pair{library, "registry."}, {library / "ops", ""}}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory(error) && !entry.is_symlink(error) && name.starts_with(prefix) &&
          IsTemporary(name)) {
        remains.push_back(entry.path());
      }
    }
  }
  for (const fs::path& path : remains) fs::remove_all(path, error);
}

}  // namespace

std::string_view UpdateKindName(LibraryUpdate::Kind kind) {
  switch (kind) {
    case LibraryUpdate::Kind::kAdded:
      return "added";
    case LibraryUpdate::Kind::kUpdated:
      return "updated";
    case LibraryUpdate::Kind::kRemoved:
      return "removed";
    default:
      return "unchanged";
  }
}

std::string NextVersion(const std::string& version, bool changed_operator) {
  int major = 1, minor = 0;
  const char* end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error == std::errc() && dot != end && *dot == '.') std::from_chars(dot + 1, end, minor);
  return changed_operator ? fmt::format("{}.0.0", major + 1)
                          : fmt::format("{}.{}.0", major, minor + 1);
}

absl::StatusOr<LibraryUpdate> AddToLibrary(const std::string& library_path,
                                           const BundleFiles& bundle,
                                           const LibraryOptions& options) {
  std::error_code error;
  const fs::path library = fs::absolute(library_path, error).lexically_normal();
  fs::create_directories(library, error);
  if (error) return ErrnoStatus(error.value(), "export into " + library.string());
  FETTLE_RETURN_IF_ERROR(ReadIndex(library).status());  // Before the lock makes it look used.
  FETTLE_ASSIGN_OR_RETURN(const Fd lock, Lock(library));
  RemoveRemains(library);
  FETTLE_ASSIGN_OR_RETURN(json index, ReadIndex(library));
  FETTLE_ASSIGN_OR_RETURN(const BundleParts arriving, ReadParts(bundle));
  const std::string& name = arriving.variants.front().task_name;
  const json* entry = FindOp(index, name);
  const json* removed = nullptr;
  if (entry == nullptr && index.value("removed", json()).is_array()) {
    for (const json& op : index["removed"]) {
      if (TextAt(op, "name") == name) removed = &op;
    }
  }
  FETTLE_ASSIGN_OR_RETURN(Plan plan,
                          PlanUpdate(library, bundle, entry, removed, options.withdrawn));
  if (plan.update.kind == LibraryUpdate::Kind::kUnchanged) return plan.update;
  return Publish(library, std::move(plan), options.signing_key, std::move(index));
}

absl::StatusOr<LibraryUpdate> WithdrawFromLibrary(const std::string& library_path,
                                                  const std::string& op,
                                                  const LibraryOptions& options) {
  std::error_code error;
  const fs::path library = fs::absolute(library_path, error).lexically_normal();
  if (!fs::exists(library / "registry" / "index.json", error)) {
    return absl::NotFoundError(
        fmt::format("withdraw from {}: it is no library of fettle's", library.string()));
  }
  FETTLE_ASSIGN_OR_RETURN(const Fd lock, Lock(library));
  RemoveRemains(library);
  FETTLE_ASSIGN_OR_RETURN(json index, ReadIndex(library));
  const json* entry = FindOp(index, op);
  if (entry == nullptr) {
    return absl::NotFoundError(
        fmt::format("withdraw from {}: it has no operator {}", library.string(), op));
  }
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles current,
                          ReadBundle((library / TextAt(*entry, "folder")).string()));
  Plan plan;
  FETTLE_ASSIGN_OR_RETURN(BundleParts parts, ReadParts(current));
  Withdraw(options.withdrawn, parts, plan.update);
  plan.update.op = op;
  plan.update.version = TextAt(*entry, "version");
  if (plan.update.withdrawn.empty()) {
    plan.update.kind = LibraryUpdate::Kind::kUnchanged;
    plan.update.folder = TextAt(*entry, "folder");
    return plan.update;
  }
  if (!parts.variants.empty()) {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles rest, LayOutAgain(parts, current));
    FETTLE_ASSIGN_OR_RETURN(plan, PlanUpdate(library, rest, entry, nullptr, options.withdrawn));
    return Publish(library, std::move(plan), options.signing_key, std::move(index));
  }
  plan.update.kind = LibraryUpdate::Kind::kRemoved;
  plan.update.previous = TextAt(*entry, "folder");
  json gone = *entry;
  NoteChanges(plan.update, gone);
  gone["variants"] = json::array();
  if (!index.value("removed", json()).is_array()) index["removed"] = json::array();
  index["removed"].push_back(std::move(gone));
  auto& ops = index["ops"];
  for (auto at = ops.begin(); at != ops.end(); ++at) {
    if (TextAt(*at, "name") != op) continue;
    ops.erase(at);
    break;
  }
  FETTLE_RETURN_IF_ERROR(WriteIndex(library, index, ChangelogEntry(plan.update, json())));
  return plan.update;
}

std::vector<std::string> LibraryVariants(const std::string& library, const std::string& op) {
  std::vector<std::string> ids;
  std::error_code error;
  if (!fs::exists(fs::path(library) / "registry" / "index.json", error)) return ids;
  absl::StatusOr<json> index = ReadIndex(library);
  if (!index.ok()) return ids;  // Whoever changes the library says so.
  const json* entry = FindOp(*index, op);
  if (entry == nullptr || !entry->value("variants", json()).is_array()) return ids;
  for (const json& variant : entry->at("variants")) ids.push_back(TextAt(variant, "id"));
  return ids;
}

}  // namespace fettle
