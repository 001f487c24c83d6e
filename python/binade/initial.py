"""Draws initial weights from rules, with the same values as ``binade train``.

docs/Import.md, "Metadata", defines the rules and the generator. As a command,
``binade initial MODEL.onnx --seed 0 --out init.safetensors`` writes the
values of every tensor for which the model carries a rule.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence

import ml_dtypes  # noqa: F401 - registers the narrow float types with numpy
import numpy as np

from binade import safetensors
from binade.command import run_command
from binade.errors import RejectedError, reading
from binade.parser import Parser

INIT_KEY = "binade.init"

# Fields of each rule besides "rule", and their defaults (None: required).
_FIELDS: dict[str, dict[str, float | None]] = {
    "normal": {"mean": 0.0, "std": None},
    "uniform": {"low": None, "high": None},
    "zeros": {},
    "ones": {},
    "constant": {"value": None},
}


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox4x32-10 of many counters.

    Args:
      counter: uint32 [N, 4].
      key: Two 32-bit words.

    Returns:
      uint32 [N, 4], independent and uniformly distributed.
    """
    c0, c1, c2, c3 = (counter[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for _ in range(10):
        a = np.uint64(0xD2511F53) * c0
        b = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (b >> half) ^ c1 ^ np.uint64(k0),
            b & low,
            (a >> half) ^ c3 ^ np.uint64(k1),
            a & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def draw(
    rule: dict,
    name: str,
    shape: Sequence[int],
    *,
    seed: int,
    dtype: np.dtype | type = np.float32,
) -> np.ndarray:
    """Returns the initial value of one tensor.

    Args:
      rule: For example ``{"rule": "normal", "std": 0.02}``.
      name: The tensor's name, which selects the random stream.
      shape: Sizes of the result.
      seed: An unsigned 64-bit integer.
      dtype: Element type; values are computed in f64, rounded to f32 and then to `dtype`.

    Raises:
      RejectedError: If the rule is not one of docs/Import.md.
    """
    fields = check_rule(rule, name)
    kind = rule["rule"]
    count = math.prod(shape)
    if kind in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0}.get(kind, fields.get("value"))
        return np.full(shape, value, dtype)

    words = _stream(name, -(-count // 4), seed)
    if kind == "uniform":
        unit = (words >> np.uint32(8)).astype(np.float64) * 2.0**-24
        values = fields["low"] + (fields["high"] - fields["low"]) * unit
    else:
        radius = np.sqrt(-2.0 * np.log((words[:, 0::2] + 1.0) * 2.0**-32))
        angle = 2.0 * np.pi * (words[:, 1::2] * 2.0**-32)
        unit = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
        values = fields["mean"] + fields["std"] * unit
    values = values.reshape(-1)[:count].reshape(shape)
    return values.astype(np.float32).astype(dtype)


def check_rule(rule: dict, name: str) -> dict[str, float]:
    """Returns the parameters of a rule, with defaults filled in."""
    kind = rule.get("rule") if isinstance(rule, dict) else None
    if kind not in _FIELDS:
        raise RejectedError(
            f"{INIT_KEY}: '{name}' has rule {kind!r}; known are {', '.join(_FIELDS)}"
        )
    fields = dict(_FIELDS[kind])
    unknown = set(rule) - {"rule"} - set(fields)
    if unknown:
        raise RejectedError(
            f"{INIT_KEY}: rule '{kind}' of '{name}' has no field '{min(unknown)}'"
        )
    fields.update({key: value for key, value in rule.items() if key != "rule"})
    for key, value in fields.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise RejectedError(
                f"{INIT_KEY}: rule '{kind}' of '{name}' needs a finite "
                f"number '{key}', got {value!r}"
            )
    backwards = kind == "uniform" and fields["low"] > fields["high"]
    if backwards or (kind == "normal" and fields["std"] < 0):
        raise RejectedError(
            f"{INIT_KEY}: rule '{kind}' of '{name}' needs 0 <= std and low <= high, "
            f"got {rule}"
        )
    return {key: float(value) for key, value in fields.items()}


def draw_model(path: str | os.PathLike[str], *, seed: int) -> dict[str, np.ndarray]:
    """Returns the initial value of every tensor that has a rule in an ONNX file.

    Raises:
      RejectedError: If there is no such file, it is not an ONNX model, or has no valid rules.
      FileError: If the system refuses to read the file.
    """
    import onnx

    path = os.fspath(path)
    with reading(path), open(path, "rb") as file:
        data = file.read()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's, which has no public name.
        raise RejectedError(f"{path}: not an ONNX model") from error
    text = {entry.key: entry.value for entry in model.metadata_props}.get(INIT_KEY)
    if text is None:
        raise RejectedError(
            f"{path}: the model carries no rules ({INIT_KEY}); export "
            "it with --init rules"
        )
    inputs = {value.name: value.type.tensor_type for value in model.graph.input}
    try:
        rules = dict(json.loads(text))
    except (TypeError, ValueError) as error:
        raise RejectedError(
            f"{path}: {INIT_KEY} is not a JSON object: {error}"
        ) from error
    values = {}
    for name, rule in rules.items():
        if name not in inputs:
            raise RejectedError(
                f"{path}: {INIT_KEY} names '{name}', which is not a graph input"
            )
        shape = [size.dim_value for size in inputs[name].shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type)
        values[name] = draw(rule, name, shape, seed=seed, dtype=dtype)
    return values


def _stream(name: str, blocks: int, seed: int) -> np.ndarray:
    """Returns uint32 [blocks, 4]: the stream of a tensor's name."""
    digest = hashlib.sha256(name.encode()).digest()
    index = np.arange(blocks, dtype=np.uint64)
    counter = np.empty((blocks, 4), np.uint32)
    counter[:, 0] = index & np.uint64(0xFFFFFFFF)
    counter[:, 1] = index >> np.uint64(32)
    counter[:, 2] = int.from_bytes(digest[:4], "little")
    counter[:, 3] = int.from_bytes(digest[4:8], "little")
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32))


def make_parser() -> Parser:
    """Returns the parser of ``binade initial``."""
    parser = Parser(
        prog="binade initial",
        description="Draw the initial weights of a model that was exported with "
        "'--init rules', and write them to a file.",
        epilog="Example:\n  binade initial model.onnx --out weights.safetensors",
    )
    parser.add_argument("model", help="ONNX file exported with --init rules")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the random weights, from 0 to 2^64-1 (default: 0)",
    )
    parser.add_argument("--out", required=True, help="safetensors file to write")
    return parser


def _main(arguments: Sequence[str] | None) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not 0 <= options.seed < 2**64:
        parser.error(f"--seed must be an unsigned 64-bit number, got {options.seed}")
    values = draw_model(options.model, seed=options.seed)
    safetensors.save(options.out, values)
    count = sum(value.size for value in values.values())
    print(f"{options.out}: {len(values)} tensors, {count} elements")


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade initial", _main)


if __name__ == "__main__":
    raise SystemExit(main())
