# SPDX-License-Identifier: Apache-2.0
"""What bench/compare evaluates, binds and infers without a GPU."""
import json
import math
import pathlib
import re
import sys
import types
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bench"))
from compare import cases, expressions, kernels, library, timing  # noqa: E402

TASK = {
    "name": "norm", "types": {"T": ["f16"], "I": ["i64"]}, "specialize": ["width"],
    "dims": {"rows": {"min": 0}, "width": {"in": [8]}, "lens": {"list": "rows"}, "total": {"let": "sum(lens)"},
             "packs": {"list": "rows", "let": "ceil_div(lens[i], 4)"}},
    "args": [{"x": {"role": "in", "dtype": "$T", "shape": ["total"]}}, {"y": {"role": "out", "dtype": "$T", "shape": ["total"]}},
             {"n": {"role": "scalar", "dtype": "i32", "value": "total"}},
             {"eps": {"role": "scalar", "dtype": "f32", "value": "1.0e5"}}],
    "work": {"bytes": "sizeof(T) * total + unique(x)", "flops": "2 * total"},
}


class FakeTensor:
    def __init__(self, address, elements):
        self.address, self.elements = address, elements

    def data_ptr(self):
        return self.address

    def element_size(self):
        return 2

    def numel(self):
        return self.elements


class FakeDriver:
    def __init__(self):
        self.calls = []

    def function(self, module, symbol, shared):
        return symbol

    def launch(self, function, grid, block, shared, stream, pointers):
        first = pointers[0]
        self.calls.append((function, grid, block, shared, first))

    def fill(self, address, byte, size, stream):
        self.calls.append(("fill", address, byte, size))


class ExpressionTest(unittest.TestCase):
    def value(self, text, **names):
        return expressions.evaluate(text, lambda name: names[name])

    def test_precedence_is_that_of_the_documentation(self):
        self.assertEqual(self.value("2^3^2"), 512)
        self.assertEqual(self.value("-2^2"), -4)
        self.assertEqual(self.value("1 + 2 * 3 % 4"), 3)
        self.assertEqual(self.value("1 < 2 && 3 >= 3 || 0"), 1)
        self.assertEqual(self.value("!(a == 2)", a=2), 0)

    def test_division_truncates_toward_zero(self):
        self.assertEqual(self.value("-7 / 2"), -3)
        self.assertEqual(self.value("-7 % 2"), -1)
        self.assertEqual(self.value("7 / -2"), -3)

    def test_what_is_not_needed_is_not_evaluated(self):
        self.assertEqual(self.value("select(n > 0, 8 / max(n, 1), missing)", n=4), 2)
        self.assertEqual(self.value("n == 0 || 4 / n > 1", n=0), 1)

    def test_functions_of_lists(self):
        self.assertEqual(self.value("max(x) + min(x) + sum(x) + count(x) + unique(x)", x=[3, 1, 3]), 3 + 1 + 7 + 3 + 2)
        self.assertEqual(self.value("offsets(x)[2] + dot(x, x) + bit_width(7)", x=[2, 5]), 7 + 29 + 3)
        self.assertEqual(self.value("max(x)", x=[]), 0)

    def test_what_is_no_expression_is_refused(self):
        for text in ("1 +", "1 2", "(1", "$"):
            with self.assertRaises(ValueError):
                self.value(text)


class CaseTest(unittest.TestCase):
    def setUp(self):
        given = {"T": "f16", "I": "i64", "rows": 3, "width": 8, "lens": [1, 5, 8]}
        self.case = cases.Case(TASK, given, {"wave": 32})

    def test_derived_dims_and_work(self):
        self.assertEqual(self.case.values["packs"], [1, 2, 2])
        self.case.counted["x"] = 9
        self.assertEqual(self.case.work(), (2 * 14 + 9, 28))
        self.assertEqual(self.case("total * target.wave"), 448)

    def test_entries_are_spelled_with_types_and_numbers(self):
        self.assertEqual(kernels.spelled_entry("norm<$T, $I, VEC, width>", self.case, {"VEC": 4}),
                         "norm<__half, long long, 4, 8>")

    def test_a_plan_is_bound_as_written(self):
        kernel = {"values": {"BLOCK": 4}, "launches": [
            {"fill": "y", "byte": 0},
            {"repeat": {"i": "rows"}, "steps": [
                {"kernel": "norm<$T>", "when": "i != 1", "grid": ["ceil_div(total, BLOCK)"], "block": ["BLOCK"], "shared": "8 * i",
                 "args": [{"buffer": "x", "offset": "i"}, "y", "n", "eps"]}]},
            {"kernel": "never", "grid": ["total - 14"], "block": [1], "args": ["x"]}]}
        inputs = types.SimpleNamespace(tensors={"x": FakeTensor(4096, 14), "y": FakeTensor(8192, 14)})
        driver = FakeDriver()
        bound = kernels.BoundKernel(None, driver, None, kernel, {"norm<__half>": "norm_symbol"}, self.case, inputs, {})
        for step in bound.steps:
            step(7)
        self.assertEqual(driver.calls[0], ("fill", 8192, 0, 28))
        self.assertEqual([call[:4] for call in driver.calls[1:]],
                         [("norm_symbol", [4, 1, 1], [4, 1, 1], 0), ("norm_symbol", [4, 1, 1], [4, 1, 1], 16)])
        self.assertEqual(bound.argument({"buffer": "x", "offset": 2}, {}), (4100).to_bytes(8, "little"))
        self.assertEqual(bound.argument("n", {}), (14).to_bytes(4, "little"))
        self.assertEqual(bound.argument("total", {}), (14).to_bytes(8, "little"))


class TimingTest(unittest.TestCase):
    def test_the_interval_is_students(self):
        ratio, low, high = timing.interval([math.log(2.0), math.log(2.2), math.log(1.8)])
        self.assertAlmostEqual(ratio, (2.0 * 2.2 * 1.8) ** (1 / 3))
        self.assertAlmostEqual(math.log(high / ratio), 4.303 * 0.1004 / math.sqrt(3), places=3)
        self.assertAlmostEqual(ratio / low, high / ratio)

    def test_a_ratio_says_how_many_times_faster_the_second_is(self):
        logs = {"slow": [math.log(30.0)] * 4, "fast": [math.log(10.0)] * 4}
        self.assertAlmostEqual(timing.ratio_of(logs, "slow", "fast")[0], 3.0)


class CoverageTest(unittest.TestCase):
    def test_every_bundled_task_has_a_library_call(self):
        names = {re.search(r"^name: (\w+)$", path.read_text(), re.M).group(1) for path in (SOURCE / "tasks").glob("*/task.yaml")}
        self.assertGreaterEqual(len(names), 20)
        self.assertEqual(names - set(library.MAKERS), set())

    def test_rounds_name_files_that_are_there(self):
        for path in (SOURCE / "bench" / "external").glob("*/round.json"):
            for proposal in json.loads(path.read_text())["proposals"]:
                kernel = path.parent / proposal["file"]
                self.assertTrue((kernel.parent / json.loads(kernel.read_text())["source_file"]).exists(), kernel)
                self.assertTrue((SOURCE / "tasks" / proposal["task"]).is_dir(), proposal["task"])


if __name__ == "__main__":
    unittest.main()
