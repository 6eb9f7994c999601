// SPDX-License-Identifier: Apache-2.0
#include "agent/search_tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/digest.h"

namespace fettle {

SearchTree::SearchTree(std::uint64_t seed, TreeOptions options) : options_(options), random_(seed) {
  TreeNode root;
  root.ratio = 1;
  nodes_[""] = root;
}

bool SearchTree::Reserve(const std::string& normalized_source, const std::string& values) {
  const std::string digest = Sha256Hex(normalized_source + '\0' + values);
  const auto word = [&digest](std::size_t at) {
    std::uint64_t value = 0;
    std::from_chars(digest.data() + at, digest.data() + at + 16, value, 16);
    return value;
  };
  return sources_.emplace(word(0), word(16)).second;
}

void SearchTree::Add(TreeNode node) {
  if (node.digest.empty() || nodes_.contains(node.digest)) return;
  if (!nodes_.contains(node.parent)) node.parent.clear();
  better_than_parent_ |= node.ratio > nodes_.at(node.parent).ratio * options_.gain;
  if (node.ratio > nodes_.at(best_).ratio) best_ = node.digest;
  if (node.ratio > mark_ * options_.gain) {
    mark_ = node.ratio;
    better_than_mark_ = true;
  }
  if (const auto base = nodes_.find(node.base); !node.base.empty() && base != nodes_.end()) {
    std::string& fitted = base->second.fitted;
    if (node.ratio <= nodes_.at(fitted.empty() ? node.base : fitted).ratio) return;
    if (!fitted.empty()) nodes_.erase(fitted);
    fitted = node.digest;
  }
  TreeNode& added = nodes_[node.digest] = std::move(node);
  if (!added.base.empty()) return;
  ++techniques_[added.technique];
  ++nodes_.at(added.parent).tried[added.technique];
  order_.push_back(&added);
  if (order_.size() > kRemembered) order_[order_.size() - kRemembered - 1]->message = {};
  Prune();
}

void SearchTree::Prune() {
  if (order_.size() <= std::max(options_.most_nodes, kRemembered)) return;
  const auto speed = [this](const TreeNode* node) {
    return node->fitted.empty() ? node->ratio : nodes_.at(node->fitted).ratio;
  };
  const auto in_use = [this](const TreeNode& node) {
    return node.digest == best_ || node.rounds > 0 || !node.tried.empty();
  };
  auto slowest = order_.end();
  for (auto it = order_.begin(); it != order_.end() - kRemembered; ++it) {
    const TreeNode& node = **it;
    if (in_use(node) || (!node.fitted.empty() && in_use(nodes_.at(node.fitted)))) continue;
    if (slowest == order_.end() || speed(*it) < speed(*slowest)) slowest = it;
  }
  if (slowest == order_.end()) return;
  const std::string digest = (*slowest)->digest, fitted = (*slowest)->fitted;
  order_.erase(slowest);
  if (!fitted.empty()) nodes_.erase(fitted);
  nodes_.erase(digest);
}

void SearchTree::Learn(const std::string& digest, std::string learned) {
  const auto found = nodes_.find(digest);
  if (found != nodes_.end()) found->second.learned = std::move(learned);
}

void SearchTree::EndRound(const std::string& parent) {
  const auto found = nodes_.find(parent);
  TreeNode& from = found == nodes_.end() ? nodes_.at("") : found->second;
  ++from.rounds;
  from.barren = better_than_parent_ ? 0 : from.barren + 1;
  without_gain_ = better_than_mark_ ? 0 : without_gain_ + 1;
  since_restart_ = better_than_mark_ ? 0 : since_restart_ + 1;
  better_than_parent_ = better_than_mark_ = false;
}

std::string SearchTree::Branch(std::string digest) const {
  while (!digest.empty()) {
    const std::string& parent = nodes_.at(digest).parent;
    if (parent.empty()) return digest;
    digest = parent;
  }
  return digest;
}

double SearchTree::Novelty(const TreeNode& node) const {
  const auto found = techniques_.find(node.technique);
  return node.digest.empty() || found == techniques_.end() ? 1 : 1 / std::sqrt(found->second);
}

SearchTree::Choice SearchTree::ChooseParent() {
  Choice choice;
  choice.restarted = options_.restart_after > 0 && since_restart_ >= options_.restart_after;
  const std::string best_branch = Branch(best_);
  std::vector<const TreeNode*> usable;
  for (const bool dead_too : {false, true}) {  // The root is left at least.
    for (const auto& [digest, node] : nodes_) {
      if (!node.usable() || !node.fitted.empty()) continue;
      if (node.barren >= options_.dead_after && !dead_too) continue;
      if (choice.restarted && !digest.empty() && Branch(digest) == best_branch) continue;
      usable.push_back(&node);
    }
    if (!usable.empty()) break;
  }
  if (choice.restarted) since_restart_ = 0;
  std::vector<double> ratios;
  for (const TreeNode* node : usable) ratios.push_back(std::log(node->ratio));
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  double spread = 0;
  for (const double ratio : ratios) spread += std::abs(ratio - median);
  spread = std::max(spread / static_cast<double>(ratios.size()), 0.01);
  std::vector<double> weights;
  double sum = 0;
  for (const TreeNode* node : usable) {
    const double score = (std::log(node->ratio) - median) / spread;
    weights.push_back(Novelty(*node) / (1 + std::exp(-options_.greed * score)) /
                      (1 + node->rounds));
    sum += weights.back();
  }
  double draw = random_.Uniform() * sum;
  for (std::size_t i = 0; i < usable.size(); ++i) {
    draw -= weights[i];
    if (draw <= 0 || i + 1 == usable.size()) {
      choice.node = usable[i];
      break;
    }
  }
  return choice;
}

const TreeNode* SearchTree::Find(const std::string& digest) const {
  const auto found = nodes_.find(digest);
  return found == nodes_.end() ? nullptr : &found->second;
}

const TreeNode& SearchTree::best() const { return nodes_.at(best_); }

std::vector<const TreeNode*> SearchTree::Recent(std::size_t limit) const {
  std::vector<const TreeNode*> recent;
  const std::size_t begin = order_.size() - std::min(order_.size(), limit);
  for (std::size_t i = begin; i < order_.size(); ++i) recent.push_back(order_[i]);
  return recent;
}

std::map<std::string, int> SearchTree::TriedFrom(const std::string& parent) const {
  const TreeNode* node = Find(parent);
  if (node == nullptr) return {};
  std::map<std::string, int> tried = node->tried;
  tried.erase("");
  return tried;
}

}  // namespace fettle
