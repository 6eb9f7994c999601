// SPDX-License-Identifier: Apache-2.0
#include "agent/prompts.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_data.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "core/task_model.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

// Shares of the prompt's budget.
constexpr std::size_t kTaskBytes = 12'000;
constexpr std::size_t kHardwareBytes = 8'000;
constexpr std::size_t kSourceBytes = 28'000;
constexpr std::size_t kBlockBytes = 6'000;
constexpr std::size_t kDiagnosisBytes = 3'000;
constexpr std::size_t kTriedBytes = 5'000;
constexpr std::size_t kPlaybookBytes = 4'000;
constexpr std::size_t kFeedbackBytes = 12'000;
constexpr std::size_t kShownAttempts = 10;
constexpr std::size_t kShownTechniques = 8;
constexpr std::size_t kShownLearned = 200;  // Of what the tuner learned, of each attempt.

std::size_t Part(double share, std::size_t bytes) {
  return static_cast<std::size_t>(share * static_cast<double>(bytes));
}

std::string Cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return ValidUtf8(text);
  const std::string note =
      fmt::format("\n... ({} bytes in all; read_source shows the rest)\n", text.size());
  return CutText(text, most - note.size()) + note;
}

std::string BlockText(const KernelSpec& kernel, double share) {
  json block = ToJson(kernel);
  block.erase("source");
  block.erase("headers");
  return Cut(block.dump(1, ' ', false, kReplaceInvalid), Part(share, kBlockBytes));
}

std::string TaskText(const PromptContext& context) {
  const Task& task = *context.task;
  std::string text = fmt::format("{}: {}\n", task.name(), task.summary());
  const auto cases = task.BindCases(CaseSet::kTimed, /*seed=*/1, context.target);
  if (cases.ok()) {
    text += "Timed cases:\n";
    for (const BoundCase& one : *cases) {
      text += fmt::format("- {} {} (weight {:g})\n", one.label, CutText(one.Describe(), 300),
                          one.weight);
    }
  }
  const auto yaml = task.files().find("task.yaml");
  if (yaml != task.files().end()) text += "\ntask.yaml:\n```\n" + yaml->second + "```\n";
  return Cut(text, Part(context.share, kTaskBytes));
}

// What came of the gain that was expected of a candidate.
std::string Expected(const SearchTree& tree, const TreeNode& node) {
  const TreeNode* parent = tree.Find(node.parent);
  if (node.expected <= 0 || !node.usable() || parent == nullptr || !parent->usable()) return "";
  return fmt::format(" ({:.2f}x over its parent, where {:.2f}x was expected)",
                     node.ratio / parent->ratio, node.expected);
}

std::string TriedText(const SearchTree& tree, const TreeNode& node, double share) {
  std::string text;
  for (const TreeNode* one : tree.Recent(kShownAttempts)) {
    text +=
        fmt::format("- {}{}: {}{}{}{}{}\n", one->technique.empty() ? "?" : one->technique,
                    one->parent == node.digest ? " (from this kernel)" : "",
                    std::string(VerdictName(one->verdict)),
                    one->usable() ? fmt::format(", {:.3f}x", one->ratio) : "", Expected(tree, *one),
                    one->message.empty() ? "" : ": " + CutText(one->message, 200),
                    one->learned.empty() ? "" : ". " + CutText(one->learned, kShownLearned));
  }
  if (text.empty()) return "nothing yet";
  return CutText(text, Part(share, kTriedBytes));
}

json Schema(json properties, std::vector<std::string> required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
json Text(const char* what) { return {{"type", "string"}, {"description", what}}; }

json ChangeProperties() {
  return {{"source", Text("the whole source")},
          {"edits",
           {{"type", "array"},
            {"description", "instead of a source: replacements in it, each `find` unique"},
            {"items", Schema({{"find", Text("old text")}, {"replace", Text("new text")}},
                             {"find", "replace"})}}},
          {"block",
           {{"type", "object"},
            {"description",
             "fields that change: tunables [{name, values}], values {name: value}, constraints, "
             "workspace, launches, requires"}}}};
}

}  // namespace

std::string RenderTemplate(std::string_view text,
                           const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = text.find("}}", begin);
    FETTLE_CHECK(end != std::string_view::npos);
    const auto value = values.find(std::string(text.substr(begin + 2, end - begin - 2)));
    FETTLE_CHECK(value != values.end());
    out += value->second;
    text.remove_prefix(end + 2);
  }
}

absl::StatusOr<std::vector<Technique>> ParsePlaybook(std::string_view json_text) {
  const json document = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(document, "playbook");
  std::int64_t format = 0;
  reader.Get("format", format);
  std::vector<Technique> techniques;
  reader.ForEach("techniques", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "playbook.techniques");
    Technique technique;
    inner.Get("id", technique.id);
    inner.Get("title", technique.title);
    inner.Get("topics", technique.topics);
    inner.Get("targets", technique.targets);
    inner.Get("text", technique.text);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    techniques.push_back(std::move(technique));
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return techniques;
}

const std::vector<Technique>& Playbook() {
  static const auto* const techniques = [] {
    auto parsed = ParsePlaybook(AgentData("playbook.json"));
    FETTLE_CHECK(parsed.ok());
    return new std::vector<Technique>(*std::move(parsed));
  }();
  return *techniques;
}

std::vector<const Technique*> ChooseTechniques(const Target& target,
                                               const std::vector<std::string>& topics,
                                               const std::map<std::string, int>& tried,
                                               std::size_t limit) {
  const auto fits = [&](const Technique& technique) {
    const auto has = [&](const char* name) {
      return std::find(technique.targets.begin(), technique.targets.end(), name) !=
             technique.targets.end();
    };
    return has("all") || (has("gpu") && target.vendor != Vendor::kCpu) ||
           (has("nvidia") && target.vendor == Vendor::kNvidia) ||
           (has("amd") && target.vendor == Vendor::kAmd) ||
           (has("cpu") && target.vendor == Vendor::kCpu);
  };
  std::vector<const Technique*> fresh, again;
  const auto add = [&](const Technique& technique) {
    auto& into = tried.contains(technique.id) ? again : fresh;
    if (std::find(into.begin(), into.end(), &technique) == into.end()) into.push_back(&technique);
  };
  for (const std::string& topic : topics) {
    for (const Technique& technique : Playbook()) {
      if (fits(technique) && std::find(technique.topics.begin(), technique.topics.end(), topic) !=
                                 technique.topics.end()) {
        add(technique);
      }
    }
  }
  fresh.insert(fresh.end(), again.begin(), again.end());
  if (fresh.size() > limit) fresh.resize(limit);
  return fresh;
}

std::string SystemPrompt(const PromptContext& context) {
  return RenderTemplate(
      AgentData("system.md"),
      {{"rules", std::string(AgentData("rules.md"))},
       {"task", TaskText(context)},
       {"hardware", context.card == nullptr ? "nothing is known beyond task.yaml's target"
                                            : CardText(*context.card, context.device_model, {},
                                                       Part(context.share, kHardwareBytes))}});
}

std::string PlanPrompt(const PromptContext& context, const PlanInput& input) {
  const TreeNode& best = input.tree->best();
  std::string bar = fmt::format("The best so far is {:.3f}x over the denominator.", best.ratio);
  if (best.digest.empty()) bar = "Nothing is faster than the denominator yet.";
  std::string parent = input.node->digest.empty()
                           ? "The denominator itself."
                           : fmt::format("A candidate with {:.3f}x, made by {}.", input.node->ratio,
                                         input.node->technique.empty() ? "an unknown technique"
                                                                       : input.node->technique);
  const TreeNode* base = input.node->base.empty() ? input.node : input.tree->Find(input.node->base);
  if (base != nullptr && !base->learned.empty()) parent += "\n\n" + base->learned;
  std::string diagnosis;
  for (const std::string& line : input.diagnosis->lines) diagnosis += "- " + line + "\n";
  diagnosis += fmt::format("So it is limited by: {}.", input.diagnosis->bottleneck);
  if (!input.diagnosis->evidence_agrees) {
    diagnosis += " The evidence disagrees: prefer a change that is cheap to undo.";
  }
  std::string playbook;
  for (const Technique* technique :
       ChooseTechniques(context.target, input.diagnosis->topics,
                        input.tree->TriedFrom(input.node->digest), kShownTechniques)) {
    playbook += fmt::format("- {}: {}. {}\n", technique->id, technique->title, technique->text);
  }
  return RenderTemplate(
      AgentData("plan.md"),
      {{"bar", bar},
       {"restart", input.restarted ? " (a new start: the last rounds brought nothing)" : ""},
       {"parent", parent},
       {"source", Cut(input.parent->source, Part(context.share, kSourceBytes))},
       {"block", BlockText(*input.parent, context.share)},
       {"diagnosis", CutText(diagnosis, Part(context.share, kDiagnosisBytes))},
       {"tried", TriedText(*input.tree, *input.node, context.share)},
       {"playbook", CutText(playbook, Part(context.share, kPlaybookBytes))}});
}

std::string WritePrompt(const KernelSpec& parent, const ModelPlan& plan, int turns, double share) {
  return RenderTemplate(AgentData("write.md"),
                        {{"turns", std::to_string(turns)},
                         {"bottleneck", CutText(plan.bottleneck, 1'000)},
                         {"technique", CutText(plan.technique, 200)},
                         {"change", CutText(plan.change, Part(share, 8'000))},
                         {"source", Cut(parent.source, Part(share, kSourceBytes))},
                         {"block", BlockText(parent, share)}});
}

std::string RepairPrompt(std::string_view file, const std::string& feedback) {
  return RenderTemplate(AgentData(file), {{"feedback", CutText(feedback, kFeedbackBytes)},
                                          {"problem", CutText(feedback, 2'000)}});
}

std::vector<LlmTool> PlanTools() {
  return {
      {"plan", "Says what to change next.",
       Schema(
           {{"bottleneck", Text("what limits the kernel, and the evidence")},
            {"technique", Text("short name, of the playbook where one fits")},
            {"change", Text("the one change, precise enough to be written by somebody else")},
            {"expected_gain",
             {{"type", "number"}, {"description", "expected speed-up over the parent, as 1.2"}}}},
           {"bottleneck", "technique", "change"})}};
}

std::vector<LlmTool> WriteTools() {
  json propose = ChangeProperties();
  propose["rationale"] = Text("why it should be faster, in a sentence or two");
  propose["expected_gain"] = {
      {"type", "number"},
      {"description", "expected speed-up over the kernel to start from, as 1.2"}};
  return {
      {"propose", "Hands in the kernel for a verdict.", Schema(std::move(propose), {"rationale"})},
      {"compile", "Compiles and shows diagnostics and resource use.",
       Schema(ChangeProperties(), {})},
      {"check", "Runs it on the task's cases and shows where it is wrong.",
       Schema(ChangeProperties(), {})},
      {"find_bugs", "Runs it on the CPU and looks for accesses out of bounds, races and the like.",
       Schema(ChangeProperties(), {})},
      {"read_source", "Shows the source of a candidate or variant, in pages.",
       Schema({{"candidate", Text("digest or variant; empty: the kernel to start from")},
               {"cursor", Text("of the page before")}},
              {})},
      {"list_attempts", "Shows what was tried before.", Schema(json::object(), {})},
      {"read_card", "Shows the hardware card on a topic.",
       Schema({{"topic", Text("memory, cache, compute, latency, registers, occupancy, shared, "
                              "atomics, reduction, launch")}},
              {"topic"})},
      {"give_up", "Ends this change.",
       Schema({{"learned", Text("what was learned")}}, {"learned"})},
  };
}

}  // namespace fettle
