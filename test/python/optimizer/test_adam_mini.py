"""Adam-mini follows its published formulas, with one second moment per head, row or tensor."""

import numpy as np
import pytest
from support.reference import binade, evaluate
from support.rules import update_module
from support.tensor_rules import draw, run, start

BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])


def adam_mini(torch, p, gradients, blocks, lr, beta1, beta2, eps, decay):
    """zyushun/Adam-mini in PyTorch, whose parameter is viewed as `blocks` rows of elements
    with one second moment."""
    p = torch.tensor(p)
    m = torch.zeros(blocks, p.numel() // blocks)
    v = torch.zeros(blocks)
    for step, g in enumerate(gradients, 1):
        g = torch.tensor(g).view(blocks, -1)
        v.mul_(beta2).add_(torch.mean(g * g, dim=1), alpha=1 - beta2)
        p.mul_(1 - lr * decay)
        m.lerp_(g, 1 - beta1)
        root = np.sqrt(1 - beta2**step)
        h = (v.sqrt() / root).add_(eps)
        update = m * ((1 / (1 - beta1**step)) / h).view(blocks, 1)
        p.add_(-update.view(p.shape).mul(lr))
        yield p.numpy(), v.numpy()


@BACKENDS
@pytest.mark.parametrize("form, shape, blocks", [
    ("", (12, 20), 12), ("", (5, 3, 4), 5), ("tensor", (12, 20), 1), ("vector", (31,), 1),
    ("vector", (), 1),
])  # fmt: skip
def test_follows_its_formulas(form, shape, blocks, backend):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    generator = np.random.default_rng(13)
    hypers = [0.01, 0.9, 0.95, 1e-8, 0.1]
    module = update_module("adam_mini", hypers, shape, form=form)
    p = np.float32(draw(generator, *shape))
    gradients = [np.float32(draw(generator, *shape, scale=10.0**-k)) for k in range(5)]
    wanted = adam_mini(torch, p, gradients, blocks, *hypers)
    state = start("adam_mini", p, form)
    for step, (g, (expected, moments)) in enumerate(zip(gradients, wanted)):
        state = run(module, state, backend, g=g, step=np.int64(step))
        assert state["s1"].size == blocks
        np.testing.assert_allclose(state["s1"].ravel(), moments, rtol=1e-6)
        np.testing.assert_allclose(state["p"], expected, rtol=1e-6, atol=1e-6)


MODULE = """
func.func @forward(
    %p: tensor<12x20xf32> {binade.name = "p", binade.role = #binade.role<parameter>},
    %g: tensor<12x20xf32> {binade.name = "g", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %0 = binade.mul %p, %g
    : (tensor<12x20xf32>, tensor<12x20xf32>) -> tensor<12x20xf32>
  %loss = binade.reduce_sum %0 {axes = array<i64: 0, 1>}
    : (tensor<12x20xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
"""


@BACKENDS
@pytest.mark.parametrize("setting, blocks", [("heads=3", 3), ("form=tensor", 1)])
def test_groups_have_heads_and_tensors(setting, blocks, backend, tmp_path):
    """The whole step of a loss whose gradient is an input."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "forward.mlir").write_text(MODULE)
    done = binade(
        "compile", tmp_path / "forward.mlir", "--optimizer", "adam_mini", "--group",
        f"p:{setting}", "--lr", 0.01, "--set", "weight_decay=0.1", "--to=optimizer", "-o",
        tmp_path / "step.mlir",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    module = (tmp_path / "step.mlir").read_text()
    generator = np.random.default_rng(14)
    p = draw(generator, 12, 20)
    gradients = [draw(generator, 12, 20, scale=10.0**-k) for k in range(3)]
    hypers = [0.01, 0.9, 0.999, 1e-8, 0.1]
    state = {"p": p}
    for g, (expected, moments) in zip(
        gradients, adam_mini(torch, p, gradients, blocks, *hypers)
    ):
        outputs = evaluate(
            module, {"g": g, **state}, "--function", "step", "--backend", backend
        )
        state = {k: v for k, v in outputs.items() if k not in ("loss", "grad_norm")}
        state.pop("found_inf", None)
        found = state["exp_avg_sq_mean/p"]
        assert found.size == blocks
        np.testing.assert_allclose(found.ravel(), moments, rtol=1e-6)
        np.testing.assert_allclose(state["p"], expected, rtol=1e-6, atol=1e-6)
