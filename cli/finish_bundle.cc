// SPDX-License-Identifier: Apache-2.0
#include "cli/finish_bundle.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/paths.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "exporter/signature.h"
#include "store/files.h"
#include "worker/test_vectors.h"
#include "worker/toolchains.h"
#include "worker/unit_builds.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

std::string DefaultKeyFile() {
  const char* named = std::getenv("FETTLE_SIGNING_KEY");
  if (named != nullptr && *named != '\0') return named;
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return std::string(config) + "/fettle/signing_key.pem";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? ""
                                          : std::string(home) + "/.config/fettle/signing_key.pem";
}

// Whether the target is the cpu; what the key of an object for it must name.
bool IsCpu(const std::string& target) {
  const absl::StatusOr<Target> found = FindTarget(target);
  return found.ok() && found->vendor == Vendor::kCpu;
}

class Finisher {
 public:
  Finisher(Context& context, const FinishOptions& options, std::vector<std::string>* notes)
      : context_(context), options_(options), notes_(notes) {}

  absl::StatusOr<BundleFiles> Run(const BundleFiles& files) {
    FETTLE_ASSIGN_OR_RETURN(LoadedBundle loaded, LoadBundle(files));
    parts_ = std::move(loaded.parts);
    if (!options_.version.empty()) parts_->extras.version = options_.version;
    if (!options_.no_build || !options_.also.empty())
      FETTLE_RETURN_IF_ERROR(AddBuilds(loaded.model));
    if (!options_.no_vectors) AddVectors(*loaded.model.task);
    context_.terminal.Status("laying out the bundle");
    absl::StatusOr<BundleFiles> finished = LayOutAgain(*parts_, files);
    context_.terminal.Status("");
    FETTLE_RETURN_IF_ERROR(finished.status());
    if (!options_.no_sign) {
      FETTLE_ASSIGN_OR_RETURN(const std::string key, ReadSigningKey(options_.key_file, notes_));
      FETTLE_RETURN_IF_ERROR(SignBundle(key, *finished));
    }
    return finished;
  }

 private:
  absl::Status AddBuilds(const BundleModel& model);
  absl::Status AddFor(const BundleModel& model, const BundleKernel& kernel,
                      const std::string& target);
  void AddVectors(const Task& task);
  std::string Machine();

  Context& context_;
  const FinishOptions& options_;
  std::vector<std::string>* notes_;
  std::unique_ptr<BundleParts> parts_;
  std::optional<Toolchains> toolchains_;
  std::optional<std::string> machine_;
};

// The processor that this machine compiles for.
std::string Finisher::Machine() {
  if (!machine_) {
    machine_ = "";
    const absl::StatusOr<LocalLab> lab = LocalLab::Open(options_.local);
    for (const DeviceInfo& device : lab.ok() ? lab->runner->devices() : std::vector<DeviceInfo>()) {
      if (device.target.vendor == Vendor::kCpu) machine_ = device.model;
    }
  }
  return *machine_;
}

absl::Status Finisher::AddBuilds(const BundleModel& model) {
  std::set<std::string> own(model.targets.begin(), model.targets.end());
  std::set<std::string> all = own;
  all.insert(options_.also.begin(), options_.also.end());
  const bool gpu =
      std::any_of(all.begin(), all.end(), [](const std::string& target) { return !IsCpu(target); });
  toolchains_ = Toolchains::Find(options_.local.ToOptions().cache_dir, gpu);
  for (const std::string& target : all) {
    const bool asked =
        std::find(options_.also.begin(), options_.also.end(), target) != options_.also.end();
    for (const BundleKernel& kernel : model.kernels) {
      const bool baseline = kernel.id == kBaselineId;
      if (baseline && options_.no_build) continue;
      if (!baseline && !asked) continue;
      const absl::Status added = AddFor(model, kernel, target);
      if (added.ok()) continue;
      if (asked) return added;
      notes_->push_back(std::string(added.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status Finisher::AddFor(const BundleModel& model, const BundleKernel& kernel,
                              const std::string& target) {
  BuildContext build;
  FETTLE_ASSIGN_OR_RETURN(build.target, FindTarget(target));
  FETTLE_ASSIGN_OR_RETURN(build.compiler, toolchains_->For(build.target));
  LaneGate gate(2);
  build.gate = &gate;
  build.task = model.task.get();
  build.stop = context_.stop;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> all, OwnCases(*model.task, target));
  std::vector<BoundCase> cases;
  for (const BoundCase& bound_case : all) {
    FETTLE_ASSIGN_OR_RETURN(const bool supported, model.task->Supports(kernel.kernel, bound_case));
    if (!supported) continue;
    FETTLE_ASSIGN_OR_RETURN(const bool admitted, model.task->Admits(kernel.kernel, kernel.values,
                                                                    build.target, &bound_case));
    if (admitted) cases.push_back(bound_case);
  }
  context_.terminal.Status(fmt::format("compiling {} for {}", kernel.id, target));
  const KernelUnderTest under{.digest = {}, .kernel = kernel.kernel, .values = kernel.values};
  absl::StatusOr<BuiltKernel> built =
      BuildKernel(build, under, cases, CompileMode::kFast, kernel.kernel.lanes == 64 ? 64 : 32);
  context_.terminal.Status("");
  FETTLE_RETURN_IF_ERROR(built.status());
  if (built->rejected) {
    return absl::FailedPreconditionError(fmt::format("compile {} for {}: rejected: {}", kernel.id,
                                                     target, built->rejected->log.substr(0, 300)));
  }
  if (IsPortable(build.target)) {
    // The compiler writes PTX without assembling it; the first architecture of its number says
    // whether it can be.
    BuildContext native = build;
    native.target.name = "sm_" + target.substr(target.find('_') + 1);
    FETTLE_ASSIGN_OR_RETURN(const BuiltKernel assembled,
                            BuildKernel(native, under, cases, CompileMode::kFast, 32));
    if (assembled.rejected) {
      return absl::FailedPreconditionError(
          fmt::format("compile {} for {}: its PTX does not assemble for {}: {}", kernel.id, target,
                      native.target.name, assembled.rejected->log.substr(0, 300)));
    }
  }
  for (auto& [key, one] : built->builds) {
    const bool known =
        std::any_of(model.builds.begin(), model.builds.end(), [&](const BundleBuild& other) {
          return other.kernel == kernel.id && other.target == target && other.key == key;
        });
    if (known) continue;
    parts_->extras.builds.push_back({.kernel = kernel.id,
                                     .target = target,
                                     .key = key,
                                     .compiler = one.record.compiler,
                                     .machine = IsCpu(target) ? Machine() : "",
                                     .entries = one.record.entries,
                                     .symbols = one.record.symbols,
                                     .facts = one.record.facts,
                                     .code_object = std::move(one.code_object)});
  }
  return absl::OkStatus();
}

void Finisher::AddVectors(const Task& task) {
  if (!parts_->extras.vectors.empty()) return;
  const UnitRunnerOptions options = options_.local.ToOptions();
  context_.terminal.Status("running the reference for test vectors");
  absl::StatusOr<std::map<std::string, std::string>> vectors =
      MakeTestVectors(task, {.runner_path = options.runner_path, .cache_dir = options.cache_dir});
  context_.terminal.Status("");
  if (!vectors.ok()) {
    notes_->push_back(fmt::format("no test vectors: {}", std::string(vectors.status().message())));
  } else if (vectors->empty()) {
    notes_->push_back("no test vectors: no checked case is small enough and told by plain tensors");
  } else {
    parts_->extras.vectors = *std::move(vectors);
  }
}

}  // namespace

void FinishOptions::Declare(FlagSet& flags) {
  flags.Flag("--also", "TARGET", &also,
             "compile every variant for this architecture too (compiled_only)");
  flags.Flag("--version", "X.Y.Z", &version, "the bundle's version (default 1.0.0)");
  flags
      .Flag("--key", "FILE", &key_file,
            "Ed25519 signing key (default ~/.config/fettle/signing_key.pem, made when missing)")
      .completes = Completes::kFile;
  flags.Flag("--no-sign", "", &no_sign, "leave out the signature");
  flags.Flag("--no-build", "", &no_build,
             "leave out the baseline's objects; the fallback is then a callback");
  flags.Flag("--no-vectors", "", &no_vectors, "leave out test vectors");
  local.Declare(flags);
}

absl::StatusOr<std::string> ReadSigningKey(const std::string& key_file,
                                           std::vector<std::string>* notes) {
  const std::string path = key_file.empty() ? DefaultKeyFile() : key_file;
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "sign the bundle: no HOME; give a key with --key, or --no-sign");
  }
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (!key_file.empty())
      return absl::InvalidArgumentError(
          fmt::format("sign the bundle: --key {}: no such file; make it with openssl genpkey "
                      "-algorithm ed25519, or leave the flag out",
                      path));
    FETTLE_ASSIGN_OR_RETURN(const std::string key, NewSigningKey());
    FETTLE_RETURN_IF_ERROR(MakePrivateFolder(fs::path(path).parent_path().string()));
    FETTLE_RETURN_IF_ERROR(WriteFileDurably(path, key));
    ::chmod(path.c_str(), 0600);
    FETTLE_ASSIGN_OR_RETURN(const std::string public_key, PublicKeyOf(key));
    notes->push_back(fmt::format("made the signing key {} ({}); keep it", path, KeyId(public_key)));
    return key;
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("sign the bundle: others can read the key {}; chmod 600 it", path));
  }
  FETTLE_ASSIGN_OR_RETURN(std::string key, ReadWholeFile(path));
  if (!PublicKeyOf(key).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("sign the bundle: {} holds no Ed25519 private key in PEM form; make one with "
                    "openssl genpkey -algorithm ed25519",
                    path));
  }
  return key;
}

absl::StatusOr<BundleFiles> FinishBundle(Context& context, const BundleFiles& files,
                                         const FinishOptions& options,
                                         std::vector<std::string>* notes) {
  return Finisher(context, options, notes).Run(files);
}

}  // namespace fettle
