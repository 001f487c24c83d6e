"""The policy key `transform`: errors with file and line, and the output of `policy show`."""

import subprocess

import pytest
from support.quantized_products import OPT, build_step
from support.reference import binade

HEAD = "name: mine\nextends: bf16-amp\nrules:\n- match: { op: matmul, role: weight }\n"
LAST = "- { match: { op: matmul, role: weight, layer: last }, class: allow }\n"
WGRAD = "  quantize:\n    wgrad: { activation: nvfp4, gradient: nvfp4,\n      transform: %s }\n"


@pytest.mark.parametrize("text, line, message", [
    (HEAD + WGRAD % "{ hadamard: 12 }", 7, "expected 4, 8, 16, 32, 64 or 128 elements, got '12'"),
    (HEAD + WGRAD % "{ hadamard: 16.0 }", 7, "got '16.0'"),
    (HEAD + WGRAD % "{ signs: fixed }", 7, "transform has no 'hadamard'"),
    (HEAD + WGRAD % "16", 7, "expected a transform: a mapping with hadamard, signs"),
    (HEAD + WGRAD % "{ hadamard: 16, signs: random }", 7,
     "expected none, fixed or step, got 'random'"),
    (HEAD + WGRAD % "{ hadamard: 16, sign: fixed }", 7,
     "unknown key 'sign' in a transform; did you mean 'signs'?"),
    (HEAD + "  quantize:\n    wgrad: { transform: { hadamard: 16 } }\n", 6,
     "transform of a product whose operands are not quantized; expected formats for both"),
    (HEAD + "  quantize:\n    activation: nvfp4\n    transform: { hadamard: 16 }\n", 7,
     "unknown key 'transform' in formats of operands"),
])  # fmt: skip
def test_contradicting_keys_are_rejected(tmp_path, text, line, message):
    policy = tmp_path / "mine.yaml"
    policy.write_text(text)
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert f"mine.yaml:{line}:" in process.stderr and message in process.stderr


def write(tmp_path, transform="{ hadamard: 32 }", more=""):
    policy = tmp_path / "mine.yaml"
    policy.write_text(HEAD + WGRAD % transform + more + LAST)
    return policy


def assign(policy, rows):
    return subprocess.run(
        [OPT, f"--binade-assign-precision=policy={{{policy}}}"],
        input=build_step(rows), capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("rows, sizes", [
    (18, "no size of a transform divides it"), (24, "sizes that divide it: 4, 8"),
])  # fmt: skip
def test_the_sum_must_be_a_multiple_of_the_size(tmp_path, rows, sizes):
    process = assign(write(tmp_path), rows)
    assert process.returncode != 0
    assert (
        f"mine.yaml:7:20: error: cannot transform the operands of matmul, backward: it sums "
        f"over {rows} elements (axis -2 of tensor<{rows}x48xf32>), which is not a multiple of 32; {sizes}"
    ) in process.stderr


def test_an_optional_rule_quantizes_without_the_transform(tmp_path):
    process = assign(write(tmp_path, more="  optional: true\n"), 48)
    assert process.returncode == 0
    assert (
        "mine.yaml:7:20: warning: quantizes 1 product without the transform: matmul, backward "
        "sums over 48 elements"
    ) in process.stderr
    assert "= [#binade.quantized<f4E2M1FN" in process.stdout
    assert "transform = <" not in process.stdout


def test_a_pin_must_fit(tmp_path):
    assigned = assign(write(tmp_path, "{ hadamard: 16 }"), 32).stdout
    pinned = assigned.replace("hadamard = 16", "hadamard = 64")
    assert pinned != assigned
    process = subprocess.run([OPT], input=pinned, capture_output=True, text=True)
    assert process.returncode != 0
    assert "'binade.matmul' op sums over 32 elements" in process.stderr
    pinned = assigned.replace("hadamard = 16", "hadamard = 12")
    process = subprocess.run([OPT], input=pinned, capture_output=True, text=True)
    assert (
        "expected groups of 4, 8, 16, 32, 64 or 128 elements, got 12" in process.stderr
    )


def test_policy_show_prints_the_transform(tmp_path):
    def show(transform):
        return binade("policy", "show", write(tmp_path, transform)).stdout

    assert "transform wgrad hadamard 16 with fixed signs" in show("{ hadamard: 16 }")
    assert "transform wgrad hadamard 128 with signs drawn in each step" in show(
        "{ hadamard: 128, signs: step }"
    )
    assert "transform wgrad hadamard 64 without signs" in show(
        "{ hadamard: 64, signs: none }"
    )
