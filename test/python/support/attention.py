"""Attention with masks, biases, a soft cap and dropout: modules, operands, and PyTorch's
results."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from support.philox import draw_uniform
from support.reference import BF16, type_of

F32 = np.float32
RANDOM = np.array([5, 3])  # Seed and step.
STREAM = 7


@dataclasses.dataclass
class Example:
    """`shape` is that of the queries; there are as many keys unless `keys` says another
    number, and `shared` heads of them. Biases and mask are given by their shapes."""

    shape: tuple[int, ...]
    keys: int = 0
    biases: tuple[tuple[int, ...], ...] = ()
    mask: tuple[int, ...] | None = None
    ratio: float = 0.0
    softcap: float = 0.0
    fill: float = -np.inf
    causal: bool = False
    shared: bool = False
    zero_hidden: bool = False
    scale: float = 0.4

    def key_shape(self):
        *leading, queries, width = self.shape
        if self.shared:
            leading[-1] = 1
        return (*leading, self.keys or queries, width)

    def scores_shape(self):
        return (*self.shape[:-1], self.key_shape()[-2])

    def draw(self, dtype=F32, seed=0):
        """Query, key, value, gradient, biases, and the mask, by name. Every query sees a
        key."""
        random = np.random.default_rng(seed)

        def normal(shape):
            return random.standard_normal(shape).astype(dtype)

        made = {"q": normal(self.shape), "k": normal(self.key_shape()),
                "v": normal(self.key_shape()), "d": normal(self.shape)}  # fmt: skip
        for index, shape in enumerate(self.biases):
            made[f"b{index}"] = random.standard_normal(shape).astype(F32)
        if self.mask:
            made["m"] = random.random(self.mask) < 0.6
            made["m"][..., 0] = True
        if self.ratio:
            made["r"] = RANDOM
        return made

    def attributes(self):
        text = f"scale = {self.scale} : f64"
        if self.softcap:
            text += f", softcap = {self.softcap} : f64"
        if np.isfinite(self.fill):
            text += f", fill = {self.fill:.6e} : f64"
        if self.ratio:
            text += f", ratio = {self.ratio} : f64, stream = {STREAM} : i64"
        return text + ", causal" * self.causal + ", zero_hidden" * self.zero_hidden

    def module(self, operands):
        """A function that returns the result, `lse`, and the gradients."""
        types = {name: type_of(array) for name, array in operands.items()}
        types["l"] = type_of(np.zeros(self.shape[:-1], F32))
        biases = [f"b{index}" for index in range(len(self.biases))]
        extras = [*biases, *(name for name in "mr" if name in operands)]
        text = f" biases({', '.join('%' + name for name in biases)})" if biases else ""
        text += " mask(%m)" * ("m" in operands) + " rng(%r)" * ("r" in operands)
        text += f" {{{self.attributes()}}}"

        def join(names):
            return ", ".join(types[name] for name in names)

        inputs = ["q", "k", "v", *extras]
        arguments = ", ".join(f"%{name}: {types[name]}" for name in operands)
        results = join(["q", "l", "q", "k", "v", *biases])
        count = 3 + len(biases)
        gradients = ", ".join(f"%g#{index}" for index in range(count))
        return f"""
func.func @f({arguments}) -> ({results}) {{
  %y, %l = binade.attention %q, %k, %v{text} : ({join(inputs)}) -> ({join("ql")})
  %g:{count} = binade.attention_grad %d, %q, %k, %v, %y, %l{text}
    : ({join(["q", "q", "k", "v", "q", "l", *extras])}) -> ({join(["q", "k", "v", *biases])})
  return %y, %l, {gradients} : {results}
}}
"""

    def kept(self):
        """Where `binade.dropout` keeps elements of a tensor of the shape of the scores."""
        shape = self.scores_shape()
        uniform = draw_uniform(np.prod(shape), *map(int, RANDOM), STREAM)[0]
        return uniform.reshape(shape) >= self.ratio

    def expect(self, operands):
        """Result, `lse` and gradients by PyTorch in f64."""
        wide = {name: torch.from_numpy(array.astype(np.float64)).requires_grad_()
                for name, array in operands.items() if name not in "mr"}  # fmt: skip
        scores = self.scale * wide["q"] @ wide["k"].transpose(-1, -2)
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        for index in range(len(self.biases)):
            scores = scores + wide[f"b{index}"]
        if "m" in operands:
            scores = scores.masked_fill(~torch.from_numpy(operands["m"]), self.fill)
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        p = torch.softmax(scores, -1)
        if self.ratio:
            p = torch.where(torch.from_numpy(self.kept()), p / (1 - self.ratio), 0.0)
        y = p @ wide["v"]
        names = [name for name in wide if name != "d"]
        gradients = torch.autograd.grad(y, [wide[n] for n in names], wide["d"])
        lse = torch.logsumexp(scores, -1)
        return [value.detach().numpy() for value in (y, lse, *gradients)]


TINY, SOME, MANY, LONG = (2, 3, 5, 8), (2, 3, 20, 8), (9, 2, 24, 4), (1, 1, 512, 4)
WIDE = (3, 4, 160, 4)  # One sample has more scores than a tile.
EXAMPLES = {
    "padding": Example(SOME, 7, mask=(2, 1, 1, 7)),
    "padding_of_many": Example(MANY, mask=(9, 1, 1, 24)),
    "mask_per_sample": Example(WIDE, mask=(3, 1, 160, 160)),
    "mask_per_query": Example(LONG, mask=(1, 1, 512, 512), fill=-1e9),
    "bias_per_head": Example(WIDE, biases=((1, 4, 160, 160),)),
    "bias_of_many": Example(MANY, biases=((1, 2, 24, 24),), mask=(9, 1, 1, 24)),
    "bias_per_query": Example(LONG, biases=((1, 1, 512, 1), (1, 1, 1, 512))),
    "bias_of_all": Example(SOME, biases=((1, 1, 1, 1), (2, 3, 20, 20))),
    "three_biases": Example(TINY, 6, biases=((1, 3, 5, 6), (2, 1, 1, 6), (2, 1, 5, 6))),
    "matrix": Example((5, 8), 7, biases=((1, 7), (5, 7)), mask=(1, 7)),
    "joined_heads": Example((6, 20, 8), biases=((6, 1, 20), (1, 20, 20))),
    "softcap": Example(SOME, softcap=1.5, causal=True),
    "softcap_and_bias": Example(SOME, softcap=0.5, biases=((2, 1, 1, 20),)),
    "dropout": Example(SOME, ratio=0.3, causal=True),
    "dropout_in_tiles": Example(WIDE, ratio=0.1),
    "dropout_of_many": Example(MANY, ratio=0.5, mask=(9, 1, 1, 24)),
    "dropout_by_queries": Example(LONG, ratio=0.25, biases=((1, 1, 1, 512),)),
    "groups": Example((2, 2, 3, 20, 8), shared=True, ratio=0.2, softcap=2.0,
                      biases=((1, 2, 3, 20, 20), (2, 1, 1, 1, 20)),
                      mask=(2, 1, 1, 20, 20)),
}  # fmt: skip
HALF = ("padding", "bias_per_head", "softcap_and_bias", "dropout", "groups")
DTYPES = [*((name, F32) for name in EXAMPLES), *((name, BF16) for name in HALF)]
