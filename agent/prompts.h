// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prompts and tool descriptions, made from the files of data/agent. Pure functions: the same input
// gives the same bytes, whenever and wherever, so that a resumed job and a replay find their
// answers.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/diagnosis.h"
#include "agent/hardware_card.h"
#include "agent/llm/llm_client.h"
#include "agent/search_tree.h"
#include "core/target.h"
#include "core/task.h"

namespace fettle {

// What one prompt may hold at most, whatever the task: about 20,000 tokens.
inline constexpr std::size_t kMaxPromptBytes = 60'000;

// Replaces every {{name}}. FETTLE_CHECK: a name of the template is missing. Values are not
// templates.
std::string RenderTemplate(std::string_view text, const std::map<std::string, std::string>& values);

struct Technique {
  std::string id, title, text;
  std::vector<std::string> topics, targets;
};
// kInvalidArgument names the field.
absl::StatusOr<std::vector<Technique>> ParsePlaybook(std::string_view json_text);
const std::vector<Technique>& Playbook();
// Those that fit the target, those about earlier topics first; techniques in `tried` come last.
std::vector<const Technique*> ChooseTechniques(const Target& target,
                                               const std::vector<std::string>& topics,
                                               const std::map<std::string, int>& tried,
                                               std::size_t limit);

// What a conversation is about; outlives the calls.
struct PromptContext {
  const Task* task = nullptr;
  Target target;
  std::string device_model;
  const HardwareCard* card = nullptr;  // Null: none for the target.
  // Of what prompts may hold, (0, 1]: less for models with a short context.
  double share = 1;
};

std::string SystemPrompt(const PromptContext& context);

struct PlanInput {
  const KernelSpec* parent = nullptr;
  const TreeNode* node = nullptr;
  bool restarted = false;
  const SearchTree* tree = nullptr;
  const Diagnosis* diagnosis = nullptr;
};
std::string PlanPrompt(const PromptContext& context, const PlanInput& input);

struct ModelPlan {
  std::string bottleneck, technique, change;
  double expected_gain = 0;
};
// `share` as in PromptContext.
std::string WritePrompt(const KernelSpec& parent, const ModelPlan& plan, int turns,
                        double share = 1);
// `file` is one of data/agent/repair_*.md; `feedback` is cut to what the prompt may hold.
std::string RepairPrompt(std::string_view file, const std::string& feedback);

// The tools of a planning and of a writing turn.
std::vector<LlmTool> PlanTools();
std::vector<LlmTool> WriteTools();

}  // namespace fettle
