"""The PTX of attention's gradients computes those of biases: PyTorch's in f64, the same bits in each
run, and exactly where the arithmetic is exact."""

import functools
import json

import ml_dtypes
import numpy as np
import pytest
from support.attention_graphs import COLUMNS, FILL, SHAPE, compile_model
from support.cuda_runs import run
from support.gpu_code import read_saved
from support.philox import draw_uniform
from support.ptx import run as run_ptx

torch = pytest.importorskip("torch")

BF16, SCALE = ml_dtypes.bfloat16, COLUMNS**-0.5
SCORES = (*SHAPE[:3], SHAPE[2])
STATE = np.array([0x123456789, 41])


def shape_of(view):
    """The shape of a bias, its gradient or a mask in a record."""
    return [size if stride else 1 for size, stride in zip(SCORES, view["strides"])]


@functools.cache
def compile_gradients(folder, name):
    """The record of attention's gradients, and its kernel."""
    folder = folder / name
    (folder / "kernels").mkdir(parents=True)
    bundle = compile_model(folder / "kernels", name, "cuda")
    plan = json.loads(run("binade", "inspect", bundle, "--json").stdout)
    (record,) = (r for r in plan["records"] if "gradients" in r)
    (kernel,) = (
        k
        for k in read_saved(folder)
        if k.entries[0].symbol.startswith("attention") and len(k.entries) > 1
    )
    assert len(kernel.entries) == 2 + len(record["gradients"]["dbiases"])
    return record, kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("biases")


class Operands:
    def __init__(self, record, draw):
        self.record = record
        self.query, self.key, self.value, self.dy = (draw(SHAPE) for _ in range(4))
        self.biases = [draw(shape_of(view)) for view in record.get("biases", [])]
        self.mask = None
        if "mask" in record:
            random = np.random.default_rng(4)
            self.mask = random.random(shape_of(record["mask"])) < 0.7
            self.mask[..., 0] = True

    def expect(self):
        """Result, statistic and gradients of biases by PyTorch in f64, and the largest difference
        from each: the kernel reads the result in bf16 and computes in f32."""
        query, key, value, dy = (
            torch.from_numpy(x) for x in (self.query, self.key, self.value, self.dy)
        )
        biases = [torch.from_numpy(x).requires_grad_() for x in self.biases]
        scores = SCALE * query @ key.mT
        if cap := self.record.get("softcap"):
            scores = cap * torch.tanh(scores / cap)
        for bias in biases:
            scores = scores + bias
        if self.mask is not None:
            fill = FILL if "fill" in self.record else -torch.inf
            scores = scores.masked_fill(~torch.from_numpy(self.mask), fill)
        p, factor = torch.softmax(scores, -1), torch.ones(SCORES)
        if dropout := self.record.get("dropout"):
            uniform = draw_uniform(np.prod(SCORES), *map(int, STATE), dropout["stream"])
            kept = torch.from_numpy(uniform[0].reshape(SCORES) >= dropout["ratio"])
            factor = kept / (1 - dropout["ratio"])
        y = (p * factor) @ value
        lse = torch.logsumexp(scores, -1)
        gradients = torch.autograd.grad(y, biases, dy)
        inner = (dy * y).abs().sum(-1, keepdim=True)
        products = factor * (dy.abs() @ value.mT.abs())
        errors = p * (2.0**-8 * inner + 2.0**-16 * (inner + products))
        bounds = [errors.sum_to_size(bias.shape) for bias in biases]
        return [
            [x.detach().numpy() for x in values]
            for values in ((y, lse), gradients, bounds)
        ]

    def run(self, kernel, y, lse):
        """The gradients of biases that the kernel computes."""
        memories = [
            np.ascontiguousarray(x, dtype)
            for x, dtype in [
                *((x, BF16) for x in (self.query, self.key, self.value, y)),
                (lse, np.float32), (self.dy, BF16),
                *((np.zeros(SHAPE), BF16) for _ in range(3)),
                *((x, np.float32) for x in self.biases),
            ]
        ]  # fmt: skip
        if self.mask is not None:
            memories.append(self.mask)
        if "dropout" in self.record:
            memories.append(STATE)
        wanted = self.record["gradients"]["dbiases"]
        found = [np.full(shape_of(w["view"]), np.nan, np.float32) for w in wanted]
        memories += [*found, np.full(3 * np.prod(SHAPE[:3]), np.nan, np.float32)]
        sizes = [count for count, _ in kernel.arguments]
        assert sizes == [memory.size for memory in memories]
        for entry in kernel.entries:
            run_ptx(entry, [memory.reshape(-1).view(np.uint8) for memory in memories])
        return [(w["bias"], x) for w, x in zip(wanted, found)]


@pytest.mark.parametrize("name", ["trained", "all_trained"])
def test_ptx_computes_gradients_of_biases(name, folder):
    record, kernel = compile_gradients(folder, name)
    random = np.random.default_rng(9)

    def draw(shape):
        return random.standard_normal(shape).astype(BF16).astype(float)

    operands = Operands(record, draw)
    (y, lse), expected, bounds = operands.expect()
    found = operands.run(kernel, y, lse)
    for bias, own in found:
        assert (abs(own - expected[bias]) <= bounds[bias]).all()
        assert abs(expected[bias]).max() > 4 * bounds[bias].max()
    again = operands.run(kernel, y, lse)
    for (_, own), (_, other) in zip(found, again):
        np.testing.assert_array_equal(own, other)


def test_sums_of_integers_are_exact(folder):
    """The bias lets each query see one key, so that its probability is 1."""
    record, kernel = compile_gradients(folder, "trained")
    random = np.random.default_rng(2)

    def draw(shape):
        return random.integers(-4, 5, shape).astype(float)

    operands = Operands(record, draw)
    operands.query[:] = 0
    (bias,) = operands.biases
    seen = random.integers(0, SHAPE[2], bias.shape[:-1])[..., None]
    bias[:] = -1e30
    np.put_along_axis(bias, seen, 0, -1)
    y = draw(SHAPE)  # The kernel reads it as it is.
    ((_, own),) = operands.run(kernel, y, np.zeros(SHAPE[:3]))
    along = operands.dy @ operands.value.swapaxes(-1, -2)
    inner = (operands.dy * y).sum(-1, keepdims=True)
    expected = ((bias == 0) * (along - inner)).sum(0, keepdims=True)
    np.testing.assert_array_equal(own, expected)
    assert len(np.unique(expected)) > 50
