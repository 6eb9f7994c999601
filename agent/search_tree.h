// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tree of candidates that a model has made: whom to start from next. Deterministic in its seed
// and what was added.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/verdict.h"

namespace fettle {

struct TreeNode {
  std::string digest;  // Empty: the root, which is the denominator.
  std::string parent;
  std::string technique;
  double ratio = 0;  // Over the denominator; 0: not measured.
  Verdict verdict = Verdict::kNoWin;
  std::string message;  // Of the verdict, short.
  std::string base;     // The candidate whose tunables the tuner fitted with this one; empty: none.
  std::string fitted;   // The best candidate that the tuner made of it, where that is better.
  std::string learned;  // What the tuner learned of its tunables.
  double expected = 0;  // The gain over its parent that its proposer expected; 0: it did not say.
  std::map<std::string, int> tried;  // Techniques of its children, and how often.
  int rounds = 0;                    // That started from it.
  int barren = 0;  // Of them the last ones in a row that made nothing better than it.
  bool usable() const { return ratio > 0; }
};

struct TreeOptions {
  int dead_after = 4;     // Barren rounds after which a node is left alone.
  int restart_after = 6;  // Rounds without a better candidate before starting anew elsewhere.
  double gain = 1.01;     // What counts as better, as a ratio; below it is noise.
  double greed = 2;       // How steeply weight rises with the ratio.
  // Candidates kept, about: beyond it the slowest without children are let go, the newest excepted.
  std::size_t most_nodes = 300;
};

class SearchTree {
 public:
  static constexpr std::size_t kRemembered = 30;

  SearchTree(std::uint64_t seed, TreeOptions options);

  // False where the same normalized source with the same values was added or reserved before.
  bool Reserve(const std::string& normalized_source, const std::string& values);
  // Adds a judged candidate. What was said of it is kept while Recent(kRemembered) shows it, the
  // candidate itself as `most_nodes` says. Unknown parents count as the root. Of
  // the values that the tuner fitted to a candidate only the best is kept, and stands for it from
  // then on.
  void Add(TreeNode node);
  // Notes what the tuner learned of a candidate's tunables.
  void Learn(const std::string& digest, std::string learned);
  // Ends a round from `parent`. It counts once, however many repairs and fitted values it took: as
  // barren where no candidate added since the last one ended was better than its parent.
  void EndRound(const std::string& parent);

  // The next parent: weight rises with speed (relative to the median of the usable ones) and falls
  // with the rounds that it had and with how often its technique was used. Dead ends are left out
  // while there is anything else. After a stagnation it is the root or a node of another branch
  // than the best's, and `restarted` is set.
  struct Choice {
    const TreeNode* node = nullptr;  // Never null.
    bool restarted = false;
  };
  Choice ChooseParent();

  // Null: no such candidate, or none any more. Empty: the root. Stays valid until the next Add of a
  // candidate with another parent.
  const TreeNode* Find(const std::string& digest) const;
  const TreeNode& best() const;  // The root where nothing is better.
  int rounds_without_gain() const { return without_gain_; }
  // The last `limit` in order of arrival, newest last, without the values that the tuner fitted.
  std::vector<const TreeNode*> Recent(std::size_t limit) const;
  // Techniques that were tried from `parent`, and how often.
  std::map<std::string, int> TriedFrom(const std::string& parent) const;
  std::size_t size() const { return order_.size(); }  // Kept, without the root.

 private:
  // Lets go of what is beyond `most_nodes`.
  void Prune();
  // 1 for what only one candidate tried, less for what many did.
  double Novelty(const TreeNode& node) const;
  // The child of the root that `digest` descends from.
  std::string Branch(std::string digest) const;

  const TreeOptions options_;
  Random random_;
  std::map<std::string, TreeNode> nodes_;
  // Without the root and fitted values. Points into nodes_.
  std::vector<TreeNode*> order_;
  // The first 16 bytes of digests: no two that differ share them.
  std::set<std::pair<std::uint64_t, std::uint64_t>> sources_;
  std::map<std::string, int> techniques_;  // How many candidates each made.
  std::string best_;
  double mark_ = 1;  // What a ratio has to pass by the gain to end a stagnation.
  bool better_than_parent_ = false, better_than_mark_ = false;  // In this round.
  int without_gain_ = 0;
  int since_restart_ = 0;
};

}  // namespace fettle
