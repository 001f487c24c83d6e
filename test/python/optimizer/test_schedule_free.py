"""Schedule-free AdamW follows the published formulas, and these are the ones of the authors'
package."""

import numpy as np
import pytest
from support.rules import update_module
from support.schedule_free import Published
from support.tensor_rules import draw, run, start

BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
RULE = "schedule_free_adamw"


CASES = {
    "defaults": [2.5e-3, 0.9, 0.999, 1e-8, 0, 0, 0, 2],
    "decay and warm-up": [0.02, 0.95, 0.99, 1e-8, 0.1, 4, 0, 2],
    "weights by step": [0.01, 0.9, 0.999, 1e-8, 0.1, 3, 1.5, 1],
    "no interpolation": [0.01, 0.0, 0.99, 1e-8, 0.01, 0, 0, 0],
    "a rate of 0": [0.0, 0.9, 0.99, 1e-8, 0.01, 0, 0, 2],
}


@BACKENDS
@pytest.mark.parametrize("case, shape", [
    *[(case, (7, 9)) for case in CASES], ("decay and warm-up", ())
])  # fmt: skip
def test_follows_the_published_formulas(case, shape, backend):
    generator = np.random.default_rng(11)
    module = update_module(RULE, CASES[case], shape, form="")
    p = np.float32(draw(generator, *shape))
    state, published = start(RULE, p, ""), Published(p, *CASES[case])
    for step in range(8):
        g = np.float32(draw(generator, *shape, scale=0.1))
        state = run(module, state, backend, g=g, step=np.int64(step))
        published.step(g.astype(float))
        np.testing.assert_allclose(state["p"], published.y, rtol=1e-6, atol=1e-6)
        average = state["p"] + state["s0"]
        np.testing.assert_allclose(average, published.x, rtol=1e-6, atol=1e-6)


def test_the_package_has_these_formulas():
    """The package itself, where it is installed."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    schedulefree = pytest.importorskip(
        "schedulefree", reason="schedulefree is not installed"
    )
    lr, beta1, beta2, eps, decay, warmup_steps, r, power = CASES["weights by step"]
    generator = np.random.default_rng(12)
    p = draw(generator, 7, 9)
    weight = torch.nn.Parameter(torch.from_numpy(p.copy()))
    optimizer = schedulefree.AdamWScheduleFree(
        [weight], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay,
        warmup_steps=warmup_steps, r=r, weight_lr_power=power, foreach=False,
    )  # fmt: skip
    published = Published(p, *CASES["weights by step"])
    for _ in range(8):
        g = draw(generator, 7, 9, scale=0.1)
        optimizer.train()
        weight.grad = torch.from_numpy(g.copy())
        optimizer.step()
        published.step(g.astype(float))
        np.testing.assert_allclose(weight.detach(), published.y, rtol=1e-6, atol=1e-6)
        optimizer.eval()
        np.testing.assert_allclose(weight.detach(), published.x, rtol=1e-6, atol=1e-6)
