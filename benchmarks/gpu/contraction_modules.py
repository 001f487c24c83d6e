"""Writes modules of attention, of heads with their loss and of FP8 matmuls: each a step of one
of them, in the ops that models consist of when they reach the phase `kernels`. Operands and
results are ports.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from cases import Case, Sizes
from updates import port

PROGRAMS = ("--from=programs",)


def tensor(element: str, *shape: int) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


@dataclasses.dataclass(frozen=True)
class Contraction(Case):
    options: tuple[str, ...] = PROGRAMS
    # Whether libraries can compute it by another algorithm than Binade's kernels, so that
    # both are measured; goals of the library's row.
    library_peers: dict[str, float | None] | None = None

    def count_flops(self) -> float:
        """Returns the multiplications and additions of the matmuls."""
        raise NotImplementedError

    def make_row(self, ms: float) -> dict:
        row = {"name": self.name, "title": self.title, "ms": round(ms, 4)}
        if flops := self.count_flops():
            row |= {"flops": flops, "tflops": round(flops / ms / 1e9, 1)}
        return row

    def shrink(self) -> Contraction:
        """Returns the case in a size that a simulator can run."""
        raise NotImplementedError

    def list_inputs(self) -> dict[tuple[str, str], tuple[str, tuple[int, ...]]]:
        """Returns the element type and shape of each input, by its role and name."""
        raise NotImplementedError

    def list_outputs(self) -> dict[tuple[str, str], str]:
        """Returns the type of each output, by its role and name."""
        raise NotImplementedError

    def write_body(self) -> Iterator[str]:
        """Yields the ops. Values are named after their ports."""
        raise NotImplementedError

    def write(self, path: pathlib.Path, sizes: Sizes | None = None) -> None:
        arguments = [
            f"%{name}: {tensor(element, *shape)} {port(role, name)}"
            for (role, name), (element, shape) in self.list_inputs().items()
        ]
        outputs = self.list_outputs()
        results = [f"{kind} {port(*key)}" for key, kind in outputs.items()]
        body = "".join(f"  {op}\n" for op in self.write_body())
        values = ", ".join(f"%{name}" for _, name in outputs)
        path.write_text(
            f"func.func @step({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
            f"{body}  return {values} : {', '.join(outputs.values())}\n}}\n"
        )


@dataclasses.dataclass(frozen=True)
class Attention(Contraction):
    """Causal attention, forward or backward, of heads that share keys and values in groups."""

    shape: tuple[int, int, int, int, int] = (1, 1, 1, 1, 1)
    isBackward: bool = False

    @property
    def queries(self) -> tuple[int, ...]:
        batch, heads, _, rows, columns = self.shape
        return batch, heads, rows, columns

    @property
    def keys(self) -> tuple[int, ...]:
        batch, _, groups, rows, columns = self.shape
        return batch, groups, rows, columns

    def count_flops(self) -> float:
        """The causal mask leaves half of the scores. The backward pass has five matmuls."""
        batch, heads, _, rows, columns = self.shape
        return (5 if self.isBackward else 2) * batch * heads * rows * rows * columns

    def shrink(self) -> Attention:
        _, heads, groups, _, columns = self.shape
        return dataclasses.replace(self, shape=(1, heads // groups, 1, 32, columns))

    def split(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns a shape of queries or keys as the op has it: heads that share keys have an
        axis of their own, along which there is one key."""
        batch, heads, groups, _, _ = self.shape
        if heads == groups:
            return shape
        return batch, groups, shape[1] // groups, *shape[2:]

    def list_inputs(self):
        query, key = self.split(self.queries), self.split(self.keys)
        inputs = {"q": query, "k": key, "v": key}
        if self.isBackward:
            inputs |= {"y": query, "dy": query}
        made = {("buffer", name): ("bf16", shape) for name, shape in inputs.items()}
        if self.isBackward:
            made["buffer", "lse"] = ("f32", query[:-1])
        return made

    def list_outputs(self):
        query, key = self.split(self.queries), self.split(self.keys)
        names = {"dq": query, "dk": key, "dv": key} if self.isBackward else {"y": query}
        made = {("output", name): tensor("bf16", *size) for name, size in names.items()}
        if not self.isBackward:
            made["output", "lse"] = tensor("f32", *query[:-1])
        return made

    def write_body(self):
        names = (
            ["dy", "q", "k", "v", "y", "lse"] if self.isBackward else ["q", "k", "v"]
        )
        inputs = {
            name: tensor(element, *shape)
            for (_, name), (element, shape) in self.list_inputs().items()
        }
        results = {f"%{name}": kind for (_, name), kind in self.list_outputs().items()}
        op = "attention_grad" if self.isBackward else "attention"
        yield (
            f"{', '.join(results)} = binade.{op} {', '.join(f'%{name}' for name in names)} "
            f"{{scale = {self.shape[-1] ** -0.5}, causal}} : "
            f"({', '.join(inputs[name] for name in names)}) -> ({', '.join(results.values())})"
        )


@dataclasses.dataclass(frozen=True)
class Loss(Contraction):
    """Cross-entropy of logits in bf16, and its gradient."""

    rows: int = 0
    vocabulary: int = 0
    passes: int = 2  # The gradient reads the logits again.

    def count_flops(self) -> float:
        return 0

    def shrink(self) -> Loss:
        return dataclasses.replace(self, rows=64, vocabulary=128)

    def list_inputs(self):
        return {
            ("buffer", "logits"): ("bf16", (self.rows, self.vocabulary)),
            ("batch", "labels"): ("i64", (self.rows,)),
        }

    def list_outputs(self):
        gradient = tensor("bf16", self.rows, self.vocabulary)
        return {("metric", "loss"): tensor("f32"), ("output", "dlogits"): gradient}

    def write_body(self):
        """As autodiff and a policy for bf16 leave them, without the marks of saved values."""
        logits, wide, row, labels = (
            tensor(element, *shape)
            for element, shape in (
                ("bf16", (self.rows, self.vocabulary)),
                ("f32", (self.rows, self.vocabulary)),
                ("f32", (self.rows,)), ("i64", (self.rows,)),
            )
        )  # fmt: skip
        ignore = "ignore_index = -100 : i64"
        scalar = tensor("f32")
        yield f"%wide = binade.cast %logits : ({logits}) -> {wide}"
        yield (
            f"%losses, %maximum, %logarithm = binade.cross_entropy %wide, %labels {{{ignore}}}"
            f" : ({wide}, {labels}) -> ({row}, {row}, {row})"
        )
        yield f"%sum = binade.reduce_sum %losses {{axes = array<i64: 0>}} : ({row}) -> {scalar}"
        yield f"%mean = binade.label_weight %labels {{{ignore}}} : ({labels}) -> {scalar}"
        yield f"%loss = binade.mul %sum, %mean : ({scalar}, {scalar}) -> {scalar}"
        yield f"%each = binade.broadcast %mean {{axes = array<i64>}} : ({scalar}) -> {row}"
        yield (
            "%gradient = binade.cross_entropy_grad %each, %wide, %labels, %maximum, %logarithm "
            f"{{{ignore}}} : ({row}, {wide}, {labels}, {row}, {row}) -> {wide}"
        )
        yield f"%dlogits = binade.cast %gradient : ({wide}) -> {logits}"


@dataclasses.dataclass(frozen=True)
class Head(Loss):
    """A language model's head with its loss, forward and backward."""

    width: int = 0

    def count_flops(self) -> float:
        return 6 * self.rows * self.width * self.vocabulary

    def shrink(self) -> Head:
        return dataclasses.replace(self, rows=64, width=32, vocabulary=128)

    def list_inputs(self):
        return {
            ("buffer", "x"): ("bf16", (self.rows, self.width)),
            ("buffer", "w"): ("bf16", (self.vocabulary, self.width)),
            ("batch", "labels"): ("i64", (self.rows,)),
        }

    def list_outputs(self):
        return {
            ("metric", "loss"): tensor("f32"),
            ("output", "dx"): tensor("bf16", self.rows, self.width),
            ("output", "dw"): tensor("f32", self.vocabulary, self.width),
        }

    def write_body(self):
        x = tensor("bf16", self.rows, self.width)
        w = tensor("bf16", self.vocabulary, self.width)
        logits = tensor("bf16", self.rows, self.vocabulary)
        yield f"%logits = binade.matmul %x, %w {{transpose_rhs}} : ({x}, {w}) -> {logits}"
        yield from super().write_body()
        yield f"%dx = binade.matmul %dlogits, %w : ({logits}, {w}) -> {x}"
        yield f"%dw0 = binade.matmul %dlogits, %x {{transpose_lhs}} : ({logits}, {x}) -> {w}"
        yield f"%dw = binade.cast %dw0 : ({w}) -> {tensor('f32', self.vocabulary, self.width)}"


@dataclasses.dataclass(frozen=True)
class ScaledMatmul(Contraction):
    """An FP8 matmul of quantized operands with a scale per tensor, as of a linear layer."""

    rows: int = 0
    columns: int = 0
    terms: int = 0

    def count_flops(self) -> float:
        return 2 * self.rows * self.columns * self.terms

    def shrink(self) -> ScaledMatmul:
        return dataclasses.replace(self, rows=48, columns=32, terms=64)

    def list_inputs(self):
        return {
            ("buffer", "x"): ("f8E4M3FN", (self.rows, self.terms)),
            ("buffer", "x_scale"): ("f32", ()),
            ("buffer", "w"): ("f8E4M3FN", (self.columns, self.terms)),
            ("buffer", "w_scale"): ("f32", ()),
        }

    def list_outputs(self):
        return {("output", "y"): tensor("bf16", self.rows, self.columns)}

    def write_body(self):
        form = "#binade.quantized<f8E4M3FN, per_tensor, scale = f32>"
        wide = {}
        for name, rows in (("x", self.rows), ("w", self.columns)):
            wide[name] = tensor("bf16", rows, self.terms)
            yield (
                f"%{name}_wide = binade.dequantize %{name}, %{name}_scale {{format = {form}}} : "
                f"({tensor('f8E4M3FN', rows, self.terms)}, {tensor('f32')}) -> {wide[name]}"
            )
        yield (
            f"%y = binade.matmul %x_wide, %w_wide {{transpose_rhs}} : "
            f"({wide['x']}, {wide['w']}) -> {tensor('bf16', self.rows, self.columns)}"
        )
