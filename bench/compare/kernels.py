# SPDX-License-Identifier: Apache-2.0
"""Kernels of tasks and proposals: compiled ahead by fettle, launched through the CUDA driver in torch's context."""
import ctypes
import json
import re
import struct
import subprocess

from .cases import only

SPELLED = {"f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "i64": "long long", "i32": "int",
           "i16": "short", "i8": "signed char", "u8": "unsigned char", "bool": "bool"}
PACKED = {"f64": "<d", "f32": "<f", "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "u8": "<B", "bool": "<?"}


def steps_of(launches):
    """All kernel steps, those of repeats too."""
    for step in launches:
        if "repeat" in step:
            yield from steps_of(step["steps"])
        elif "kernel" in step:
            yield step


def spelled_entry(kernel, case, values):
    """`norm<$T, VEC>` with the case's types and the values' numbers."""
    head, bracket, rest = kernel.partition("<")
    if not bracket:
        return kernel
    numbers = {**{name: case.values[name] for name in case.task.get("specialize", [])}, **values}
    rest = re.sub(r"\$(\w+)", lambda m: SPELLED[case.types[m.group(1)]], rest)
    return head + "<" + re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(numbers.get(m.group(0), m.group(0))), rest)


def needed(kernel, case):
    """Steps of a plan that the case runs."""
    names = dict(kernel["values"])
    return [step for step in steps_of(kernel["launches"]) if case(step.get("when", 1), {**names, "pass": 0, "i": 0})]


def compile_kernel(fettle, kernel, case, folder, target):
    """Compiles what the case needs: fettle's report, and the code object beside the others in `folder`."""
    entries = list(dict.fromkeys(spelled_entry(step["kernel"], case, kernel["values"]) for step in needed(kernel, case)))
    macros = {**kernel["values"], **{name: case.values[name] for name in case.task.get("specialize", [])}}
    path = folder / f"{kernel['object']}.object"
    command = [str(fettle), "compile", str(kernel["file"]), "--target", target, "--out", str(path), "--json", "--facts"]
    for entry in entries:
        command += ["--entry", entry]
    for name, value in macros.items():
        command += ["-D", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RuntimeError(f"{kernel['file']}: {done.stderr[-500:]}") from error
    if not report["accepted"]:
        raise RuntimeError(f"{kernel['file']}: {json.dumps(report['diagnostics'])[:800]}")
    return report


class Driver:
    """The few calls of libcuda that launching takes."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'').decode()} ({code})")

    def load(self, image):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def function(self, module, symbol, shared):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared > 0:
            self.call("cuFuncSetAttribute", function, 8, shared)  # Most dynamic shared memory.
        return function

    def launch(self, function, grid, block, shared, stream, pointers):
        self.call("cuLaunchKernel", function, *map(ctypes.c_uint, (*grid, *block)), ctypes.c_uint(shared), ctypes.c_void_p(stream),
                  pointers, None)

    def fill(self, address, byte, size, stream):
        self.call("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def copy(self, to, source, size, stream):
        self.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream))


class BoundKernel:
    """A kernel's plan with everything computed for one set of inputs: a list of calls of the driver."""

    def __init__(self, torch, driver, module, kernel, symbols, case, inputs, workspaces):
        self.torch, self.driver, self.module = torch, driver, module
        self.kernel, self.symbols, self.case, self.inputs = kernel, symbols, case, inputs
        self.names = dict(kernel["values"])
        self.args = dict(only(entry) for entry in case.task["args"])
        self.workspaces, self.tables, self.steps = workspaces, {}, []
        for step in kernel["launches"]:
            self.bind(step, {})

    @staticmethod
    def make_workspaces(torch, kernel, case):
        out = {}
        for entry in kernel.get("workspace", []):
            name, spec = only(entry)
            shape = [case(extent, kernel["values"]) for extent in spec["shape"]]
            from .cases import torch_dtype
            out[name] = torch.empty(shape, device="cuda", dtype=torch_dtype(torch, spec["dtype"]))
        return out

    def number(self, expression, more):
        return self.case(expression, {**self.names, **more})

    def bind(self, step, more):
        if "repeat" in step:
            name, count = only(step["repeat"])
            for i in range(self.number(count, more)):
                for inner in step["steps"]:
                    self.bind(inner, {**more, name: i})
            return
        if not self.number(step.get("when", 1), more):
            return
        if "fill" in step:
            tensor = self.tensor(step["fill"], step.get("member"), more)
            size = tensor.element_size()
            first, count = self.number(step.get("offset", 0), more), step.get("count")
            count = tensor.numel() if count is None else self.number(count, more)
            address, byte = tensor.data_ptr() + first * size, step.get("byte", 0)
            self.steps.append(lambda stream: self.driver.fill(address, byte, count * size, stream))
            return
        if "copy" in step:
            source = self.tensor(step["copy"], step.get("member"), more)
            to = self.tensor(step["to"], step.get("to_member"), more)
            size = source.element_size()
            count = source.numel() if step.get("count") is None else self.number(step["count"], more)
            begin = source.data_ptr() + self.number(step.get("offset", 0), more) * size
            end = to.data_ptr() + self.number(step.get("to_offset", 0), more) * size
            self.steps.append(lambda stream: self.driver.copy(end, begin, count * size, stream))
            return
        self.bind_kernel(step, more)

    def bind_kernel(self, step, more):
        grid = [self.number(extent, more) for extent in step["grid"]]
        if 0 in grid:
            return
        grid = (grid + [1, 1])[:3]
        block = ([self.number(extent, more) for extent in step["block"]] + [1, 1])[:3]
        shared = self.number(step.get("shared", 0), more)
        entry = spelled_entry(step["kernel"], self.case, self.kernel["values"])
        function = self.driver.function(self.module, self.symbols[entry], shared)
        kept = [ctypes.create_string_buffer(self.argument(arg, more)) for arg in step["args"]]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(value) for value in kept))
        self.steps.append(lambda stream, kept=kept: self.driver.launch(function, grid, block, shared, stream, pointers))

    def tensor(self, name, member, more):
        if name in self.workspaces:
            return self.workspaces[name]
        value = self.inputs.tensors[name]
        return value[self.number(member, more)] if isinstance(value, list) else value

    def argument(self, arg, more):
        if arg is None:
            return struct.pack("<Q", 0)
        if isinstance(arg, dict):
            if "value" in arg:
                dtype = arg.get("dtype", "i64")
                return struct.pack(PACKED[dtype], self.number(arg["value"], more))
            if "buffer" in arg:
                tensor = self.tensor(arg["buffer"], arg.get("member"), more)
                return struct.pack("<Q", tensor.data_ptr() + self.number(arg.get("offset", 0), more) * tensor.element_size())
            if "struct" in arg:
                packed = bytearray(arg["struct"]["size"])
                for field in arg["struct"]["fields"]:
                    part = self.argument(field.get("arg", field), more)
                    packed[field["at"]:field["at"] + len(part)] = part
                return bytes(packed)
            raise RuntimeError(f"{self.case.task['name']}: the argument {arg} is not bound here")
        if arg in self.workspaces:
            return struct.pack("<Q", self.workspaces[arg].data_ptr())
        if arg in self.args and self.args[arg]["role"] == "scalar":
            spec = self.args[arg]
            return struct.pack(PACKED[self.case.dtype(spec["dtype"])], self.case.scalar(arg, spec))
        if arg in self.args:
            return struct.pack("<Q", self.address(arg))
        return struct.pack("<q", self.number(arg, more))  # A bare dim has 64 bits.

    def address(self, name):
        value = self.inputs.tensors[name] if self.args[name]["role"] != "none" else None
        if value is None:
            return 0
        if isinstance(value, list):
            if name not in self.tables:
                self.tables[name] = self.torch.tensor([t.data_ptr() for t in value], dtype=self.torch.int64).cuda()
            return self.tables[name].data_ptr()
        return value.data_ptr()

    def __call__(self):
        stream = self.torch.cuda.current_stream().cuda_stream
        for entry in self.kernel.get("workspace", []):
            name, spec = only(entry)
            if spec.get("init") == "zero":
                self.workspaces[name].zero_()
        for step in self.steps:
            step(stream)
