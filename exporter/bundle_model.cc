// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include <elf.h>
#include <fmt/format.h>

#include "core/code_object/elf.h"
#include "core/digest.h"
#include "core/plan_bind.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task_model.h"
#include "exporter/operator_view.h"

namespace fettle {
namespace {

using nlohmann::json;

// Binding needs a seed; labels, plain dims and types do not depend on it.
constexpr std::uint64_t kBindSeed = 1;
// A portfolio is no longer than this, and a member must lower the mean regret by a tenth of a
// percent.
constexpr int kMostMembers = 8;
constexpr double kWorth = 0.001;

Vendor VendorOf(const std::string& target) {
  const absl::StatusOr<Target> found = FindTarget(target);
  return found.ok() ? found->vendor : Vendor::kCpu;
}

bool IsPtx(const std::string& target) {
  const absl::StatusOr<Target> found = FindTarget(target);
  return found.ok() && IsPortable(*found);
}

std::string ObjectPath(const std::string& target, const std::string& id, std::size_t index) {
  if (IsPtx(target)) return fmt::format("objects/cuda/{}/{}-{}.ptx", target, id, index);
  switch (VendorOf(target)) {
    case Vendor::kNvidia:
      return fmt::format("objects/cuda/{}/{}-{}.cubin", target, id, index);
    case Vendor::kAmd:
      return fmt::format("objects/hip/{}/{}-{}.co", target, id, index);
    default:
      return fmt::format("objects/cpu/{}-{}.so", id, index);
  }
}

// Whether a kernel of the object may wait (barriers, warp operations): then it needs fibers.
bool MayWait(const std::string& object) {
  static constexpr std::array<std::string_view, 8> kWaits = {
      "fettle_rt_barrier", "fettle_rt_barrier_vote", "fettle_rt_shuffle",   "fettle_rt_ballot",
      "fettle_rt_match",   "fettle_rt_reduce",       "fettle_rt_warp_sync", "fettle_rt_grid_sync"};
  const absl::StatusOr<ElfFile> elf = ReadElf(AsBytes(object));
  if (!elf.ok()) return true;
  return std::any_of(elf->symbols.begin(), elf->symbols.end(), [](const ElfSymbol& symbol) {
    return symbol.section == SHN_UNDEF &&
           std::find(kWaits.begin(), kWaits.end(), symbol.name) != kWaits.end();
  });
}

std::string DeviceModel(const VariantProvenance& provenance) {
  const json device = provenance.document.value("device", json::object());
  const json model = device.is_object() ? device.value("model", json()) : json();
  return model.is_string() ? model.get<std::string>() : "";
}

// Puts the selectors and macros of the cases that each build serves into `builds`.
absl::Status AssignCases(const Task& task, const BundleKernel& kernel, const std::string& target,
                         std::vector<BundleBuild*>& builds) {
  FETTLE_ASSIGN_OR_RETURN(const Target limits, FindTarget(target));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases, OwnCases(task, target));
  for (const BoundCase& bound_case : cases) {
    FETTLE_ASSIGN_OR_RETURN(const bool supported, task.Supports(kernel.kernel, bound_case));
    if (!supported) continue;
    FETTLE_ASSIGN_OR_RETURN(const Task::BuildInputs inputs,
                            task.BuildInputsFor(kernel.kernel, kernel.values, bound_case, limits));
    for (BundleBuild* build : builds) {
      if (build->key != inputs.key) continue;
      build->macros = inputs.macros;
      const BuildSelector selector = SelectorOf(task, bound_case);
      if (std::find(build->selectors.begin(), build->selectors.end(), selector) ==
          build->selectors.end()) {
        build->selectors.push_back(selector);
      }
    }
  }
  for (BundleBuild* build : builds) std::sort(build->selectors.begin(), build->selectors.end());
  // Held-out cases have types and specialized dims together that no declared case has.
  const bool serve = std::any_of(builds.begin(), builds.end(), [](const BundleBuild* build) {
    return !build->selectors.empty();
  });
  if (serve) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("export {} for {}: no case of the task needs the build {}", kernel.id, target,
                  builds.front()->key.substr(0, 16)));
}

// One timed case as a row of the selection.
struct Place {
  std::map<std::string, DType> types;
  std::map<std::string, std::int64_t> dims;
};

Place PlaceOf(const BoundCase& bound_case, const std::set<std::string>& derived) {
  Place place;
  for (const auto& [family, dtype] : bound_case.types) place.types[family] = dtype;
  for (const BoundDim& dim : bound_case.dims) {
    if (!dim.is_list && !derived.contains(dim.name)) place.dims[dim.name] = dim.values.front();
  }
  return place;
}

// The integer at the geometric middle of two neighbours, and the arithmetic one below zero.
std::int64_t Between(std::int64_t a, std::int64_t b) {
  if (a <= 0) return a + (b - a) / 2;
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

// The box around a place in which no other place of its types is nearer along any axis.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> BoxOf(
    const Place& place, const std::vector<Place>& places) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> box;
  for (const auto& [name, value] : place.dims) {
    std::set<std::int64_t> edges;
    for (const Place& other : places) {
      if (other.types == place.types) edges.insert(other.dims.at(name));
    }
    const auto at = edges.find(value);
    std::int64_t low = std::numeric_limits<std::int64_t>::min();
    std::int64_t high = std::numeric_limits<std::int64_t>::max();
    if (at != edges.begin()) low = Between(*std::prev(at), value) + 1;
    if (std::next(at) != edges.end()) high = Between(value, *std::next(at));
    box[name] = {low, high};
  }
  return box;
}

// What a variant costs per timed case, relative to the declared baseline.
double CostOf(const ProvenVariant& variant, const Measurement& measurement,
              const std::string& label) {
  const VariantProvenance& provenance = *variant.provenance;
  const json& part = provenance.document["variant"];
  const json declared = part.value("ratio_declared", json(0));
  // Measured against a tuned baseline: scaled by what that one gains over the declared one.
  double over_declared = 1;
  if (declared.is_number() && declared.get<double>() > 0 && provenance.ratio > 0) {
    over_declared = declared.get<double>() / provenance.ratio;
  }
  for (const CaseMeasurement& entry : measurement.cases) {
    if (entry.case_label == label && entry.ratio > 0) return 1 / (entry.ratio * over_declared);
  }
  return std::numeric_limits<double>::infinity();
}

// What was measured of a kernel on a target; null: nothing.
const Measurement* MeasuredOn(const BundleModel& model, int kernel, const std::string& target) {
  const BundleKernel& one = model.kernels[static_cast<std::size_t>(kernel)];
  if (one.variant->provenance->target == target) return &one.variant->provenance->measurement;
  for (const BundleRun& run : model.runs) {
    if (run.variant == one.id && run.target == target && run.status == "run")
      return &run.measurement;
  }
  return nullptr;
}

absl::StatusOr<TargetSelection> SelectFor(const BundleModel& model, const std::string& target) {
  const Task& task = *model.task;
  TargetSelection selection;
  selection.target = target;
  std::vector<int> candidates;  // Kernels with a build for the target.
  for (std::size_t k = 0; k + 1 < model.kernels.size(); ++k) {
    const bool built =
        std::any_of(model.builds.begin(), model.builds.end(), [&](const BundleBuild& build) {
          return build.kernel == model.kernels[k].id && build.target == target;
        });
    if (built) candidates.push_back(static_cast<int>(k));
  }
  if (candidates.empty()) return selection;
  // Costs are those of the target, from acceptance or from a rerun there; those of the variants'
  // own targets are all there is for what never ran.
  std::string measured = target;
  if (std::none_of(candidates.begin(), candidates.end(),
                   [&](int k) { return MeasuredOn(model, k, target) != nullptr; })) {
    const auto first = static_cast<std::size_t>(candidates.front());
    measured = model.kernels[first].variant->provenance->target;
  }
  std::erase_if(candidates, [&](int k) { return MeasuredOn(model, k, measured) == nullptr; });
  const std::set<std::string> derived = ListDerivedDims(task.model());
  FETTLE_ASSIGN_OR_RETURN(const Target limits, FindTarget(measured));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> timed,
                          task.BindCases(CaseSet::kTimed, kBindSeed, limits));
  std::vector<PortfolioCase> costs;
  std::vector<Place> places;
  for (const BoundCase& bound_case : timed) {
    PortfolioCase entry{.weight = bound_case.weight, .cost = {}};
    for (const int k : candidates) {
      entry.cost.push_back(CostOf(*model.kernels[static_cast<std::size_t>(k)].variant,
                                  *MeasuredOn(model, k, measured), bound_case.label));
    }
    costs.push_back(std::move(entry));
    places.push_back(PlaceOf(bound_case, derived));
  }
  const Portfolio portfolio =
      ChoosePortfolio(costs, static_cast<int>(candidates.size()), kMostMembers, kWorth);
  const auto kernels_of = [&](const std::vector<int>& order) {
    std::vector<int> kernels;
    for (const int i : order) kernels.push_back(candidates[static_cast<std::size_t>(i)]);
    return kernels;
  };
  selection.members = kernels_of(portfolio.members);
  selection.mean_regret = portfolio.mean_regret;
  selection.worst_regret = portfolio.worst_regret;
  for (const SelectionRow::Kind kind : {SelectionRow::Kind::kExact, SelectionRow::Kind::kBucket}) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      SelectionRow row{.kind = kind, .types = places[i].types, .dims = {}, .order = {}};
      row.order = kernels_of(portfolio.order[i]);
      if (row.order.empty()) continue;  // The baseline is best there.
      if (kind == SelectionRow::Kind::kBucket) {
        row.dims = BoxOf(places[i], places);
      } else {
        for (const auto& [name, value] : places[i].dims) row.dims[name] = {value, value};
      }
      selection.rows.push_back(std::move(row));
    }
  }
  SelectionRow generic{.kind = SelectionRow::Kind::kGeneric, .types = {}, .dims = {}, .order = {}};
  generic.order = kernels_of(portfolio.generic);
  if (!generic.order.empty()) selection.rows.push_back(std::move(generic));
  return selection;
}

absl::Status AddBuilds(
    const BundleExtras& extras,
    const std::function<absl::StatusOr<std::string>(const std::string&)>& object_of,
    BundleModel& model) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;  // Kernel, target.
  const auto add = [&](BundleBuild build, const std::string& object) {
    std::size_t& count = counts[{build.kernel, build.target}];
    build.path = ObjectPath(build.target, build.kernel, count++);
    build.sha256 = Sha256Hex(object);
    build.bytes = object.size();
    build.waits = VendorOf(build.target) == Vendor::kCpu && MayWait(object);
    if (const BundleRun* run =
            FindRun(model.runs, build.kernel, build.target, build.key, build.sha256);
        run != nullptr && build.status == "compiled_only") {
      build.status = run->status;
    }
    model.builds.push_back(std::move(build));
  };
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const VariantProvenance& provenance = *kernel.variant->provenance;
    for (const ProvenanceBuild& from : provenance.builds) {
      FETTLE_ASSIGN_OR_RETURN(const std::string object, object_of(from.code_object));
      BundleBuild build{
          .kernel = kernel.id,
          .target = from.target,
          .status = from.status,
          .key = from.key,
          .compiler = from.compiler,
          .machine = VendorOf(from.target) == Vendor::kCpu ? DeviceModel(provenance) : "",
          .macros = {},
          .entries = from.entries,
          .symbols = from.symbols,
          .facts = from.facts.is_object() ? from.facts : json::object(),
          .path = {},
          .sha256 = {},
          .bytes = 0,
          .waits = false,
          .selectors = {}};
      add(std::move(build), object);
    }
  }
  std::vector<const ExtraBuild*> sorted;
  for (const ExtraBuild& extra : extras.builds) sorted.push_back(&extra);
  std::sort(sorted.begin(), sorted.end(), [](const ExtraBuild* a, const ExtraBuild* b) {
    return std::tie(a->kernel, a->target, a->key) < std::tie(b->kernel, b->target, b->key);
  });
  for (const ExtraBuild* from : sorted) {
    if (model.KernelIndex(from->kernel) < 0) {
      return absl::InvalidArgumentError(
          fmt::format("export: a build is for {}, which is not exported", from->kernel));
    }
    BundleBuild build{.kernel = from->kernel,
                      .target = from->target,
                      .status = "compiled_only",
                      .key = from->key,
                      .compiler = from->compiler,
                      .machine = from->machine,
                      .macros = {},
                      .entries = from->entries,
                      .symbols = from->symbols,
                      .facts = from->facts.is_object() ? from->facts : json::object(),
                      .path = {},
                      .sha256 = {},
                      .bytes = 0,
                      .waits = false,
                      .selectors = {}};
    add(std::move(build), from->code_object);
  }
  return absl::OkStatus();
}

std::string DigestOf(const BundleModel& model, const BundleExtras& extras) {
  json parts = {{"format", 2},
                {"task", model.task->digest()},
                {"version", model.version},
                {"tool", FETTLE_VERSION},
                {"variants", json::array()},
                {"builds", json::array()},
                {"vectors", json::object()}};
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    parts["variants"].push_back(Sha256Hex(CanonicalJson(kernel.variant->provenance->document)));
  }
  for (const BundleBuild& build : model.builds) {
    parts["builds"].push_back({build.kernel, build.target, build.status, build.key, build.sha256});
  }
  for (const auto& [path, bytes] : extras.vectors) parts["vectors"][path] = Sha256Hex(bytes);
  for (const auto& [path, bytes] : extras.runs) parts["runs"][path] = Sha256Hex(bytes);
  return Sha256Hex(CanonicalJson(parts));
}

}  // namespace

int BundleModel::KernelIndex(const std::string& id) const {
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].id == id) return static_cast<int>(k);
  }
  return -1;
}

absl::StatusOr<std::vector<BoundCase>> OwnCases(const Task& task, const std::string& target) {
  FETTLE_ASSIGN_OR_RETURN(const Target limits, FindTarget(target));
  FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> cases,
                          task.BindCases(CaseSet::kTimed, kBindSeed, limits));
  FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> checked,
                          task.BindCases(CaseSet::kChecked, kBindSeed, limits));
  std::move(checked.begin(), checked.end(), std::back_inserter(cases));
  return cases;
}

BuildSelector SelectorOf(const Task& task, const BoundCase& bound_case) {
  BuildSelector selector;
  for (const auto& [family, dtype] : bound_case.types) selector.types[family] = dtype;
  for (const std::string& name : task.model().specialize) {
    for (const BoundDim& dim : bound_case.dims) {
      if (dim.name == name && !dim.values.empty()) selector.special[name] = dim.values.front();
    }
  }
  return selector;
}

absl::StatusOr<BundleModel> MakeBundleModel(
    std::span<const ProvenVariant> variants, const BundleExtras& extras,
    const std::function<absl::StatusOr<std::string>(const std::string&)>& object_of) {
  BundleModel model;
  model.task = variants.front().task;
  model.version = extras.version;
  for (const ProvenVariant& variant : variants) {
    BundleKernel kernel{.id = variant.provenance->id,
                        .kernel = variant.kernel,
                        .values = variant.values,
                        .variant = &variant,
                        .envelopes = {}};
    FETTLE_ASSIGN_OR_RETURN(kernel.envelopes, EnvelopesOf(variant));
    model.kernels.push_back(std::move(kernel));
  }
  model.kernels.push_back({.id = kBaselineId,
                           .kernel = model.task->baseline(),
                           .values = model.task->baseline().values,
                           .variant = nullptr,
                           .envelopes = {}});
  FETTLE_ASSIGN_OR_RETURN(model.runs, ReadRuns(extras.runs, variants));
  FETTLE_RETURN_IF_ERROR(AddBuilds(extras, object_of, model));
  std::set<std::string> ran, all;
  for (const BundleKernel& kernel : model.kernels) {
    std::map<std::string, std::vector<BundleBuild*>> by_target;
    for (BundleBuild& build : model.builds) {
      if (build.kernel == kernel.id) by_target[build.target].push_back(&build);
      all.insert(build.target);
      if (build.status == "run") ran.insert(build.target);
    }
    for (auto& [target, builds] : by_target) {
      FETTLE_RETURN_IF_ERROR(AssignCases(*model.task, kernel, target, builds));
    }
  }
  model.targets.assign(ran.begin(), ran.end());
  // A device is served by the first that it runs: its own architecture before PTX, and of several
  // levels of PTX the highest.
  std::vector<std::string> portable;
  for (const std::string& target : all) {
    if (!ran.contains(target)) (IsPtx(target) ? portable : model.targets).push_back(target);
  }
  std::sort(portable.begin(), portable.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);
  });
  model.targets.insert(model.targets.end(), portable.begin(), portable.end());
  for (const std::string& target : model.targets) {
    FETTLE_ASSIGN_OR_RETURN(TargetSelection selection, SelectFor(model, target));
    model.selection.push_back(std::move(selection));
  }
  model.digest = DigestOf(model, extras);
  return model;
}

std::set<std::string> VariantsInForce(const BundleModel& model) {
  std::set<std::string> ids;
  for (const TargetSelection& selection : model.selection) {
    for (const int k : selection.members) ids.insert(model.kernels[static_cast<std::size_t>(k)].id);
  }
  std::map<std::string, const BundleKernel*> best;
  std::set<std::string> served;
  for (const BundleKernel& kernel : model.kernels) {
    if (kernel.variant == nullptr) continue;
    const std::string& target = kernel.variant->provenance->target;
    if (ids.contains(kernel.id)) served.insert(target);
    const BundleKernel*& slot = best[target];
    if (slot == nullptr || kernel.variant->provenance->ratio > slot->variant->provenance->ratio)
      slot = &kernel;
  }
  for (const auto& [target, kernel] : best) {
    if (!served.contains(target)) ids.insert(kernel->id);
  }
  return ids;
}

}  // namespace fettle
