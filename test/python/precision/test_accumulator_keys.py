"""The policy key `accumulate` with a mapping: errors with file and line, and what commands print."""

import json
import subprocess

import pytest
from support.quantized_products import OPT, build_step
from support.reference import binade

HEAD = "name: mine\nextends: bf16-amp\nrules:\n"
FORMATS = "  quantize: { activation: e4m3-tensor, weight: e4m3-tensor, gradient: e5m2-tensor }\n"
MATMUL = HEAD + "- match: { op: matmul, role: weight }\n" + FORMATS
LAST = "- { match: { op: matmul, role: weight, layer: last }, class: allow }\n"
OP = "expected match: { op: matmul } in its rule"
FP8 = "expected operands quantized to f8E4M3FN or f8E5M2"


@pytest.mark.parametrize("text, line, message", [
    (MATMUL + "  accumulate: { bits: 7 }\n", 6, "'bits' of an accumulator is from 8 to 24, got 7"),
    (MATMUL + "  accumulate: { bits: 25 }\n", 6, "'bits' of an accumulator is from 8 to 24, got 25"),
    (MATMUL + "  accumulate: { step: 32 }\n", 6, "accumulator has no 'bits'"),
    (MATMUL + "  accumulate: { bits: 14, step: 0 }\n", 6, "from 1 to 32, got 0"),
    (MATMUL + "  accumulate: { bits: 14, step: 33 }\n", 6, "from 1 to 32, got 33"),
    (MATMUL + "  accumulate: { bits: 14, promote: 100 }\n", 6,
     "'promote' is 0, for never, or a multiple of 'step' = 32, got 100"),
    (MATMUL + "  accumulate: { bits: 14, promote: -32 }\n", 6, "got '-32'"),
    (MATMUL + "  accumulate: { bits: 14.5 }\n", 6, "got '14.5'"),
    (MATMUL + "  accumulate: { bits: 14, promotes: 128 }\n", 6,
     "unknown key 'promotes' in an accumulator; did you mean 'promote'?"),
    (MATMUL + "  accumulate: 14\n", 6, "expected f64, f32, bf16 or f16"),
    (HEAD + "- match: { role: weight }\n" + FORMATS + "  accumulate: { bits: 14 }\n", 6, OP),
    (HEAD + "- match: { op: [matmul, conv] }\n" + FORMATS + "  accumulate: { bits: 14 }\n", 6, OP),
    (HEAD + "- match: { op: matmul }\n  accumulate: { bits: 14 }\n", 5,
     "expected quantize: with FP8 formats in its rule"),
    (HEAD + "- match: { op: matmul }\n  quantize: { activation: nvfp4, weight: nvfp4 }\n"
     "  accumulate: { bits: 14 }\n", 6, FP8),
    (HEAD + "- match: { op: matmul }\n  quantize: { activation: e4m3x, weight: e4m3-tensor }\n"
     "  accumulate: { bits: 14 }\n", 6, FP8),
])  # fmt: skip
def test_wrong_keys_are_rejected(tmp_path, text, line, message):
    policy = tmp_path / "mine.yaml"
    policy.write_text(text)
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert f"mine.yaml:{line}:" in process.stderr, process.stderr
    assert message in process.stderr, process.stderr


def assign(policy, step):
    return subprocess.run(
        [OPT, f"--binade-assign-precision=policy={{{policy}}}"],
        input=step, capture_output=True, text=True,
    )  # fmt: skip


MIXED = """\
- match: { op: matmul, role: weight }
  quantize: { activation: e4m3-1x128, weight: mxfp8, gradient: e4m3-1x128 }
  accumulate: { bits: 14 }
"""


def test_scales_of_different_blocks_are_rejected(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(HEAD + MIXED + LAST)
    process = assign(policy, build_step())
    assert process.returncode != 0
    assert (
        "mine.yaml:6:17: error: cannot model the accumulator of matmul"
        in process.stderr
    )
    assert (
        "it has a scale for 48 summed elements of one operand and for 32 of the other"
        in process.stderr
    )
    policy.write_text(HEAD + MIXED + "  optional: true\n" + LAST)
    process = assign(policy, build_step())
    assert process.returncode == 0
    assert "warning: adds the products of 2 matmuls in f32" in process.stderr


def test_a_pin_must_fit():
    text = assign("fp8-hopper", build_step()).stdout
    assert text.count("accumulation = <bits = 14, step = 32, promote = 0>") == 1
    assert text.count("accumulation = <bits = 14, step = 32, promote = 128>") == 2

    def parse(changed):
        assert changed != text
        return subprocess.run([OPT], input=changed, capture_output=True, text=True)

    assert (
        "'bits' of an accumulator is from 8 to 24, got 40"
        in parse(text.replace("bits = 14", "bits = 40")).stderr
    )
    assert "'accumulate' is f32" in parse(text.replace("accumulate = f32, ", "")).stderr
    assert (
        "has an operand that is not quantized to FP8"
        in parse(
            text.replace("#binade.quantized<f8E5M2", "#binade.quantized<f8E4M3")
        ).stderr
    )


def test_policy_show_and_schema():
    shown = binade("policy", "show", "fp8-hopper").stdout
    assert "accumulate accumulator of 14 bits, promoted every 128 products" in shown
    assert "accumulate accumulator of 14 bits, never promoted" in shown
    schema = json.loads(binade("policy", "schema").stdout)
    assert '"promote"' in json.dumps(schema)
