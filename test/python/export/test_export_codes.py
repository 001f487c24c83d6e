"""Runs tests of quantization, transforms, 16-bit storage and stochastic rounding with backend
`onnx`: onnxruntime runs the exported module, which must return the values that they expect."""

import inspect
import itertools

import pytest
from support.sources import load_file

TESTS = [
    "test/python/precision/test_quantize.py",
    "test/python/precision/test_quantize_granularity.py",
    "test/python/optimizer/test_quantized_states.py",
    "test/python/precision/test_storage.py",
    "test/python/precision/test_stochastic.py",
    "test/python/precision/test_hadamard.py",
    "test/python/precision/test_transforms.py",
    "test/python/precision/test_quartet2.py",
]
# Cases of every run, chosen to cover all formats and roundings. Others are nightly.
OFTEN = {
    "test_a_skipped_step_changes_no_bit dyn4",
    "test_bits 16",
    "test_codes_of_both_backward_products",
    "test_quantizing_with_a_scale_of_1_is_a_cast e3m2",
    "test_codes_of_code_books 16",
    "test_codes_match_bitsandbytes True",
    "test_quantized_floats f8E4M3FN per_block<16, 8>",
    "test_expanded_groups_of_coat m_like",
    "test_granularities per_group<16>",
    "test_infinities_and_nan_are_kept",
    "test_inverse_scales te_e4m3_pow2-f8E4M3FN-inverse_power",
    "test_kahan_summation_matches_numpy bf16",
    "test_narrow_operands_and_results",
    "test_residuals_match_numpy bf16",
    "test_parameters_and_states_in_16_bits bf16 19",
    "test_quantized_states dyn8 300",
    "test_scales_that_are_powers_of_two rceil-round_up e4m3",
    "test_stochastic_rounding 17",
    "test_trace_of_adamw_with_expanded_states",
    "test_weight_gradient step 32",
    "test_non_finite_values_are_never_stored_as_finite BOOK, per_row, scale = f32-"
    "['i8', 'f32'] nan",
    "test_stored_parameters_are_read_as_written split_round",
}
# A cast may return any NaN of e5m2, and the test compares bits.
LEFT_OUT = {
    "test_codes_are_recorded_casts e5m2",
    "test_quantizing_with_a_scale_of_1_is_a_cast e5m2",
}
# Divides the formats of test_every_rule_with_every_format among backends other than `onnx`.
DIVIDED = "test_every_rule_with_every_format_on_one_backend"


def find_parameters(test):
    """The marks that parametrize a test."""
    marks = getattr(test, "pytestmark", [])
    return [mark for mark in marks if mark.name == "parametrize"]


def list_arguments(test):
    """The arguments of `test` without the backend, with a name for each combination."""
    ways = []
    for mark in find_parameters(test):
        names = [name.strip() for name in mark.args[0].split(",")]
        if names == ["backend"]:
            continue
        rows = [row if len(names) > 1 else [row] for row in mark.args[1]]
        texts = mark.kwargs.get("ids") or [
            "-".join(x if isinstance(x, str) else str(x) for x in row) for row in rows
        ]
        ways.append([(text, dict(zip(names, row))) for text, row in zip(texts, rows)])
    for chosen in itertools.product(*ways):
        arguments = {name: x for _, row in chosen for name, x in row.items()}
        yield " ".join([test.__name__, *(text for text, _ in chosen)]), arguments


def is_test(name):
    return name.startswith("test_") and name != DIVIDED


def list_cases():
    for module in map(load_file, TESTS):
        for name, test in sorted(vars(module).items()):
            marks = find_parameters(test) if is_test(name) else []
            if any(mark.args[0] == "backend" for mark in marks):
                for text, arguments in list_arguments(test):
                    often = () if text in OFTEN else pytest.mark.nightly
                    if text not in LEFT_OUT:
                        yield pytest.param(test, arguments, id=text, marks=often)


@pytest.mark.parametrize("test, arguments", list_cases())
def test_onnxruntime_returns_expected_values(test, arguments, tmp_path):
    if "tmp_path" in inspect.signature(test).parameters:
        arguments = arguments | {"tmp_path": tmp_path}
    test(**arguments, backend="onnx")
