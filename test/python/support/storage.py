"""Parameters of 16 bits, and the companions stored in addition to them."""

import numpy as np
from support.paths import ROOT
from support.reference import BF16, binade, evaluate, safetensors

F32 = np.float32


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def assert_equal_bits(actual, expected):
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(bits(actual), bits(expected))


def half_units(p):
    """Half the distance between bf16 values at `p`, in f64; 1 where `p` is not finite."""
    size = np.abs(p.astype(np.float64))
    finite = np.isfinite(size)
    exponent = np.floor(np.log2(np.maximum(np.where(finite, size, 256), 2.0**-126)))
    return 2.0 ** (exponent - 8)


def encode_error(values, p):
    """The codes of the errors of `values`, rounded to `p`, by the formula of FlashOptim (arXiv
    2602.23349) in f64."""
    finite = np.isfinite(p.astype(F32))
    with np.errstate(invalid="ignore", over="ignore"):
        error = (values.astype(np.float64) - p.astype(np.float64)) / half_units(p) * 127
    error = np.where(finite, error, 0)
    return np.copysign(np.floor(np.abs(error) + 0.5), error).astype(np.int8)


def decode_error(p, code):
    """The f32 values of bf16 values and the codes of their errors, computed in f64."""
    total = p.astype(np.float64) + code.astype(np.float64) / 127 * half_units(p)
    return total.astype(F32)


def start(master, values, parameter=BF16):
    """The parameter and its companion for f32 `values`, by the definitions."""
    word = values.view(np.uint32)
    low = (word & 0xFFFF).astype(np.uint16).view(np.int16)
    high = (word >> 16).astype(np.uint16)
    if master == "split_trunc":
        return {"p": high.view(BF16), "b": low}
    if (
        master == "split_round"
    ):  # As TransformerEngine: up if the remainder is negative.
        return {"p": (high + (low < 0)).astype(np.uint16).view(BF16), "b": low}
    given = {"p": values.astype(parameter)}
    if master == "split_8bit":
        given["b"] = encode_error(values, given["p"])
    if master == "f32":
        given["b"] = values
    if master == "kahan":
        given["b"] = np.zeros(values.shape, parameter)
    if master == "residual":
        given["b"] = (values - given["p"].astype(F32)).astype(parameter)
    return given


def join(master, found):
    """The f32 values that a parameter and its companion represent."""
    if master == "f32":
        return found["b"]
    if master == "split_8bit":
        return decode_error(found["p"], found["b"])
    if master == "residual":
        return found["p"].astype(F32) + found["b"].astype(F32)
    high, low = bits(found["p"]).astype(np.int64), found["b"].astype(np.int64)
    word = (high << 16) + (low if master == "split_round" else low & 0xFFFF)
    return word.astype(np.uint32).view(F32)


RULES = ROOT / "lib/Optimizer/Rules"
STATES = {"sgd": ["momentum_buffer"], "adamw": ["exp_avg", "exp_avg_sq"],
          "take": [], "keep": []}  # fmt: skip
SCALARS = {"sgd": 6, "adamw": 7, "take": 0, "keep": 0}
#: Element type of each kind of companion, None where the kind stores nothing.
COMPANIONS = {"none": None, "stochastic": None, "f32": "f32", "split_round": "i16",
              "split_trunc": "i16", "split_8bit": "i8", "kahan": "bf16",
              "residual": "bf16"}  # fmt: skip


def read_rule(name):
    """A shipped rule; `take` sets the parameter to the gradient, `keep` leaves it."""
    if name not in ("take", "keep"):
        return (RULES / f"{name}.mlir").read_text()
    return f"""
binade.optimizer @{name} {{states = [], hypers = []}}
func.func private @{name}.update(%p: f32, %g: f32) -> f32 {{
  return {"%g" if name == "take" else "%p"} : f32
}}
"""


def step_module(rule, hypers, size, master, states="f32", parameter="bf16", times=1):
    """Updates of one parameter `p`: states `s0` ..., then its companion `b`."""
    p, g = f"tensor<{size}x{parameter}>", f"tensor<{size}xf32>"
    kept = [(f"s{i}", f"tensor<{size}x{states}>") for i in range(len(STATES[rule]))]
    if companion := COMPANIONS[master]:
        companion = parameter if companion == "bf16" else companion
        kept.append(("b", f"tensor<{size}x{companion}>"))
    scalars = [f"%k#{i}" for i in range(SCALARS[rule])]
    given = [("p", p), ("g", g), ("step", "tensor<i64>"), *kept]
    types = [p, g, *(t for _, t in kept), *["tensor<f32>"] * len(scalars)]
    random = ""
    if master == "stochastic":
        given += [("seed", "tensor<i64>"), ("place", "tensor<i64>")]
        types += ["tensor<i64>"] * 2
        random = "random(%seed, %place) "
    results = [("p", p), *kept]

    def names(ports):
        return ", ".join(f'{t} {{binade.name = "{n}"}}' for n, t in ports)

    arguments = ", ".join(f'%{n}: {t} {{binade.name = "{n}"}}' for n, t in given)
    scalars_text = ""
    if SCALARS[rule]:
        lines = [
            f"  %h{i} = binade.constant dense<{h:.17e}> : tensor<f64>"
            for i, h in enumerate(hypers)
        ]
        given_types = ", ".join(["tensor<i64>"] + ["tensor<f64>"] * len(hypers))
        made = ", ".join(["tensor<f32>"] * len(scalars))
        values = ", ".join(["%step", *(f"%h{i}" for i in range(len(hypers)))])
        scalars_text = "\n".join(
            [*lines, f"  %k:{len(scalars)} = binade.optimizer_scalars @{rule}({values})",
             f"    : ({given_types}) -> ({made})"]
        )  # fmt: skip
    given_scalars = f"scalars({', '.join(scalars)}) " if scalars else ""
    out = ", ".join(t for _, t in results)
    values, updates = [f"%{name}" for name, _ in results], []
    for time in range(times):
        states_text = f"states({', '.join(values[1:])}) " if kept else ""
        updates.append(f"""
  %u{time}{f":{len(results)}" if kept else ""} = binade.optimizer_update @{rule}
    {values[0]}, %g {states_text}{given_scalars}{random}{{master = #binade.master<{master}>}}
    : ({", ".join(types)}) -> ({out})""")
        values = [f"%u{time}" + f"#{i}" * bool(kept) for i in range(len(results))]
    return f"""{read_rule(rule)}
func.func @step({arguments}) -> ({names(results)}) {{
{scalars_text}{"".join(updates)}
  return {", ".join(values)} : {out}
}}
"""


class Update:
    """A module that is evaluated many times."""

    def __init__(self, folder, backend, *what, **more):
        self.folder, self.backend = folder, backend
        (folder / "module.mlir").write_text(step_module(*what, **more))

    def __call__(self, **inputs):
        if self.backend == "onnx":
            module = (self.folder / "module.mlir").read_text()
            return evaluate(module, inputs, "--backend", "onnx")
        given, out = self.folder / "in.safetensors", self.folder / "out.safetensors"
        safetensors.save(given, {k: np.asarray(v) for k, v in inputs.items()})
        done = binade(
            "interpret", self.folder / "module.mlir", "--function", "step", "--inputs", given,
            "--out", out, "--backend", self.backend,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return safetensors.load(out)


def write(update, value, master):
    """The outputs of an update that starts at 0 with gradient `value`."""
    numbers = {"seed": np.int64(1), "place": np.int64(2)}
    return update(
        g=value, step=np.int64(0), **start(master, np.zeros_like(value)),
        **(numbers if master == "stochastic" else {}),
    )  # fmt: skip


def read_words(record, dtype=np.uint32):
    return np.array([int(x, 16) for x in record], dtype)
