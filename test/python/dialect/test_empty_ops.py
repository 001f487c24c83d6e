"""Ops with an axis of length 0 return numpy's values: in the reference, in compiled CPU
code, and in GPU kernels in the simulator.

The cases are the examples of `op_examples` with one length replaced by 0, where the op's
verifier accepts it, and those of MORE.
"""

import functools
import re
import subprocess

import numpy as np
import pytest
from support.graphs import OPT
from support.op_examples import EXAMPLES, SIMPLE, TEXTS, join, write
from support.reference import evaluate, run

TENSOR = "#binade.quantized<f8E4M3FN, per_tensor, scale = f32>"
GROUPS = "#binade.quantized<f8E4M3FN, per_group<16>, scale = bf16>"
BLOCKS = (
    "#binade.quantized<f8E5M2, per_block<1, 32>, scale = f8E8M0FNU, rule = round_up>"
)
WINDOW = """strides = array<i64: 1, 1>, padding_low = array<i64: 1, 0>,
    padding_high = array<i64: 1, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64"""
NO_KEYS = "2x40x16xbf16, 2x0x16xbf16, 2x0x16xbf16"
NO_QUERIES = "2x0x16xf32, 2x9x16xf32, 2x9x16xf32"
# Cases where axes of equal length differ, or where an attribute depends on a length.
MORE = {
    "attention": [
        f"{NO_KEYS} -> 2x40x16xbf16, 2x40xf32 {{scale = 0.25}}",
        f"{NO_QUERIES} -> 2x0x16xf32, 2x0xf32 {{scale = 0.25}}",
        "9x3x5x16xf32, 9x3x0x16xf32, 9x3x0x8xf32 -> 9x3x5x8xf32, 9x3x5xf32 {scale = 0.25}",
        "2x5x0xf32, 2x9x0xf32, 2x9x8xf32 -> 2x5x8xf32, 2x5xf32 {scale = 0.25}",
    ],
    "attention_grad": [
        f"2x40x16xbf16, {NO_KEYS}, 2x40x16xbf16, 2x40xf32>0 -> {NO_KEYS} {{scale = 0.25}}",
        f"2x0x16xf32, {NO_QUERIES}, 2x0x16xf32, 2x0xf32>0 -> {NO_QUERIES} {{scale = 0.25}}",
    ],
    "broadcast": ["1x3xf32 -> 0x3xf32 {axes = array<i64: 0, 1>}"],
    "concat": ["5x0xf32, 5x6xf32 -> 5x6xf32 {axis = 1 : i64}",
               "2x3xf32, 0x3xf32, 4x3xf32 -> 6x3xf32 {axis = 0 : i64}"],
    "conv": [f"0x4x9x8xf32, 6x4x3x1xf32, 6xf32 -> 0x6x9x8xf32 {{{WINDOW}}}",
             f"2x0x9x8xf32, 6x0x3x1xf32, 6xf32 -> 2x6x9x8xf32 {{{WINDOW}}}",
             f"2x0x9x8xf32, 6x0x3x1xf32 -> 2x6x9x8xf32 {{{WINDOW}}}",
             f"2x4x9x8xf32, 0x4x3x1xf32, 0xf32 -> 2x0x9x8xf32 {{{WINDOW}}}"],
    "conv_input_grad": [f"2x0x9x8xf32, 0x4x3x1xf32 -> 2x4x9x8xf32 {{{WINDOW}}}",
                        f"0x6x9x8xf32, 6x4x3x1xf32 -> 0x4x9x8xf32 {{{WINDOW}}}"],
    "conv_weight_grad": [f"0x6x9x8xf32, 0x4x9x8xf32 -> 6x4x3x1xf32 {{{WINDOW}}}",
                         f"2x0x9x8xf32, 2x4x9x8xf32 -> 0x4x3x1xf32 {{{WINDOW}}}"],
    # All labels are ignored.
    "cross_entropy": [
        "9x0xf32, 9xi64<1 -> 9xf32, 9xf32, 9xf32 {ignore_index = 0 : i64}"
    ],
    "dequantize": [f"0x4xf8E4M3FN, f32>0 -> 0x4xf32 {{format = {TENSOR}}}"],
    "gather": ["11x6xf32, 3x0xi64<11 -> 3x0x6xf32"],
    "group_max": ["8x0xf32 -> 0xf32 {size = 16 : i64}",
                  "0x64xf32 -> 0xf32 {size = 16 : i64}"],
    "matmul": ["3x4x0xf32, 3x0x5xf32 -> 3x4x5xf32",
               "0x4xf32, 0x5xf32, 5xf32 -> 4x5xbf16 {transpose_lhs}"],
    "quantize": [
        f"0x4xf32 -> 0x4xf8E4M3FN, f32 {{format = {TENSOR}, saturate}}",
        f"0x4xf32 -> 0x4xf8E4M3FN, 0xbf16 {{format = {GROUPS}, saturate}}",
        f"3x0xf32 -> 3x0xf8E5M2, 3x0xf8E8M0FNU {{format = {BLOCKS}, saturate}}",
    ],
    "reduce_max": ["5x0xf32 -> f32 {axes = array<i64: 0, 1>}"],
    "reduce_mean": ["5x0xf32 -> f32 {axes = array<i64: 0, 1>}"],
    "reduce_sum": ["5x0xbf16 -> bf16 {axes = array<i64: 0, 1>}"],
    "reshape": ["0x3xf32 -> 7x0x2xf32"],
}  # fmt: skip
# Ops without an axis of variable length, and ops in the example of another op.
FIXED = {"constant", "gradient_seed", "optimizer", "optimizer_scalars", "raise_scale",
         "unscale_factor", "update_scale", "yield"}  # fmt: skip
NAN, INF = np.nan, np.inf


def attention(query, key, value, scale=0.25, causal=False):
    scores = scale * query @ np.swapaxes(key, -1, -2)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -INF)
    with np.errstate(all="ignore"):
        total = np.exp(scores).sum(-1)
        p = np.exp(scores) / total[..., None]
        return p @ value, np.log(total)


# The expected results, by op. Results of ops that are not listed are 0.
VALUES = {
    "batch_norm_statistics": lambda x: (NAN, NAN),
    "cross_entropy": lambda *x: (0.0, -INF, -INF),
    "concat": lambda *x: (np.concatenate(x, int(x[0].shape[0] == x[1].shape[0])),),
    "conv": lambda *x: (x[2][:, None, None] if len(x) > 2 else 0.0,),
    "gradient_statistics": lambda *x: (sum(np.sum(y * y) for y in x), 0),
    "label_weight": lambda x: (INF,),
    "layer_norm": lambda *x: (NAN, NAN, NAN),
    "matmul": lambda *x: (x[2] if len(x) > 2 else 0.0,),
    "reduce_max": lambda x: (-INF,),
    "reduce_mean": lambda x: (NAN,),
    "rms_norm": lambda *x: (NAN, NAN),
    "statistics": lambda x: (0.0, INF, 0, 0, 0),
}


def expect(op, example, given):
    wide = [array.astype(np.float64) for array in given.values()]
    if op == "attention":
        return attention(*wide, causal="causal" in example)
    return VALUES[op](*wide) if op in VALUES else [0.0] * 9


def set_to_zero(text, length):
    """Replaces a length of the example by 0."""
    types, brace, attributes = text.partition(" {" if "func" not in text else "\0")
    return re.sub(rf"(?<![\w.#:]){length}(?=x)|(?<=x){length}(?=x)", "0", types) + (
        brace + attributes
    )


def list_variants(op):
    example = SIMPLE.get(op) or TEXTS[op]
    types = example.partition(" {")[0] if op in SIMPLE else example
    lengths = sorted(set(re.findall(r"(\d+)(?=x)", types)) - {"0"})
    return [set_to_zero(example, length) for length in lengths] + MORE.get(op, [])


@functools.cache
def list_cases():
    """Op, example and inputs of all cases that the verifiers accept."""
    ops = [op for op in EXAMPLES if op not in FIXED]
    found = [(op, example) for op in ops for example in list_variants(op)]
    texts = [write(op, example)[0] for op, example in found]
    source = "\n// -----\n".join(texts)
    done = subprocess.run(
        [OPT, "--split-input-file", "-"],
        input=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    wrong = {int(line) for line in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
    cases, line = [], 1
    for (op, example), text in zip(found, texts):
        end = line + text.count("\n") + 1
        if not wrong & set(range(line, end + 1)):
            cases.append((op, example, write(op, example)[1]))
        line = end + 1
    return cases


def test_every_op_has_a_case():
    ops = {op for op, *_ in list_cases()}
    assert ops == set(EXAMPLES) - FIXED
    for op, examples in MORE.items():
        assert {example for o, example, _ in list_cases() if o == op} >= set(examples)


def is_out_of_range(op, example):
    """Whether the case has indices into 0 rows or classes, of which none is valid."""
    table = {"gather": "0x6", "gather_grad": "31x20xf32, 31xi64<11 -> 0x20"}
    labels = {"cross_entropy": "9x0xf32, 9xi64<37", "cross_entropy_grad": "9xf32, 9x0"}
    start = (table | labels).get(op)
    return start is not None and example.startswith(start)


def list_valid():
    return [case for case in list_cases() if not is_out_of_range(*case[:2])]


def count_results(text):
    to = re.search(r"func\.func @f\(.*?\)\s*->(.*?) \{\n", text, re.DOTALL)[1]
    return to.count("tensor<")


def evaluate_together(cases, backend):
    texts = [write(op, example)[0] for op, example, _ in cases]
    inputs = [array for *_, given in cases for array in given.values()]
    outputs = evaluate(
        join(texts), {f"arg{i}": array for i, array in enumerate(inputs)},
        "--function", "step", "--backend", backend,
    )  # fmt: skip
    results = iter([outputs[f"result{i}"] for i in range(len(outputs))])
    return [[next(results) for _ in range(count_results(text))] for text in texts]


@functools.cache
def evaluate_all(backend):
    """The results of each case. One function contains all cases, except those of an op
    that a step may contain only once."""
    groups = {}
    for index, (op, *_) in enumerate(list_valid()):
        groups.setdefault(index if op == "gradient_statistics" else "", []).append(
            index
        )
    results = {}
    for group in groups.values():
        cases = [list_valid()[index] for index in group]
        results |= zip(group, evaluate_together(cases, backend), strict=True)
    return [results[index] for index in range(len(results))]


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_values_match_numpy(backend):
    cases, results = list_valid(), evaluate_all(backend)
    assert len(cases) > 150
    for (op, example, given), values in zip(cases, results, strict=True):
        for value, number in zip(values, expect(op, example, given)):
            number = np.broadcast_to(np.asarray(number, np.float64), value.shape)
            if op != "quantize":
                np.testing.assert_allclose(
                    value.astype(np.float64), number, err_msg=f"{op}: {example}",
                    rtol=4e-3 if value.dtype.itemsize == 2 else 1e-6,
                )  # fmt: skip


def test_quantized_results_match_the_reference():
    for backend in ("cpu", "simulator"):
        for (op, example, _), values, expected in zip(
            list_valid(), evaluate_all(backend), evaluate_all("reference"), strict=True
        ):
            for value, other in zip(values, expected, strict=True):
                assert value.dtype == other.dtype and value.shape == other.shape
                if op == "quantize":
                    assert value.tobytes() == other.tobytes(), f"{op}: {example}"


def test_scales_of_empty_groups_are_those_of_zeros():
    zeros = evaluate(
        write("quantize", SIMPLE["quantize"])[0],
        {"arg0": np.zeros((8, 64), np.float32)},
    )
    found = [
        values[1]
        for (op, _, given), values in zip(list_valid(), evaluate_all("cpu"))
        if op == "quantize" and given["arg0"].shape == (8, 0)
    ]
    assert len(found) == 1
    np.testing.assert_array_equal(found[0], zeros["result1"])


@pytest.mark.parametrize("op", ["gather", "cross_entropy"])
def test_indices_into_an_empty_axis_are_rejected(op):
    ((example, given),) = [
        case[1:]
        for case in list_cases()
        if case[0] == op and is_out_of_range(*case[:2])
    ]
    for backend in ("reference", "cpu", "simulator"):
        process, _ = run(write(op, example)[0], given, "--backend", backend)
        assert process.returncode == 3, (example, process)
        assert "error: " in process.stderr and "a bug" not in process.stderr
