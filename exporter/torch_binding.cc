// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/target.h"
#include "core/task_model.h"
#include "exporter/generated.h"
#include "exporter/operator_header.h"

namespace fettle {
namespace {

// Where a dim can be read: a tensor that is always given, and the axis.
struct Origin {
  std::string tensor;
  std::size_t axis = 0;
};

std::optional<Origin> OriginOf(const OperatorView& view, const std::string& dim) {
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role == Role::kOut || !arg->optional_dim.empty()) continue;
    for (std::size_t axis = 0; axis < arg->shape.size(); ++axis) {
      if (arg->shape[axis].text() == dim) return Origin{arg->name, axis};
    }
  }
  return std::nullopt;
}

// The tensor that shows a family's dtype.
std::string TensorOfFamily(const OperatorView& view, const std::string& family) {
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role != Role::kOut && arg->optional_dim.empty() && arg->type.family == family)
      return arg->name;
  }
  return "";
}

const char* TorchDType(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "kDouble";
    case DType::kF32:
      return "kFloat";
    case DType::kF16:
      return "kHalf";
    case DType::kBF16:
      return "kBFloat16";
    case DType::kF8E4M3FN:
      return "kFloat8_e4m3fn";
    case DType::kF8E4M3FNUZ:
      return "kFloat8_e4m3fnuz";
    case DType::kF8E5M2:
      return "kFloat8_e5m2";
    case DType::kF8E5M2FNUZ:
      return "kFloat8_e5m2fnuz";
    case DType::kI64:
      return "kLong";
    case DType::kI32:
      return "kInt";
    case DType::kI16:
      return "kShort";
    case DType::kI8:
      return "kChar";
    case DType::kBool:
      return "kBool";
    default:
      return "kByte";
  }
}

const char* PythonDType(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "float64";
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF8E4M3FN:
      return "float8_e4m3fn";
    case DType::kF8E4M3FNUZ:
      return "float8_e4m3fnuz";
    case DType::kF8E5M2:
      return "float8_e5m2";
    case DType::kF8E5M2FNUZ:
      return "float8_e5m2fnuz";
    case DType::kI64:
      return "int64";
    case DType::kI32:
      return "int32";
    case DType::kI16:
      return "int16";
    case DType::kI8:
      return "int8";
    case DType::kBool:
      return "bool";
    default:
      return "uint8";
  }
}

// An expression over dims as Python; sizes are not negative, so truncation is flooring.
std::string Python(const Expr& expr) {
  std::string out;
  const std::string text = expr.canonical();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view two = std::string_view(text).substr(i, 2);
    if (two == "&&" || two == "||") {
      out += two == "&&" ? " and " : " or ";
      ++i;
    } else if (text[i] == '/') {
      out += "//";
    } else if (text[i] == '^') {
      out += "**";
    } else if (text[i] == '!' && two != "!=") {
      out += " not ";
    } else {
      out += text[i];
    }
  }
  return out;
}

class Binding {
 public:
  explicit Binding(const BundleModel& model)
      : model_(model),
        view_(ViewOf(model)),
        task_(model.task->model()),
        space_(OperatorNamespace(model)),
        name_(CppIdentifier(model.task->name())) {
    for (const DimDecl* dim : view_.inputs) {
      if (!OriginOf(view_, dim->name)) explicit_dims_.push_back(dim);
    }
  }

  // Every family must be visible in a tensor that the caller passes.
  bool possible() const {
    if (!view_.pointers.empty() || !view_.lists.empty()) return false;
    return std::all_of(task_.types.begin(), task_.types.end(), [&](const TypeFamily& family) {
      return !TensorOfFamily(view_, family.name).empty();
    });
  }

  GeneratedFiles Files() const {
    return {{"integrations/torch/binding.cpp", Cpp()},
            {"integrations/torch/op.py", Py()},
            {"integrations/torch/setup.py", Setup()}};
  }

 private:
  bool IsOutput(const ArgDecl& arg) const { return arg.role == Role::kOut; }
  std::string SchemaArguments(bool outputs) const;
  std::string CppParameters(bool outputs) const;
  std::string CppNames(bool outputs) const;
  std::string ShapeCode() const;
  std::string Cpp() const;
  std::string Py() const;
  std::string Setup() const;

  const BundleModel& model_;
  const OperatorView view_;
  const TaskModel& task_;
  const std::string space_, name_;
  std::vector<const DimDecl*> explicit_dims_;
};

std::string Binding::SchemaArguments(bool outputs) const {
  std::vector<std::string> parts;
  char mark = 'a';
  for (const ArgDecl* arg : view_.tensors) {
    if (IsOutput(*arg)) continue;
    const char* optional = arg->optional_dim.empty() ? "" : "?";
    parts.push_back(
        arg->role == Role::kInOut
            ? fmt::format("Tensor({}!){} {}", mark++, optional, CppIdentifier(arg->name))
            : fmt::format("Tensor{} {}", optional, CppIdentifier(arg->name)));
  }
  for (const DimDecl* dim : explicit_dims_) parts.push_back("SymInt " + CppIdentifier(dim->name));
  for (const ArgDecl* arg : view_.scalars) {
    parts.push_back((IsFloat(arg->type.dtype) ? "float " : "int ") + CppIdentifier(arg->name));
  }
  for (const ArgDecl* arg : view_.tensors) {
    if (outputs && IsOutput(*arg))
      parts.push_back(fmt::format("Tensor({}!) {}", mark++, CppIdentifier(arg->name)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Binding::CppParameters(bool outputs) const {
  std::vector<std::string> parts;
  for (const ArgDecl* arg : view_.tensors) {
    if (IsOutput(*arg)) continue;
    parts.push_back(arg->optional_dim.empty()
                        ? "const at::Tensor& " + CppIdentifier(arg->name)
                        : "const std::optional<at::Tensor>& " + CppIdentifier(arg->name));
  }
  for (const DimDecl* dim : explicit_dims_)
    parts.push_back("std::int64_t " + CppIdentifier(dim->name));
  for (const ArgDecl* arg : view_.scalars) {
    parts.push_back((IsFloat(arg->type.dtype) ? "double " : "std::int64_t ") +
                    CppIdentifier(arg->name));
  }
  for (const ArgDecl* arg : view_.tensors) {
    if (outputs && IsOutput(*arg)) parts.push_back("const at::Tensor& " + CppIdentifier(arg->name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Binding::CppNames(bool outputs) const {
  std::vector<std::string> parts;
  for (const ArgDecl* arg : view_.tensors) {
    if (!IsOutput(*arg)) parts.push_back(CppIdentifier(arg->name));
  }
  for (const DimDecl* dim : explicit_dims_) parts.push_back(CppIdentifier(dim->name));
  for (const ArgDecl* arg : view_.scalars) parts.push_back(CppIdentifier(arg->name));
  for (const ArgDecl* arg : view_.tensors) {
    if (outputs && IsOutput(*arg)) parts.push_back(CppIdentifier(arg->name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Binding::ShapeCode() const {
  std::string text;
  for (const TypeFamily& family : task_.types) {
    text += fmt::format("  types.{} = dtype_of({});\n", family.name,
                        CppIdentifier(TensorOfFamily(view_, family.name)));
  }
  for (const DimDecl* dim : view_.inputs) {
    const auto origin = OriginOf(view_, dim->name);
    const std::string field = CppIdentifier(dim->name);
    if (!origin) {
      text += fmt::format("  shape.{0} = {0};\n", field);
      continue;
    }
    const std::string tensor = CppIdentifier(origin->tensor);
    text += fmt::format(
        "  TORCH_CHECK({0}.dim() > {1}, \"{2}: {0} has too few dimensions\");\n  shape.{3} = "
        "{0}.size({1});\n",
        tensor, origin->axis, name_, field);
  }
  return text;
}

std::string Binding::Cpp() const {
  std::string views, outputs, returned, fills;
  std::string first, guard;
  for (const ArgDecl* arg : view_.tensors) {
    const std::string field = CppIdentifier(arg->name);
    const bool writes = arg->role == Role::kOut || arg->role == Role::kInOut;
    if (arg->optional_dim.empty()) {
      views += fmt::format(
          "  args.{0} = view<std::remove_reference_t<decltype(*args.{0}.data)>>({0});\n", field);
      if (!IsOutput(*arg))
        guard += fmt::format(
            "  TORCH_CHECK({0}.device() == device, \"{1}: {0} is on another device\");\n", field,
            name_);
    } else {
      views += fmt::format(
          "  if ({0}.has_value()) args.{0} = "
          "view<std::remove_reference_t<decltype(*args.{0}.data)>>(*{0});\n",
          field);
    }
    (void)writes;
    if (!IsOutput(*arg) && arg->optional_dim.empty() && first.empty()) first = field;
    if (!IsOutput(*arg)) continue;
    std::string sizes;
    for (std::size_t d = 0; d < arg->shape.size(); ++d)
      sizes += fmt::format("{}call.s_{}[{}].value", d == 0 ? "" : ", ", arg->name, d);
    const std::string dtype =
        arg->type.family.empty()
            ? std::string("at::") + TorchDType(arg->type.dtype)
            : CppIdentifier(TensorOfFamily(view_, arg->type.family)) + ".scalar_type()";
    outputs +=
        fmt::format("  const at::Tensor {0} = at::empty({{{1}}}, {2}.options().dtype({3}));\n",
                    field, sizes, first, dtype);
    returned += (returned.empty() ? "" : ", ") + field;
  }
  const std::size_t count =
      static_cast<std::size_t>(std::count_if(view_.tensors.begin(), view_.tensors.end(),
                                             [&](const ArgDecl* arg) { return IsOutput(*arg); }));
  const std::string result_type = count == 0 ? "void"
                                  : count == 1
                                      ? "at::Tensor"
                                      : "std::tuple<" +
                                            [&] {
                                              std::string list;
                                              for (std::size_t i = 0; i < count; ++i)
                                                list += i == 0 ? "at::Tensor" : ", at::Tensor";
                                              return list;
                                            }() +
                                            ">";
  const std::string schema_result = count == 0   ? "()"
                                    : count == 1 ? "Tensor"
                                                 : "(" +
                                                       [&] {
                                                         std::string list;
                                                         for (std::size_t i = 0; i < count; ++i)
                                                           list += i == 0 ? "Tensor" : ", Tensor";
                                                         return list;
                                                       }() +
                                                       ")";
  std::string functional;
  if (count > 0) {
    functional = fmt::format(
        "{0} {1}({2}) {{\n  ops::Types types;\n  ops::Shape shape;\n{3}  const ops::Args "
        "none{{}};\n"
        "  const ops::detail::Call call(types, shape, none);\n  if (const char* problem = "
        "ops::detail::check(call)) TORCH_CHECK(false, \"{1}: \", problem);\n{4}"
        "  {1}_out({5});\n  return {6};\n}}\n\n",
        result_type, name_, CppParameters(false), ShapeCode(), outputs, CppNames(true),
        count == 1 ? returned : "{" + returned + "}");
  }
  const std::string out_name = count == 0 ? name_ : name_ + "_out";
  return fmt::format(
      R"text(// SPDX-License-Identifier: {license}
// Generated by fettle {tool}; do not edit. {name} as a PyTorch operator, forward only: there is no autograd formula.
// One source serves CUDA and ROCm builds of PyTorch; the CUDA dispatch key means either.
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <fettle_ops/{name}/{digest}.hpp>

// PyTorch's C interface, in libtorch_cuda and libtorch_hip: no vendor header is needed.
extern "C" __attribute__((weak)) std::int32_t aoti_torch_get_current_cuda_stream(std::int32_t device, void** stream);

namespace {{
namespace ops = fettle_ops::{space};

// Never destroyed: at the end of the program the driver may be gone.
ops::Operator& instance() {{
  static ops::Operator* const op = new ops::Operator;
  return *op;
}}

[[maybe_unused]] fettle::DType dtype_of(const at::Tensor& tensor) {{
  switch (tensor.scalar_type()) {{
    case at::kDouble: return fettle::DType::f64;
    case at::kFloat: return fettle::DType::f32;
    case at::kHalf: return fettle::DType::f16;
    case at::kBFloat16: return fettle::DType::bf16;
    case at::kFloat8_e4m3fn: return fettle::DType::f8e4m3fn;
    case at::kFloat8_e4m3fnuz: return fettle::DType::f8e4m3fnuz;
    case at::kFloat8_e5m2: return fettle::DType::f8e5m2;
    case at::kFloat8_e5m2fnuz: return fettle::DType::f8e5m2fnuz;
    case at::kLong: return fettle::DType::i64;
    case at::kInt: return fettle::DType::i32;
    case at::kShort: return fettle::DType::i16;
    case at::kChar: return fettle::DType::i8;
    case at::kByte: return fettle::DType::u8;
    case at::kBool: return fettle::DType::boolean;
    default: TORCH_CHECK(false, "{name}: dtype ", tensor.scalar_type(), " is not supported");
  }}
}}

template <class T>
fettle::View<T> view(const at::Tensor& tensor) {{
  return fettle::View<T>(static_cast<T*>(const_cast<void*>(tensor.const_data_ptr())), dtype_of(tensor),
                         static_cast<int>(tensor.dim()), tensor.sizes().data(), tensor.strides().data());
}}

fettle::Stream stream_of(const at::Tensor& tensor) {{
  if (tensor.is_cuda()) {{
    void* stream = nullptr;
    TORCH_CHECK(aoti_torch_get_current_cuda_stream != nullptr &&
                    aoti_torch_get_current_cuda_stream(static_cast<std::int32_t>(tensor.get_device()), &stream) == 0,
                "{name}: PyTorch gives no current stream");
#ifdef USE_ROCM
    return fettle::hip(stream);
#else
    return fettle::cuda(stream);
#endif
  }}
  TORCH_CHECK(tensor.is_cpu(), "{name}: the device ", tensor.device(), " is not supported");
  return fettle::cpu();
}}

void {out_name}({out_parameters}) {{
  const at::Device device = {first}.device();
  const c10::DeviceGuard on(device);
{guard}  ops::Types types;
  ops::Shape shape;
  ops::Args args;
{shape}{views}{scalars}  const fettle::Stream stream = stream_of({first});
  ops::Operator& op = instance();
  fettle::Workspace workspace;
  at::Tensor memory;
  const auto reserve = [&] {{
    workspace.bytes = op.workspace_bytes(stream.backend, types, shape);
    if (workspace.bytes == 0) return;
    memory = at::empty({{static_cast<std::int64_t>(workspace.bytes)}}, {first}.options().dtype(at::kByte));
    workspace.data = memory.data_ptr();
  }};
  if (kMayNeedWorkspace) reserve();
  fettle::Result result = op(stream, types, shape, args, workspace);
  if (result.status == fettle::Status::kNotPrepared) {{
    // First use of this device. It must not be within a graph capture: call the operator once before.
    const fettle::Result ready = op.prepare(stream.backend);
    TORCH_CHECK(static_cast<bool>(ready), "{name}: ", ready.message);
    if (kMayNeedWorkspace) reserve();
    result = op(stream, types, shape, args, workspace);
  }}
  TORCH_CHECK(static_cast<bool>(result), "{name}: ", result.message, " (driver code ", result.code, ")");
}}

{functional}// What the operator did so far, for tests and for tuning: counts per kind of choice, then a JSON line per shape.
std::string statistics() {{
  const fettle::Statistics s = instance().statistics();
  return "{{\"exact\":" + std::to_string(s.exact) + ",\"bucket\":" + std::to_string(s.bucket) +
         ",\"generic\":" + std::to_string(s.generic) + ",\"fallback\":" + std::to_string(s.fallback) +
         ",\"refused\":" + std::to_string(s.refused) + "}}\n" + instance().misses();
}}

}}  // namespace

TORCH_LIBRARY(fettle_{space}, m) {{
{functional_schema}  m.def("{out_name}({out_schema}) -> ()");
  m.def("statistics() -> str", &statistics);
  m.def("read_switches() -> ()", [] {{ instance().read_switches(); }});
}}
{impls})text",
      fmt::arg("license", model_.task->license()), fmt::arg("tool", FETTLE_VERSION),
      fmt::arg("name", name_), fmt::arg("digest", model_.short_digest()), fmt::arg("space", space_),
      fmt::arg("out_name", out_name), fmt::arg("out_parameters", CppParameters(true)),
      fmt::arg("first", first), fmt::arg("guard", guard), fmt::arg("shape", ShapeCode()),
      fmt::arg("views", views),
      fmt::arg("scalars",
               [&] {
                 std::string text;
                 for (const ArgDecl* arg : view_.scalars)
                   text += fmt::format("  args.{0} = {0};\n", CppIdentifier(arg->name));
                 const bool workspace = std::any_of(model_.kernels.begin(), model_.kernels.end(),
                                                    [](const BundleKernel& kernel) {
                                                      return kernel.kernel.workspace.is_array() &&
                                                             !kernel.kernel.workspace.empty();
                                                    });
                 text += fmt::format("  constexpr bool kMayNeedWorkspace = {};\n", workspace);
                 return text;
               }()),
      fmt::arg("functional", functional),
      fmt::arg("functional_schema", count == 0
                                        ? ""
                                        : fmt::format("  m.def(\"{}({}) -> {}\");\n", name_,
                                                      SchemaArguments(false), schema_result)),
      fmt::arg("out_schema", SchemaArguments(true)), fmt::arg("impls", [&] {
        std::string text;
        for (const char* key : {"CUDA", "CPU"}) {
          text += fmt::format("TORCH_LIBRARY_IMPL(fettle_{}, {}, m) {{\n", space_, key);
          if (count > 0) text += fmt::format("  m.impl(\"{0}\", &{0});\n", name_);
          text += fmt::format("  m.impl(\"{0}\", &{0});\n}}\n", out_name);
        }
        return text;
      }()));
}

std::string Binding::Py() const {
  std::vector<std::string> parameters;
  for (const ArgDecl* arg : view_.tensors) {
    if (!IsOutput(*arg)) parameters.push_back(CppIdentifier(arg->name));
  }
  for (const DimDecl* dim : explicit_dims_) parameters.push_back(CppIdentifier(dim->name));
  for (const ArgDecl* arg : view_.scalars) parameters.push_back(CppIdentifier(arg->name));
  std::string dims, outs;
  std::string first;
  for (const ArgDecl* arg : view_.tensors) {
    if (!IsOutput(*arg) && arg->optional_dim.empty() && first.empty())
      first = CppIdentifier(arg->name);
  }
  for (const DimDecl* dim : view_.inputs) {
    if (const auto origin = OriginOf(view_, dim->name)) {
      dims += fmt::format("    {} = {}.size({})\n", dim->name, CppIdentifier(origin->tensor),
                          origin->axis);
    }
  }
  for (const DimDecl* dim : view_.computed)
    dims += fmt::format("    {} = {}\n", dim->name, Python(*dim->let));
  std::vector<std::string> names;
  for (const ArgDecl* arg : view_.tensors) {
    if (!IsOutput(*arg)) continue;
    std::string sizes;
    for (const Expr& extent : arg->shape) sizes += Python(extent) + ", ";
    const std::string dtype =
        arg->type.family.empty()
            ? fmt::format("torch.{}", PythonDType(arg->type.dtype))
            : CppIdentifier(TensorOfFamily(view_, arg->type.family)) + ".dtype";
    names.push_back(fmt::format("{}.new_empty(({}), dtype={})", first, sizes, dtype));
  }
  std::string fake;
  std::vector<std::string> with_outputs = parameters;
  for (const ArgDecl* arg : view_.tensors) {
    if (IsOutput(*arg)) with_outputs.push_back(CppIdentifier(arg->name));
  }
  if (!names.empty()) {
    fake = fmt::format(
        "\n\n@torch.library.register_fake(\"fettle_{0}::{1}\")\ndef _fake({2}):\n{3}    return "
        "{4}\n",
        space_, name_, fmt::join(parameters, ", "), dims,
        names.size() == 1 ? names[0] : fmt::format("({})", fmt::join(names, ", ")));
  }
  const std::string out_name = names.empty() ? name_ : name_ + "_out";
  return fmt::format(
      R"py(# SPDX-License-Identifier: {0}
"""{1} {2} for PyTorch: `from op import {1}`. Generated by fettle {3}; do not edit.

Compiles the extension on first use (needs a C++ compiler) unless setup.py built it. Forward only.
"""
import os
import pathlib
import subprocess
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPACE = "fettle_{4}"


def compile_command(output):
    """The compiler's arguments that make the extension `output`."""
    from torch.utils import cpp_extension
    library = pathlib.Path(torch.__file__).parent / "lib"
    command = [os.environ.get("CXX", "g++"), "-O2", "-std=c++20", "-shared", "-fPIC", "-pthread",
               "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI, "-DFETTLE_ROOT_{4}=\"%s\"" % ROOT,
               "-I%s" % (ROOT / "include")]
    command += ["-I%s" % path for path in cpp_extension.include_paths()]
    if torch.version.hip is not None:
        command.append("-DUSE_ROCM")
    command += [str(pathlib.Path(__file__).resolve().parent / "binding.cpp"), "-o", str(output), "-L%s" % library,
                "-Wl,-rpath,%s" % library, "-Wl,--no-as-needed", "-lc10", "-ltorch_cpu", "-ltorch", "-ldl"]
    if torch.version.cuda is not None:
        command.append("-ltorch_cuda")
    elif torch.version.hip is not None:
        command.append("-ltorch_hip")
    return command


def _load():
    built = sorted(pathlib.Path(__file__).resolve().parent.glob("fettle_torch_{4}*.so"))
    if not built:
        folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "fettle" / "torch"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / ("fettle_torch_{4}-%s.so" % torch.__version__)
        if not path.exists():
            handle, temporary = tempfile.mkstemp(suffix=".so", dir=folder)
            os.close(handle)
            subprocess.run(compile_command(temporary), check=True)
            os.replace(temporary, path)
        built = [path]
    torch.ops.load_library(str(built[0]))


def ceil_div(a, b):
    return -(-a // b)


def select(condition, a, b):
    return a if condition else b


_load(){5}

@torch.library.register_fake("fettle_{4}::{6}")
def _fake_out({7}):
    return None


{1} = getattr(torch.ops, SPACE).{1}.default
{6} = getattr(torch.ops, SPACE).{6}.default
statistics = getattr(torch.ops, SPACE).statistics
read_switches = getattr(torch.ops, SPACE).read_switches
)py",
      model_.task->license(), name_, model_.version, FETTLE_VERSION, space_, fake, out_name,
      fmt::join(with_outputs, ", "));
}

std::string Binding::Setup() const {
  return fmt::format(
      R"py(# SPDX-License-Identifier: {0}
"""Builds the PyTorch operator of {1}: `python setup.py build_ext --inplace`. Generated by fettle {2}; do not edit."""
import pathlib

import subprocess

import setuptools
from setuptools.command.build_ext import build_ext

here = pathlib.Path(__file__).resolve().parent


class Build(build_ext):
    """Runs the compiler as op.py does, into this folder."""

    def build_extension(self, extension):
        source = (here / "op.py").read_text().split("_load()\n")[0]
        names = {{"__file__": str(here / "op.py")}}
        exec(compile(source, "op.py", "exec"), names)
        subprocess.run(names["compile_command"](here / "fettle_torch_{3}.so"), check=True)


setuptools.setup(name="fettle_torch_{3}", version="{4}", cmdclass={{"build_ext": Build}},
                 ext_modules=[setuptools.Extension("fettle_torch_{3}", [str(here / "binding.cpp")])])
)py",
      model_.task->license(), name_, FETTLE_VERSION, space_, model_.version);
}

}  // namespace

GeneratedFiles TorchBinding(const BundleModel& model) {
  const Binding binding(model);
  return binding.possible() ? binding.Files() : GeneratedFiles();
}

}  // namespace fettle
