# SPDX-License-Identifier: Apache-2.0
"""A case of a task: its dims, and its inputs as tensors on the GPU."""
import random

from .expressions import evaluate, offsets_of

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}


def only(mapping):
    """The one entry of a mapping, as in `- x: {...}`."""
    (item,) = mapping.items()
    return item


def timed_cases(task):
    """(position, case) of those for a GPU."""
    return [(i, case) for i, case in enumerate(task["cases"]["timed"]) if case.get("for", "gpu") == "gpu"]


class Case:
    """Dims, type families and scalars; what is drawn follows from the seed."""

    def __init__(self, task, case, target, seed=2026):
        self.task, self.case, self.target = task, case, target
        self.types = {family: case[family] for family in task.get("types", {})}
        self.draw = random.Random(seed)
        self.values = {}
        self.counted = {}  # unique(ARGUMENT), for what `work` asks.
        for name, spec in task["dims"].items():
            self.values[name] = self.dim(name, spec)

    def dim(self, name, spec):
        if "list" in spec and "let" in spec:
            count = self(spec["list"])
            return [evaluate(spec["let"], lambda n, i=i: i if n == "i" else self.name(n)) for i in range(count)]
        if "let" in spec:
            return self(spec["let"])
        given = self.case[name]
        if "list" not in spec:
            return given
        count = self(spec["list"])
        if isinstance(given, dict):
            low, high = given["uniform"]
            return [self.draw.randint(low, high) for _ in range(count)]
        return list(given) if isinstance(given, list) else [given] * count

    def name(self, name):
        if name in self.values:
            return self.values[name]
        if name.startswith("sizeof "):
            return SIZES[self.dtype("$" + name[7:])]
        if name.startswith("target."):
            return self.target[name[7:]]
        raise KeyError(f"{self.task['name']}: no name '{name}'")

    def __call__(self, expression, more=None):
        more = more or {}
        return evaluate(expression, lambda name: more[name] if name in more else self.name(name))

    def dtype(self, spelled):
        return self.types[spelled[1:]] if spelled.startswith("$") else spelled

    def per_case(self, name):
        """What the case gives, or the last of what held-out cases draw from."""
        spec = next(dict(entry)[name] for entry in self.task["args"] if name in entry)
        choices = spec["from"]
        return self.case.get(name, choices[-1] if isinstance(choices, list) else choices["uniform"][1])

    def scalar(self, name, spec):
        if spec["value"] == "per_case":
            return self.per_case(name)
        value = spec["value"]
        if isinstance(value, str):
            try:
                return float(value)  # YAML reads 1.0e-5 as a number only with a sign in its exponent.
            except ValueError:
                return self(value)
        return value

    def label(self):
        shown = [f"{k}={v}" for k, v in self.case.items() if k not in ("for", "weight") and not isinstance(v, list)]
        return " ".join(shown)

    def work(self):
        """(bytes, flops) that any version must move, as the task declares."""
        def number(text):
            if text is None:
                return 0
            for argument, count in self.counted.items():
                text = text.replace(f"unique({argument})", str(count))
            return self(text)
        work = self.task.get("work", {})
        return number(work.get("bytes")), number(work.get("flops"))


def torch_dtype(torch, name):
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
            "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}[name]


class Inputs:
    """One set of arguments of a case on the GPU: tensors by name, None where an optional one is absent."""

    def __init__(self, torch, case, seed):
        self.torch, self.case = torch, case
        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.tensors, self.pristine, self.outputs, self.inouts = {}, {}, [], []
        for entry in case.task["args"]:
            name, spec = only(entry)
            self.make(name, spec)

    def make(self, name, spec):
        role = spec["role"]
        if role in ("scalar", "none"):
            return
        if "optional" in spec and not self.case(spec["optional"]):
            self.tensors[name] = None
            return
        if role == "pointers":
            each = spec["each"]
            self.tensors[name] = [self.one(name, each, {"g": g}) for g in range(self.case(spec["count"]))]
            role = each["role"]
        else:
            self.tensors[name] = self.one(name, spec, {})
        if role == "out":
            self.outputs.append(name)
        if role == "inout":
            self.inouts.append(name)
            self.outputs.append(name)
            self.pristine[name] = self.tensors[name].clone()

    def one(self, name, spec, more):
        torch = self.torch
        kind = self.case.dtype(spec["dtype"])
        dtype = torch_dtype(torch, kind)
        shape = [self.case(extent, more) for extent in spec["shape"]]
        if spec["role"] == "out":
            return torch.empty(shape, device="cuda", dtype=dtype)
        fill = self.case.case.get(name, spec.get("fill"))
        if spec["role"] == "index":
            low, high = (self.case(bound, more) for bound in spec["range"])
            return self.indices(fill or "uniform", shape, low, high).to(dtype)
        return self.filled(fill or {"normal": [0, 1]}, shape, kind, dtype, more)

    def filled(self, fill, shape, kind, dtype, more):
        torch = self.torch
        if fill == "zero":
            return torch.zeros(shape, device="cuda", dtype=dtype)
        how, of = only(fill)
        if how == "constant":
            return torch.full(shape, of, device="cuda", dtype=dtype)
        if how in ("offsets", "list"):
            values = self.case.values[of]
            values = offsets_of(values) if how == "offsets" else values
            return torch.tensor(values, dtype=torch.int64).to(device="cuda", dtype=dtype).reshape(shape)
        if how == "normal":
            value = torch.randn(shape, generator=self.generator, device="cuda", dtype=torch.float32)
            return (value * float(of[1]) + float(of[0])).to(dtype)
        if how == "uniform" and kind[0] in "iu":
            return torch.randint(of[0], of[1] + 1, shape, generator=self.generator, device="cuda").to(dtype)
        if how == "uniform":
            value = torch.rand(shape, generator=self.generator, device="cuda", dtype=torch.float32)
            return (value * float(of[1] - of[0]) + float(of[0])).to(dtype)
        raise RuntimeError(f"{self.case.task['name']}: no inputs are made here for the fill {fill}")

    def indices(self, fill, shape, low, high):
        torch, span = self.torch, max(1, high - low)
        if fill == "sorted":
            return torch.sort(torch.randint(low, high, shape, generator=self.generator, device="cuda"))[0]
        if fill == "uniform":
            return torch.randint(low, high, shape, generator=self.generator, device="cuda")
        how, of = only(fill)
        if how == "uniform":
            return torch.randint(of[0], of[1] + 1, shape, generator=self.generator, device="cuda")
        if how == "zipf":
            # Ranks by their share, scattered over the range so that hot entries are no neighbours.
            weight = torch.arange(1, span + 1, device="cuda", dtype=torch.float64) ** -float(of)
            below = torch.cumsum(weight, 0)
            at = torch.rand(shape, generator=self.generator, device="cuda", dtype=torch.float64) * below[-1]
            rank = torch.searchsorted(below, at).clamp(max=span - 1)
            return torch.randperm(span, generator=self.generator, device="cuda")[rank] + low
        raise RuntimeError(f"{self.case.task['name']}: no indices are made here for the fill {fill}")

    def bytes(self):
        total = 0
        for value in self.tensors.values():
            for tensor in value if isinstance(value, list) else [value]:
                total += 0 if tensor is None else tensor.numel() * tensor.element_size()
        return total

    def restore(self):
        for name in self.inouts:
            self.tensors[name].copy_(self.pristine[name])

    def results(self):
        """Outputs, those of several members joined."""
        out = {}
        for name in self.outputs:
            value = self.tensors[name]
            out[name] = self.torch.cat([v.flatten() for v in value]) if isinstance(value, list) else value
        return out
