"""Hadamard transforms of the operands of a matmul under a policy: codes and gradients of a
compiled step, compared with numpy."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from support.hadamard import (
    SIZES,
    fixed_signs,
    step_signs,
    sylvester,
    transform,
)
from support.paths import ROOT
from support.quantized_products import (
    BACKENDS,
    IN,
    OPT,
    OUT,
    build_step,
    check,
    draw,
    materialize,
    product,
    round_bias,
)
from support.reference import evaluate
from support.transforms import SEED, STEP, check_gradient, run

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

F32 = np.float32
HEAD = "name: mine\nextends: bf16-amp\nrules:\n- match: { op: matmul, role: weight }\n"
LAST = "- { match: { op: matmul, role: weight, layer: last }, class: allow }\n"


def write(tmp_path, transform, more="", product="wgrad"):
    policy = tmp_path / "mine.yaml"
    kinds = {"fprop": "activation weight", "dgrad": "gradient weight",
             "wgrad": "activation gradient"}[product].split()  # fmt: skip
    formats = ", ".join(f"{kind}: nvfp4" for kind in kinds)
    policy.write_text(
        f"{HEAD}  quantize: {{ {product}: {{ {formats},\n    transform: {transform} }} }}\n"
        f"{more}{LAST}"
    )
    return policy


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("signs", ["fixed", "step", "none"])
def test_the_matrices_cancel(size, signs):
    """Without rounding, in f64: (D H)(D H)^T = 1."""
    vector = {"fixed": fixed_signs(size), "step": step_signs(size, SEED, STEP),
              "none": np.ones(size)}[signs]  # fmt: skip
    matrix = np.diag(vector.astype(float)) @ sylvester(size)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-15)
    random = np.random.default_rng(size)
    x, g = random.standard_normal((2, size, 24))
    np.testing.assert_allclose((matrix.T @ x).T @ (matrix.T @ g), x.T @ g, atol=1e-12)


@BACKENDS
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("signs", ["fixed", "step", "none"])
def test_weight_gradient(tmp_path, size, signs, backend):
    policy = write(tmp_path, f"{{ hadamard: {size}, signs: {signs} }}")
    outputs, v, codes = run(policy, 128, backend)
    vector = {"fixed": fixed_signs(size), "step": step_signs(size, SEED, STEP),
              "none": None}[signs]  # fmt: skip
    operands = [transform(x, size, vector, axis=0) for x in (-v["x"], -v["g"])]
    check_gradient(outputs, codes, operands)
    with pytest.raises(AssertionError):
        check_gradient(outputs, codes, [-v["x"], -v["g"]])


@BACKENDS
@pytest.mark.parametrize("product_of", ["fprop", "dgrad"])
def test_other_products(tmp_path, product_of, backend):
    """`fprop` sums over the inputs of the layer, `dgrad` over its outputs."""
    policy = write(tmp_path, "{ hadamard: 16 }", product=product_of)
    wide = 32
    v = draw(22)
    for name in ("w", "g", "b"):
        v[name] = v[name][..., :wide].copy()
    v["last"] = v["last"][:wide]
    step = build_step().replace(f"{OUT}", f"{wide}")
    outputs = evaluate(materialize(policy, step), v, "--backend", backend)

    def rounded(x):
        parts = published.quantize(transform(x, 16, fixed_signs(16)))
        return published.dequantize(*parts).astype(float)

    if product_of == "fprop":
        wanted = product(
            rounded(-v["x"]), rounded(v["w"].T.copy()).T, round_bias(v["b"])
        )
        check(outputs, {"y": wanted})
    else:
        wanted = product(rounded(-v["g"]), rounded(v["w"]).T)
        check(outputs, {"dx": wanted})


@BACKENDS
def test_values_that_the_format_represents(tmp_path, backend):
    """If quantization does not round the transformed operands, the gradient is that of the
    original operands."""
    random = np.random.default_rng(23)
    matrix = np.diag(fixed_signs(16)) @ sylvester(16)
    values = {}
    for name, width in (("x", IN), ("g", OUT)):
        codes = random.integers(0, 16, (4, 16, width)).astype(np.uint8)
        codes[:, 0] = 7  # The largest value, so that all scales are equal.
        exact = np.einsum("ij,bjk->bik", matrix, published.decode_e2m1(codes))
        values[name] = exact.reshape(64, width).astype(F32)
    policy = write(tmp_path, "{ hadamard: 16, signs: fixed }")
    outputs, v, _ = run(policy, 64, backend, **values)
    check(outputs, {"w": product(v["x"].astype(float).T, v["g"].astype(float))})


@BACKENDS
def test_narrow_values_stay_narrow(tmp_path, backend):
    """The transformed tensor has the type of the tensor, as in Transformer Engine."""
    narrow = "- { match: { op: neg }, class: allow }\n"
    policy = write(tmp_path, "{ hadamard: 16 }", more=narrow)
    outputs, v, codes = run(policy, 32, backend)
    operands = []
    for x in (-v["x"], -v["g"]):
        x = transform(x.astype(ml_dtypes.bfloat16), 16, fixed_signs(16), axis=0)
        operands.append(x.astype(ml_dtypes.bfloat16).astype(F32))
    check_gradient(outputs, codes, operands)


def test_signs_of_steps_differ():
    vectors = {step_signs(128, SEED, step).tobytes() for step in range(8)}
    assert len(vectors) == 8


def test_a_step_that_is_materialized_twice_does_not_change(tmp_path):
    text = materialize(write(tmp_path, "{ hadamard: 16, signs: step }"), build_step(32))
    again = subprocess.run([OPT, "--binade-materialize-precision"], input=text,
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert again.stdout == text
