"""Writes test/data/adjoints.json: values and gradients of functions, by PyTorch in f64.

usage: make_adjoints.py

Each case is a function of tensors whose gradients are wanted, and of integers and booleans
that go with them. The loss is the sum of the result times fixed weights.
test/python/autodiff/test_import_adjoints.py has an ONNX graph of the same name for each. Needs
torch.
"""

import itertools
import json
import pathlib

import torch
import torch.nn.functional as F

CASES = {}


def case(*shapes, **others):
    """Registers a function of tensors, random ones where a shape is given, and of
    `others`."""

    def register(function):
        CASES[function.__name__] = (function, shapes, others)
        return function

    return register


def integers(*rows):
    return torch.tensor(rows)


# Indices that repeat, and that count from the end.
COLUMNS = integers([0, 2, 2], [3, -1, 0])
ROWS = torch.tensor([2, 0, 2, -1])
PERMUTED = torch.stack([(torch.arange(10) * 5 + k) % 12 for k in range(3)])


@case((3, 4), (2, 3), i=COLUMNS)
def scatter_add(x, u, i):
    return x.scatter_add(1, i % 4, u)


@case((3, 4), (2, 3), i=integers([0, 2, 1], [-1, 1, 0]))
def scatter_replace(x, u, i):
    return x.scatter(1, i % 4, u)


@case((3, 12), (3, 10), i=PERMUTED)
def scatter_many(x, u, i):
    return x.scatter(1, i, u)


@case((3, 4), (2, 3), i=COLUMNS)
def scatter_product(x, u, i):
    return x.scatter_reduce(1, i % 4, u, "prod")


@case((3, 4), (2, 3), i=COLUMNS)
def scatter_largest(x, u, i):
    return x.scatter_reduce(1, i % 4, u, "amax")


@case((4, 3), (4, 3), i=ROWS)
def rows_added(x, u, i):
    return x.index_put((i % 4,), u, accumulate=True)


@case((6, 2), (2, 2), i=torch.tensor([4, 1]))
def rows_replaced(x, u, i):
    return x.index_put((i,), u)


@case((2, 5))
def scan(x):
    return x.cumsum(1).flip(1).cumsum(1)


@case((3, 5))
def product_scan(x):
    return x.cumprod(1)


@case((3, 6))
def largest(x):
    return x.topk(3, dim=1).values


@case((3, 6))
def smallest(x):
    return x.topk(2, dim=1, largest=False).values


@case((2, 3, 4, 3), (3, 2, 3, 2), (2,))
def transposed_convolution(x, w, b):
    return F.conv_transpose2d(x, w, b, stride=(2, 1), padding=(1, 0),
                              output_padding=(1, 0), dilation=(1, 2))  # fmt: skip


@case((1, 4, 5), (4, 3, 3))
def grouped(x, w):
    return F.conv_transpose1d(x, w, None, stride=3, groups=2)


@case((2, 3, 4))
def reflected(x):
    return F.pad(x, (2, 1), mode="reflect")


@case((2, 3, 4))
def edges(x):
    return F.pad(x, (2, 1), mode="replicate")


@case((2, 3, 4))
def wrapped(x):
    return F.pad(x, (2, 1), mode="circular")


@case((2, 3, 4), ())
def padded(x, value):
    y = value.expand(2, 4, 7).clone()
    y[:, :3, 2:6] = x
    return y


@case((1, 2, 3, 4))
def upsampled(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@case((1, 2, 6, 5))
def cubic(x):
    return F.interpolate(x, size=(4, 7), mode="bicubic", align_corners=True)


@case((1, 2, 6, 5))
def smoothed(x):
    return F.interpolate(x, size=(3, 2), mode="bilinear", antialias=True)


@case((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), m=torch.tensor(
    [[1, 0, 1, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool))  # fmt: skip
def masked_attention(q, k, v, m):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


@case((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 3), (2, 1, 3, 3))
def biased_attention(q, k, v, m):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


@case((1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))
def grouped_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@case((1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4))
def capped_attention(q, k, v):
    scores = q @ k.transpose(2, 3) / 2
    return torch.softmax(torch.tanh(scores / 1.5) * 1.5, 3) @ v


@case((5,))
def trigonometry(x):
    y = x / 3
    return torch.stack([torch.tan(y), torch.asin(y), torch.acos(y), torch.atan(x),
                        torch.sinh(x), torch.cosh(x), torch.asinh(x),
                        torch.acosh(x * x + 1.5), torch.atanh(y)])  # fmt: skip


@case(torch.zeros(3, dtype=torch.float64))
def at_zero(x):
    return torch.stack([torch.asin(x), torch.sinh(x), torch.asinh(x), torch.atanh(x),
                        F.softplus(x), F.mish(x)])  # fmt: skip


@case((3, 4))
def triangle(x):
    return torch.triu(x, 1) + torch.tril(x, -1)


@case((4, 3), t=torch.tensor([2, 0, -100, 2]),
      w=torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64))  # fmt: skip
def weighted_loss(x, t, w):
    return F.cross_entropy(x, t, w, ignore_index=-100)


@case((2, 3, 4))
def products(x):
    return x.prod(1)


@case((2, 0, 3), (2, 4, 3))
def nothing(x, y):
    return torch.cat([x, y], 1).cumsum(1)


@case((3, 4))
def looped(x):
    y = x
    for i in range(3):
        y = torch.tanh(y * x + i)
    return y


@case((5, 2, 3), (3, 4), (4, 4), (2, 4))
def scanned(x, w, u, h):
    states = []
    for step in reversed(range(5)):
        h = torch.tanh(x[step] @ w + h @ u)
        states.insert(0, h)
    return torch.stack(states, 1)


@case((4, 3, 2), (1, 3, 2), (1, 3, 3), n=torch.tensor([4, 1, 2], dtype=torch.int32))
def ragged(x, w, u, n):
    """Backward through sequences of which each has its own length."""
    h, outputs = torch.zeros(3, 3, dtype=x.dtype), []
    for step in reversed(range(4)):
        isInside = (step < n)[:, None]
        h = torch.where(isInside, torch.tanh(x[step] @ w[0].T + h @ u[0].T), h)
        outputs.insert(0, torch.where(isInside, h, 0.0))
    return torch.stack(outputs + [h])


# Some of these places are outside the image.
PLACES = 1.3 * torch.rand(
    1, 3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(5)
)


@case((1, 2, 4, 5), 2 * PLACES - 1.3)
def sampled(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


@case((1, 2, 4, 5), 2 * PLACES - 1.3)
def sampled_cubic(x, grid):
    return F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection",
                         align_corners=True)  # fmt: skip


@case((1, 1, 3, 4, 2), 2 * torch.cat([PLACES, PLACES[..., :1] / 2], -1)[None] - 1.3)
def sampled_volume(x, grid):
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


@case((2, 2, 3))
def affine_grid(theta):
    return F.affine_grid(theta, (2, 1, 3, 2), align_corners=False)


@case((3, 4))
def compressed(x):
    return x[:, [0, 3]]


@case((2, 4, 6, 5), (6, 2, 3, 2), (6,))
def convolution(x, w, b):
    return F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)


@case((3, 5), (5,))
def root_mean_square(x, scale):
    return F.rms_norm(x, (5,), scale, 1e-5)


@case((4, 3, 2), i=integers([1, 2], [0, 0], [1, 2]))
def slices(x, i):
    return x[i[:, 0], i[:, 1]]


@case((3, 5))
def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


@case((2, 3, 5), (3, 1, 4), (3,), (2, 3, 3))
def causal_convolution(x, w, b, state):
    whole = torch.cat([state, x], 2)
    y = F.silu(F.conv1d(whole, w, b, groups=3))
    return torch.cat([y, whole[:, :, 5:]], 2)


@case((1, 3, 4), (1, 3, 2), (1, 3, 3), (1, 1, 2, 3), (1, 3, 2), (1, 3, 1))
def linear_attention(q, k, v, state, decay, rate):
    """Linear attention of two queries per key, with decay and the delta rule."""
    state, rows = state[0, 0], []
    for t in range(3):
        state = state * torch.exp(decay[0, t])[:, None]
        added = rate[0, t] * (v[0, t] - k[0, t] @ state)
        state = state + torch.outer(k[0, t], added)
        rows.append((q[0, t].reshape(2, 2) @ state).reshape(-1) / 2**0.5)
    return torch.cat([torch.stack(rows).reshape(-1), state.reshape(-1)])


@case((2, 5, 2), (2, 4, 1))
def transforms(z, x):
    inverse = torch.fft.ifft(torch.view_as_complex(z), n=6, dim=1)
    forward = torch.fft.rfft(x[..., 0], dim=1)
    real = torch.fft.irfft(forward * forward, n=4, dim=1)
    parts = [torch.view_as_real(inverse), torch.view_as_real(forward), real]
    return torch.cat([part.reshape(-1) for part in parts])


@case((1, 12, 6))
def joined_blocks(x):
    return F.fold(x, (4, 5), (2, 3), padding=1, stride=2, dilation=(1, 2))


@case((2, 4, 3), (2, 2, 3), i=torch.tensor([3, 1]))
def cache_written(cache, update, i):
    rows = (i[:, None] + torch.arange(2)) % 4
    return cache.scatter(1, rows[..., None].expand(2, 2, 3), update)


PIXELS = torch.tensor([[0.7, 0.2, 4.1, 3.9], [1.3, 0.4, 5.2, 4.4], [-0.2, 1.1, 3.3, 4.6]],
                      dtype=torch.float64)  # fmt: skip


def sample(x, places, padding):
    """Of x [n, c, h, w] at places [n, ..., (column, row)] in pixels."""
    size = torch.tensor(x.shape[:1:-1], dtype=x.dtype)
    return F.grid_sample(x, 2 * places / (size - 1) - 1, padding_mode=padding,
                         align_corners=True)  # fmt: skip


def sample_regions(x, regions, i):
    """Two by two in each of three by two bins."""
    begin, size = regions[:, :2] - 0.5, regions[:, 2:] - regions[:, :2]
    across = begin[:, :1] + size[:, :1] * (torch.arange(4) + 0.5) / 4
    down = begin[:, 1:] + size[:, 1:] * (torch.arange(6) + 0.5) / 6
    places = torch.stack([across[:, None].expand(3, 6, 4),
                          down[:, :, None].expand(3, 6, 4)], -1)  # fmt: skip
    return sample(x[i], places, "border")


@case((2, 2, 5, 6), PIXELS, i=torch.tensor([1, 0, 1]))
def regions(x, regions, i):
    return F.avg_pool2d(sample_regions(x, regions, i), 2)


@case((1, 2, 4, 6))
def unpooled(x):
    y, i = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y * y, i, 2)


@case((2, 4, 5, 6), (4, 2, 3, 2), (2, 24, 3, 4), (4,), (2, 12, 3, 4))
def deformed(x, w, offset, b, mask):
    """A convolution with strides (2, 1), dilations (1, 2) and a row of padding, whose
    places move in two groups."""
    offset, mask = offset.reshape(4, 3, 2, 2, 3, 4), mask.reshape(4, 3, 2, 3, 4)
    columns = []
    for row in range(3):
        for column in range(2):
            down = 2 * torch.arange(3)[:, None] + row - 1 + offset[:, row, column, 0]
            across = torch.arange(4) + 2 * column + offset[:, row, column, 1]
            places = torch.stack([across, down], -1)
            part = sample(x.reshape(4, 2, 5, 6), places, "zeros")
            columns.append(part * mask[:, row, column][:, None])
    columns = torch.stack(columns, 2).reshape(2, 2, 12, 12)
    y = torch.einsum("goc,ngcp->ngop", w.reshape(2, 2, 12), columns)
    return y.reshape(2, 4, 3, 4) + b[:, None, None]


# A matrix of rank 3, whose gradient does not follow from its inverse.
SINGULAR = torch.tensor([[1, 2, 0, -1], [0, 1, 3, 2], [2, -1, 1, 1], [3, 2, 4, 2]],
                        dtype=torch.float64)  # fmt: skip


def add_permutations(x):
    """The determinant by its definition."""
    size, total = x.shape[-1], 0
    for order in itertools.permutations(range(size)):
        pairs = itertools.combinations(order, 2)
        swaps = sum(i > j for i, j in pairs)
        term = torch.stack([x[..., i, order[i]] for i in range(size)]).prod(0)
        total = total + (-1) ** swaps * term
    return total


@case((2, 3, 3), SINGULAR)
def determinants(x, y):
    return torch.cat([add_permutations(x), add_permutations(y)[None]])


@case((2, 9), (4,))
def frames(x, window):
    y = torch.stft(x, 4, 3, window=window, center=False, return_complex=True)
    return torch.view_as_real(y).transpose(1, 2)


@case((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3))
def modified_attention(q, k, v):
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = torch.tanh(q @ k.transpose(2, 3) / 2 / 1.5) * 1.5
    weights = torch.softmax(scores, 3)
    return weights * weights @ v


def main() -> None:
    results = {}
    for name, (function, shapes, others) in CASES.items():
        torch.manual_seed(len(name))
        tensors = [
            x if isinstance(x, torch.Tensor) else torch.randn(x, dtype=torch.float64)
            for x in shapes
        ]
        for tensor in tensors:
            tensor.requires_grad_()
        y = function(*tensors, *others.values())
        weights = torch.linspace(-1.0, 1.5, y.numel(), dtype=torch.float64)
        weights = weights.reshape(y.shape)
        gradients = torch.autograd.grad((y * weights).sum(), tensors)
        record = lambda x: {"shape": list(x.shape), "values": x.flatten().tolist()}  # noqa: E731
        results[name] = {
            "inputs": [record(x.detach()) for x in tensors],
            "others": {key: record(value) for key, value in others.items()},
            "y": record(y.detach()),
            "gradients": [record(x) for x in gradients],
        }
    path = pathlib.Path(__file__).with_name("adjoints.json")
    lines = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in results.items())
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
