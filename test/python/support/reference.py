"""Evaluates ops and modules with binade-interpret, and rounds values in numpy.

BINADE_BUILD names the build directory (default: build/release).
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
from support.paths import BUILD, ROOT

EVAL = BUILD / "bin" / "binade-interpret"
sys.path.append(str(ROOT / "python"))

from binade import safetensors  # noqa: E402

F16, BF16 = np.float16, ml_dtypes.bfloat16
ELEMENTS = {
    "f64": np.float64, "f32": np.float32, "f16": F16, "bf16": BF16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "i1": np.bool_,
    "ui64": np.uint64, "ui32": np.uint32, "ui16": np.uint16, "ui8": np.uint8,
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in ELEMENTS.items()}
PRECISION = {"f64": 53, "f32": 24, "bf16": 8, "f16": 11}
MIN_EXPONENT = {"f64": -1022, "f32": -126, "bf16": -126, "f16": -14}


def tensor_type(shape, dtype):
    """MLIR's type of an array."""
    element = dtype if isinstance(dtype, str) else NAMES[np.dtype(dtype)]
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def type_of(array):
    return tensor_type(array.shape, array.dtype)


def run(module, inputs, *flags):
    """Runs binade-interpret on text; returns the process and its outputs, if any."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "module.mlir"
        source.write_text(module)
        given, out = (
            source.with_name("in.safetensors"),
            source.with_name("out.safetensors"),
        )
        safetensors.save(given, {k: np.asarray(v) for k, v in inputs.items()})
        process = subprocess.run(
            [EVAL, source, "--inputs", given, "--out", out, *flags],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        return process, safetensors.load(out) if out.exists() else None


def evaluate(module, inputs, *flags):
    """The outputs of a module's only (or `--function`) function, by name. In addition to
    binade-interpret's backends, `onnx` exports the module and runs it in onnxruntime without
    optimizations; `onnx-optimized` runs it with them."""
    if {"onnx", "onnx-optimized"} & {*flags}:
        from support import onnx_backend

        optimizes = "onnx-optimized" in flags
        return onnx_backend.evaluate(module, inputs, optimizes=optimizes)
    process, outputs = run(module, inputs, *flags)
    assert process.returncode == 0, process.stderr
    return outputs


def op_module(op, operands, results, attributes=""):
    """A module with one function: `results = op operands {attributes}`.

    `operands` are arrays, `results` pairs (shape, dtype).
    """
    names = [f"%arg{i}" for i in range(len(operands))]
    types = ", ".join(type_of(array) for array in operands)
    out = [tensor_type(*result) for result in results]
    values = ", ".join(f"%r#{i}" for i in range(len(out))) if len(out) > 1 else "%r"
    count = f":{len(out)}" if len(out) > 1 else ""
    arguments = ", ".join(f"{n}: {type_of(a)}" for n, a in zip(names, operands))
    return f"""
func.func @f({arguments}) -> ({", ".join(out)}) {{
  %r{count} = binade.{op} {", ".join(names)} {{{attributes}}} : ({types}) -> ({", ".join(out)})
  return {values} : {", ".join(out)}
}}
"""


def evaluate_op(op, operands, results, attributes="", bounds=False):
    """The results of one op, in order; with `bounds` pairs (result, bound)."""
    operands = [np.asarray(operand) for operand in operands]
    module = op_module(op, operands, results, attributes)
    inputs = {f"arg{i}": array for i, array in enumerate(operands)}
    outputs = evaluate(module, inputs)
    values = [outputs[f"result{i}"] for i in range(len(results))]
    if not bounds:
        return values
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bounds.safetensors"
        evaluate(module, inputs, "--bounds", str(path))
        limits = safetensors.load(path)
    return [(value, limits[f"result{i}"]) for i, value in enumerate(values)]


def fail_op(op, operands, results, attributes=""):
    """The message of an op that cannot be evaluated."""
    operands = [np.asarray(operand) for operand in operands]
    process, _ = run(
        op_module(op, operands, results, attributes),
        {f"arg{i}": array for i, array in enumerate(operands)},
    )
    assert process.returncode == 3, process
    return process.stderr


def rounded(x, dtype):
    """`x` (f64) rounded once to nearest even; formats with infinity only."""
    x = np.asarray(x, np.float64)
    name = NAMES[np.dtype(dtype)]
    if name == "f64":
        return x
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(x)[1] - 1, MIN_EXPONENT[name])
        step = np.ldexp(1.0, exponent - PRECISION[name] + 1)
        y = np.where(np.isfinite(x), np.rint(x / step) * step, x)
        return y.astype(dtype)


def random(shape, dtype=np.float32, seed=0, scale=1.0):
    """Values of the standard normal distribution times `scale`."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return rounded(values, dtype)


def wide(*arrays):
    return [np.asarray(array).astype(np.float64) for array in arrays]


def differentiate(function, arguments, index, dy, step=1e-6):
    """d sum(dy function(arguments)) / d arguments[index], by central
    differences in f64. `dy` has one array per result of `function`.
    """
    arguments = wide(*arguments)
    dy = wide(*dy)

    def objective():
        return sum(np.sum(g * y) for g, y in zip(dy, function(*arguments)))

    x = arguments[index]
    gradient = np.zeros_like(x)
    for position in np.ndindex(x.shape):
        kept = x[position]
        x[position] = kept + step
        above = objective()
        x[position] = kept - step
        below = objective()
        x[position] = kept
        gradient[position] = (above - below) / (2 * step)
    return gradient


def assert_close(actual, expected, tolerance=1e-6):
    """Checks equality up to `tolerance` times the largest expected magnitude."""
    expected = np.asarray(expected, np.float64)
    scale = np.max(np.abs(expected), initial=1e-30)
    np.testing.assert_allclose(
        np.asarray(actual).astype(np.float64), expected, rtol=0, atol=tolerance * scale
    )


def binade(*arguments, **options):
    """Runs `binade` and returns the completed process without checks."""
    options.setdefault("timeout", 300)
    return subprocess.run(
        [str(BUILD / "bin" / "binade"), *map(str, arguments)],
        capture_output=True, text=True, check=False, **options,
    )  # fmt: skip


def without_evaluation(module):
    """A module's text without `@evaluate`, which repeats ops of the step."""
    text, count = re.subn(
        r"^  func\.func @evaluate.*?^  }", "", module, flags=re.DOTALL | re.MULTILINE
    )
    assert count == 1
    return text


ONE_WEIGHT = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[2, 4] x) => (float loss) <float[4, 4] weight = {WEIGHT}> {
  [hidden] product = MatMul(x, weight)
  [square] squares = Mul(product, product)
  [mean] loss = ReduceMean <keepdims = 0> (squares)
}
"""


def write_model(folder, text, trainable, weight):
    """Writes `text`, ONNX with `weight` in place of {WEIGHT}, as model.onnx."""
    import onnx  # Not every test has it.

    numbers = ", ".join(str(value) for value in np.ravel(weight))
    model = onnx.parser.parse_model(text.replace("WEIGHT", numbers))
    names = ", ".join(f'"{name}"' for name in trainable)
    model.metadata_props.add(key="binade.trainable", value=f"[{names}]")
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def opt(*arguments):
    done = subprocess.run(
        [BUILD / "bin/binade-opt", "--mlir-print-debuginfo", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done
