"""The rows of attention, heads and FP8 matmuls of benchmarks/gpu: their modules compute what
their PyTorch peers compute."""

import contextlib
import sys

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.reference import evaluate

torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import contraction_peers  # noqa: E402
import contractions  # noqa: E402
import peers  # noqa: E402
from cases import COMPILED  # noqa: E402
from comparison import OURS, Comparison  # noqa: E402
from contraction_cases import (  # noqa: E402
    ATTENTION,
    BF16_MM,
    CHUNKED,
    CONTRACTIONS,
    HEADS,
    LINEAR,
    MATMULS,
    SCALED_MM,
)
from contraction_inputs import draw_inputs  # noqa: E402

LOSS, HEAD = HEADS[:2]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(peers, "DEVICE", "cpu")
    monkeypatch.setattr(peers, "on_side_stream", contextlib.nullcontext)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


def to_torch(array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def evaluate_case(case, tmp_path):
    """Returns the inputs by name, as arrays and as tensors, and the outputs of the reference."""
    path = tmp_path / "case.mlir"
    case.write(path)
    drawn = draw_inputs(case, np.random.default_rng(1))
    inputs = {name: value for (_, name), value in drawn.items()}
    tensors = {name: to_torch(value) for name, value in inputs.items()
               if value.dtype != ml_dtypes.float8_e4m3fn}  # fmt: skip
    return path.read_text(), inputs, tensors


def check(found, names, expected, bits=7):
    """Each value is within some roundings to bf16 of the largest magnitude."""
    assert len(names) == len(expected)
    for name, value in zip(names, expected):
        wanted = value.detach().float().numpy()
        got = found[name].astype(np.float32).reshape(wanted.shape)
        bound = np.abs(wanted).max() * 2.0**-bits
        assert bound > 0
        np.testing.assert_allclose(got, wanted, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize(
    "case", [c for c in ATTENTION if "wide" not in c.name], ids=lambda case: case.name
)
def test_attention(case, tmp_path):
    case = case.shrink()
    text, inputs, tensors = evaluate_case(case, tmp_path)
    shapes = {"q": case.queries, "k": case.keys, "v": case.keys}
    q, k, v = (tensors[x].reshape(shapes[x]).requires_grad_() for x in "qkv")
    dy = tensors["dy"].reshape(case.queries) if case.isBackward else None
    if case.isBackward:
        # What the forward pass computes of these operands.
        heads = case.queries[1] // case.keys[1]
        wide_k, wide_v = (x.repeat_interleave(heads, 1).float() for x in (k, v))
        scores = q.float() @ wide_k.mT * case.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
        y = torch.softmax(scores, -1) @ wide_v
        for name, value in (("lse", torch.logsumexp(scores, -1)), ("y", y)):
            given = inputs[name]
            inputs[name] = (
                value.detach().numpy().reshape(given.shape).astype(given.dtype)
            )
    made = contraction_peers.attend(case, "MATH", operands=(q, k, v, dy))()
    names = ["dq", "dk", "dv"] if case.isBackward else ["y"]
    check(evaluate(text, inputs), names, made)


def test_the_mode_of_pytorch_is_restored():
    with pytest.raises(ValueError), contraction_peers.algorithms("MATH", True):
        assert torch.are_deterministic_algorithms_enabled()
        raise ValueError
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("peer", [COMPILED, CHUNKED, LINEAR])
def test_heads(peer, tmp_path, monkeypatch):
    if peer == LINEAR and not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        pytest.skip("PyTorch is too old")
    monkeypatch.setattr(
        contraction_peers, "CHUNK", 48
    )  # A whole piece and a partial one.
    text, inputs, tensors = evaluate_case(HEAD.shrink(), tmp_path)
    x, w = (tensors[name].requires_grad_() for name in "xw")
    made = contraction_peers.HEADS[peer](x, w, tensors["labels"])()
    check(evaluate(text, inputs), ["loss", "dx", "dw"], made, bits=6)


def test_loss(tmp_path):
    case = LOSS.shrink()
    text, inputs, tensors = evaluate_case(case, tmp_path)
    logits, labels = tensors["logits"], tensors["labels"]
    total, gradient = contraction_peers.loss_and_gradient(logits, labels, 1 / case.rows)
    check(evaluate(text, inputs), ["loss", "dlogits"], [total / case.rows, gradient])


@pytest.mark.parametrize("peer", [SCALED_MM, BF16_MM])
def test_matmuls(peer, tmp_path):
    case = MATMULS[0].shrink()
    text, inputs, _ = evaluate_case(case, tmp_path)
    x, w = (to_torch(inputs[name].astype(ml_dtypes.bfloat16)) for name in "xw")
    made = contraction_peers.multiply(case, peer, (x, w))().float()
    check(
        evaluate(text, inputs),
        ["y"],
        [made * float(inputs["x_scale"] * inputs["w_scale"])],
    )


@pytest.mark.parametrize("part", CONTRACTIONS)
def test_every_peer_of_a_row_exists(part, monkeypatch):
    """Peers of packages that are not installed fail, and with a reason that says so."""
    monkeypatch.setattr(contraction_peers, "captured", lambda call: call)
    for case in CONTRACTIONS[part]:
        for peer in {**case.peers, **(case.library_peers or {})}:
            try:
                contraction_peers.make(case.shrink(), peer)
            except ImportError as error:
                assert error.name in ("cudnn", "liger_kernel"), peer
            except RuntimeError as error:  # A backend that CPUs lack.
                assert "kernel" in str(error).lower(), peer


def make_comparison(times, unavailable=()):
    comparison = Comparison("row")
    comparison.times = times
    comparison.unavailable = {peer: "not installed" for peer in unavailable}
    return comparison


def test_a_row_by_a_library_and_one_by_own_kernels():
    case = ATTENTION[0]
    times = {OURS: [2.0, 2.0], contractions.OWN: [3.0, 3.0], "cuDNN": [2.0, 2.0],
             "FlashAttention-2": [4.0, 4.0]}  # fmt: skip
    comparison = make_comparison(times, ["FlashAttention-2, deterministic"])
    library, own = contractions.make_rows(case, comparison, "cudnn 9.1")
    assert (library["name"], own["name"]) == (
        "attention-gpt2-library",
        "attention-gpt2",
    )
    assert library["peers"]["cuDNN"]["ratio"] == 1.0
    assert library["peers"]["cuDNN"]["goal"] == 1.15
    assert own["peers"]["FlashAttention-2"]["ratio"] == 0.75
    assert (
        own["unavailable"]["FlashAttention-2, deterministic"]["reason"]
        == "not installed"
    )
    # 2 matmuls of which the mask leaves half: 2 x 32 x 12 x 1024^2 x 64.
    assert own["tflops"] == round(2 * 32 * 12 * 1024**2 * 64 / 3e-3 / 1e12, 1)


def test_a_row_without_a_library_says_that_its_goal_was_not_measured():
    (row,) = contractions.make_rows(ATTENTION[0], make_comparison({OURS: [3.0]}), "")
    missing = row["unavailable"]["cuDNN, by a library"]
    assert missing["goal"] == 1.15 and "no library" in missing["reason"]
