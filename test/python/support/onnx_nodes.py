"""ONNX's node tests, run by Binade as one of ONNX's backends.

Binade compiles for known shapes. Where an input decides one (the axes of a reduction, the
shape of a Reshape), its value becomes an initializer before the model is imported: the
input that Binade names or, where it names what a node computed, all few integers and
scalars.
"""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from support.paths import BUILD, ROOT
from support.reference import EVAL, safetensors

TRANSLATE = BUILD / "bin" / "binade-translate"
# The message for an input that determines a shape, and the limit of its elements.
UNKNOWN = (
    r"'([^']*)' depends on the data; it has to be known when the model is imported"
)
FEW = 64
# Float formats that numpy does not have.
NARROW = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
# Storage types of elements that safetensors has no name for: integers in a byte each, and
# the bits of floats.
WIDER = {
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.uint4): np.uint8,
}
CODES = [
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
]

# Ops that the reference backend supports and compiled code does not: f64 matmuls.
NOT_COMPILED = re.compile(r"binade\.(matmul|conv\w*|attention) .*xf64>")
# Classes of reasons why a test does not run: the first pattern that matches Binade's
# message applies.
REASONS = [
    ("op", r"has ops that cannot be imported: (.*)"),
    ("element type", r"element type (\w+) is not supported"),
    ("opset", r"(uses ONNX opset \d+|imports no ONNX operator set)"),
    ("value", r"'([^']*)' depends on the data"),
    ("no tensor", r"(expected a tensor of known rank|to be a tensor, got a sequence)"),
    ("random", r"input '(rng)' of type"),
    ("form", r"(\(\w+\): error: .*)"),
]


class Refused(Exception):
    """Raised for a model that Binade rejects, with Binade's message."""

    @property
    def reason(self) -> tuple[str, str]:
        """The class of the reason, and its subject."""
        for name, form in REASONS:
            if found := re.search(form, str(self)):
                return name, found[1]
        raise AssertionError(f"refused for no known reason: {self}")


def run_tool(*arguments) -> None:
    done = subprocess.run(
        list(map(str, arguments)), capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise Refused(done.stderr.strip())


def to_array(value) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        raise Refused("expected a tensor of known rank, got a sequence")
    return np.asarray(value, order="C")


def store(array: np.ndarray) -> np.ndarray:
    """The array in the type in which safetensors stores it."""
    if array.dtype in CODES:
        return array.view(np.uint8)
    return array.astype(WIDER.get(array.dtype, array.dtype))


def find_inputs(model: onnx.ModelProto) -> list[str]:
    given = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in given]


def fix_values(
    model: onnx.ModelProto, values: dict, name: str
) -> onnx.ModelProto | None:
    """Makes `name` an initializer if it is a small input, else small integers and scalars."""
    if name in values and values[name].size <= FEW:
        names = {name}
    else:
        names = {
            name
            for name, array in values.items()
            if array.dtype.kind in "iub" and array.size <= FEW or array.ndim == 0
        }
    if not names:
        return None
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for name in names:
        fixed.graph.initializer.append(onnx.numpy_helper.from_array(values[name], name))
    kept = [value for value in model.graph.input if value.name not in names]
    del fixed.graph.input[:]
    fixed.graph.input.extend(kept)
    return fixed


def evaluate(folder: pathlib.Path, module: str, values: dict, backend: str) -> dict:
    source = folder / "model.mlir"
    given, out = folder / "in.safetensors", folder / "out.safetensors"
    source.write_text(module)
    safetensors.save(given, {name: store(value) for name, value in values.items()})
    run_tool(EVAL, source, "--inputs", given, "--out", out, "--backend", backend)
    return safetensors.load(out)


class BinadeRep(BackendRep):
    def __init__(self, model: onnx.ModelProto, backend: str):
        self.model, self.backend = model, backend

    def run(self, inputs, **kwargs):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            module, values = self.import_for(folder, inputs)
            results = evaluate(folder, module, values, self.backend)
        return tuple(results[output.name] for output in self.model.graph.output)

    def import_for(self, folder: pathlib.Path, inputs) -> tuple[str, dict]:
        """The module, and the `inputs` that it reads."""
        values = {
            name: to_array(value)
            for name, value in zip(find_inputs(self.model), inputs)
        }
        source, module = folder / "model.onnx", folder / "model.mlir"
        onnx.save(self.model, source)
        model = self.model
        while True:
            try:
                run_tool(TRANSLATE, "--import-onnx", source, "-o", module)
                return module.read_text(), values
            except Refused as refused:
                unknown = re.search(UNKNOWN, str(refused))
                model = unknown and fix_values(model, values, unknown[1])
                if not model:
                    raise
            values = {name: values[name] for name in find_inputs(model)}
            onnx.save(model, source)


class BinadeBackend(Backend):
    """`device` is a backend of binade-interpret: `reference` or `cpu`."""

    @classmethod
    def prepare(cls, model, device="reference", **kwargs):
        return BinadeRep(model, device)


@functools.cache
def load_tests() -> dict:
    """The ONNX node tests that have expected outputs, by name."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = loader.load_node_model_tests()
    return {test.name: test for test in tests if test.data_sets}


def compare(found, expected, rtol: float, atol: float) -> None:
    """Within the test's tolerance or, in 16 bits, four units of the last place: ONNX's
    evaluator rounds at other places. So much of the largest number is allowed to all, which
    may be sums that cancel. Codes of 8 bits are the same."""
    expected = store(to_array(expected))
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    if expected.dtype.kind == "f" or expected.dtype in NARROW:
        if expected.dtype.itemsize == 2:
            rtol = max(rtol, 4 * float(ml_dtypes.finfo(expected.dtype).eps))
        if expected.dtype.itemsize == 1:
            rtol = atol = 0.0
        eps = float(ml_dtypes.finfo(expected.dtype).eps)
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        if rtol and np.isfinite(expected).all():
            atol = max(atol, 4 * eps * np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(found, expected)


def check(test, backend: str = "reference") -> tuple[str, str] | None:
    """Runs a test. Returns None if it passes, or the reason if Binade rejects its model.
    Raises an AssertionError if results differ from the test's."""
    rep = BinadeBackend.prepare(test.model, backend)
    try:
        for inputs, outputs in test.data_sets:
            for found, expected in zip(rep.run(inputs), outputs, strict=True):
                compare(found, expected, test.rtol, test.atol)
    except Refused as refused:
        return refused.reason
    return None


# The parts of a module that holds one function.
FORM = re.compile(
    r"module \{\n  func\.func @forward\((.*)\) -> \((.*)\) \{\n(.*)    return (.*) : (.*)\n  \}\n\}\s*",
    re.DOTALL,
)


def join(modules: list[str]) -> str:
    """Merges modules of one function into one function. The index of the module prefixes
    each name."""
    parts = []
    for number, module in enumerate(modules):
        found = FORM.fullmatch(re.sub(r"%(\w)", rf"%m{number}_\1", module))
        arguments, results, *rest = found.groups()
        named = [
            re.sub(r'binade\.name = "', f'binade.name = "{number}.', text)
            for text in (arguments, results)
        ]
        parts.append([*named, *rest])
    arguments, results, bodies, values, types = zip(*parts)
    return f"""module {{
  func.func @forward({", ".join(filter(None, arguments))}) -> ({", ".join(results)}) {{
{"".join(bodies)}    return {", ".join(values)} : {", ".join(types)}
  }}
}}
"""


def check_together(tests: list, backend: str) -> None:
    """Runs tests, merged into one function so that they share a process. Tests that do not
    compile are left out for `cpu`. Raises an AssertionError if Binade rejects a model, or
    if results differ from a test's."""
    modules, inputs, expected = [], {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for test in tests:
            rep = BinadeBackend.prepare(test.model, backend)
            for given, outputs in test.data_sets:
                try:
                    module, values = rep.import_for(folder, given)
                except Refused as refused:
                    raise AssertionError(f"{test.name}: {refused}") from None
                if backend == "cpu" and NOT_COMPILED.search(module):
                    continue
                number = len(modules)
                inputs |= {f"{number}.{key}": value for key, value in values.items()}
                names = [
                    f"{number}.{output.name}" for output in test.model.graph.output
                ]
                expected.append((test, names, outputs))
                modules.append(module)
        results = evaluate(folder, join(modules), inputs, backend)
    wrong = []
    for test, names, outputs in expected:
        for key, output in zip(names, outputs, strict=True):
            try:
                compare(results[key], output, test.rtol, test.atol)
            except AssertionError as error:
                wrong.append(f"{test.name}: {str(error).strip()[:300]}")
    assert not wrong, "\n".join(wrong)


PAGE = ROOT / "docs" / "generated" / "onnx-coverage.md"


def read_page() -> dict[str, str]:
    """The class of the reason for each test that is skipped."""
    return dict(
        re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", PAGE.read_text(), re.MULTILINE)
    )
