"""Exports small models of Flax and Equinox, and trains them with JAX.

    PYTHONPATH=python python export.py DIRECTORY

writes for each model `<model>-jax2onnx.onnx` (`jax2onnx.to_onnx`), `<model>-binade.onnx`
(`binade.jax.export`) and `<model>.safetensors`: the parameters before and after three steps
of SGD, the batch and the losses. The files in this directory are the output of JAX 0.10.2,
Flax 0.12.8, Equinox 0.13.8 and jax2onnx 0.17.1.
"""

import sys
from pathlib import Path

import binade.jax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax2onnx
import numpy as np
from binade import safetensors
from flax import nnx

LR, STEPS = 0.1, 3


class Image(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.hidden = nnx.Linear(4, 8, rngs=rngs)
        self.head = nnx.Linear(8, 5, rngs=rngs)

    def __call__(self, image):
        hidden = self.dropout(nnx.relu(self.norm(self.conv(image))).mean((1, 2)))
        return self.head(nnx.relu(self.hidden(hidden)))


class Tagger(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.embedding = nnx.Embed(11, 8, rngs=rngs)
        self.cell = nnx.GRUCell(8, 6, rngs=rngs)
        self.head = nnx.Linear(6, 5, rngs=rngs)

    def __call__(self, tokens):
        hidden = jnp.swapaxes(self.embedding(tokens), 0, 1)
        state = jnp.zeros((hidden.shape[1], 6))
        _, states = jax.lax.scan(lambda h, x: self.cell(h, x), state, hidden)
        return self.head(jnp.swapaxes(states, 0, 1))


class Encoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.embedding = nnx.Embed(11, 8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.first = nnx.LayerNorm(8, rngs=rngs)
        self.up = nnx.Linear(8, 8, rngs=rngs)
        self.down = nnx.Linear(8, 8, rngs=rngs)
        self.second = nnx.LayerNorm(8, rngs=rngs)
        self.head = nnx.Linear(8, 5, rngs=rngs)

    def __call__(self, tokens):
        hidden = self.embedding(tokens)
        hidden = self.first(hidden + self.attention(hidden))
        hidden = self.second(hidden + self.down(nnx.gelu(self.up(hidden))))
        return self.head(hidden.mean(1))


MODULES = {"image": Image, "tagger": Tagger, "encoder": Encoder}


def make(name: str):
    """Returns a function of the parameters and the batch, and the parameters."""
    if name == "mlp":
        module = eqx.nn.MLP(6, 5, 8, 2, key=jax.random.key(0))
        parameters, static = eqx.partition(module, eqx.is_inexact_array)
        return lambda p, x: jax.vmap(eqx.combine(p, static))(x), parameters
    module = MODULES[name](nnx.Rngs(1))
    module.eval()
    definition, parameters, rest = nnx.split(module, nnx.Param, ...)
    return lambda p, x: nnx.merge(definition, p, rest)(x), parameters


def make_batch(name: str) -> tuple[np.ndarray, np.ndarray]:
    labels = np.array([0, 3, 4])
    if name in ("image", "mlp"):
        shape = (3, 6, 6, 3) if name == "image" else (3, 6)
        values = np.random.default_rng(8).standard_normal(shape)
        return values.astype(np.float32), labels
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4) % 11
    return tokens, tokens.astype(np.int64) % 5 if name == "tagger" else labels


def read(parameters, prefix: str) -> dict[str, np.ndarray]:
    named = binade.jax.name_parameters(parameters)
    return {f"{prefix}/{name}": np.asarray(value) for name, value in named.items()}


def train(name: str, function, parameters) -> dict[str, np.ndarray]:
    batch, labels = make_batch(name)

    def compute_loss(parameters):
        scores = jax.nn.log_softmax(function(parameters, batch))
        return -jnp.take_along_axis(scores, labels[..., None], -1).mean()

    values = read(parameters, "before")
    losses = []
    for _ in range(STEPS):
        loss, gradients = jax.value_and_grad(compute_loss)(parameters)
        parameters = jax.tree_util.tree_map(
            lambda value, gradient: value - LR * gradient, parameters, gradients
        )
        losses.append(np.asarray(loss))
    values |= read(parameters, "after")
    return values | {"batch": batch, "labels": labels, "losses": np.array(losses)}


def main() -> None:
    directory = Path(sys.argv[1])
    for name in [*MODULES, "mlp"]:
        function, parameters = make(name)
        generator = np.random.default_rng(7)
        parameters = jax.tree_util.tree_map(
            lambda value, generator=generator: (
                value + generator.standard_normal(value.shape).astype(np.float32) / 8
            ),
            parameters,
        )
        batch, _ = make_batch(name)
        binade.jax.export(
            function,
            parameters,
            {"batch": batch},
            directory / f"{name}-binade.onnx",
            outputs=["logits"],
        )
        jax2onnx.to_onnx(
            lambda x, f=function, p=parameters: f(p, x),
            [jax.ShapeDtypeStruct(batch.shape, batch.dtype)],
            return_mode="file",
            output_path=str(directory / f"{name}-jax2onnx.onnx"),
        )
        values = train(name, function, parameters)
        safetensors.save(directory / f"{name}.safetensors", values)


if __name__ == "__main__":
    main()
