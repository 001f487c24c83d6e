"""Builds graphs and writes them as MLIR text."""

from __future__ import annotations

import dataclasses
import math
import random

PARAMETERS = 4000  # Weights beyond these are shared.
GROWTH = 3  # Sums and products in a row, before a value is bounded again.
BOUNDED = {
    "tanh", "sigmoid", "erf", "sin", "cos", "atan", "softmax", "layer_norm", "rms_norm",
    "batch_norm",
}  # fmt: skip
ROLES = ("parameter", "buffer", "rng", "batch")  # In the order of arguments.


@dataclasses.dataclass(slots=True)
class Value:
    name: str
    shape: tuple[int, ...]
    growth: int = 0
    element: str = "f32"
    count: int = 0  # Elements; 0 for none has asked.

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    @property
    def size(self) -> int:
        self.count = self.count or math.prod(self.shape)
        return self.count


def tensor_type(shape, element="f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def array(numbers) -> str:
    numbers = list(numbers)
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


class Graph:
    """A function under construction."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.arguments: dict[str, list[tuple[Value, str, str]]] = {r: [] for r in ROLES}
        self.results: list[tuple[Value, str, str]] = []
        self.weights: dict[tuple, list[Value]] = {}
        self.values: dict[tuple, list[Value]] = {}  # By shape, oldest first.
        self.unread: dict[str, Value] = {}
        self.read: set[str] = set()
        self.count = 0  # Of ops.

    # --- Values -------------------------------------------------------------

    def op(self, mnemonic, operands, shapes=None, attributes="", elements=None):
        """Adds an op; returns its result, or a list where `shapes` has several.

        `shapes` is one shape, or a list of them; by default the first operand's.
        """
        many = isinstance(shapes, list)
        shapes = shapes if many else [operands[0].shape if shapes is None else shapes]
        elements = elements or ["f32"] * len(shapes)
        growth = 0 if mnemonic in BOUNDED else max(v.growth for v in operands) + 1
        name = f"%v{self.count}"
        names = [f"{name}#{i}" for i in range(len(shapes))] if many else [name]
        results = [Value(*r, growth, e) for *r, e in zip(names, shapes, elements)]
        inputs = ", ".join(v.type for v in operands)
        outputs = ", ".join(r.type for r in results)
        self.lines.append(
            f"    {name}{f':{len(shapes)}' if many else ''} = binade.{mnemonic} "
            f"{', '.join(v.name for v in operands)} "
            f"{f'{{{attributes}}} ' if attributes else ''}: ({inputs}) -> "
            f'{f"({outputs})" if many else outputs} loc("{mnemonic}_{self.count}")'
        )
        self.count += 1
        for value in operands:
            self.unread.pop(value.name, None)
            self.read.add(value.name)
        if elements[0] == "f32":
            self.unread[results[0].name] = results[0]
            self.values.setdefault(shapes[0], []).append(results[0])
        return results if many else results[0]

    def constant(self, shape, text, element="f32"):
        value = Value(f"%v{self.count}", shape, 0, element)
        self.lines.append(
            f"    {value.name} = binade.constant dense<{text}> : {value.type} "
            f'loc("constant_{self.count}")'
        )
        self.count += 1
        return value

    def argument(self, role, shape, element="f32", name="", init=""):
        name = name or f"{role}.{len(self.arguments[role])}"
        value = Value(f"%{role}{len(self.arguments[role])}", shape, 0, element)
        self.arguments[role].append((value, name, init))
        return value

    def weight(self, *shape, scale=None, mean=0.0):
        """Returns a parameter, sometimes (1/8, or at the limit) an existing one."""
        known = self.weights.setdefault((shape, mean), [])
        full = len(self.arguments["parameter"]) >= PARAMETERS
        if known and (full or self.random.random() < 0.125):
            return self.random.choice(known)
        scale = scale or 1 / math.sqrt(math.prod(shape[1:]) or 1)
        init = f'#binade.random<"normal", {mean:.6e} : f64, {scale:.6e} : f64>'
        known.append(self.argument("parameter", shape, init=init))
        return known[-1]

    def other(self, x: Value) -> Value:
        """A value of the shape of `x`, which may be `x` itself."""
        return self.bounded(self.random.choice(self.values.get(x.shape) or [x]))

    def bounded(self, x: Value) -> Value:
        return self.op("tanh", [x]) if x.growth > GROWTH else x

    def positive(self, x: Value) -> Value:
        return self.op("add", [self.op("sigmoid", [x]), self.splat(x.shape, 0.25)])

    def splat(self, shape, number) -> Value:
        return self.constant(shape, f"{number:.6e}")

    def axis(self, x: Value) -> int:
        return self.random.randrange(len(x.shape))

    # --- The text -----------------------------------------------------------

    def render(self, out) -> None:
        def port(role, name, init=""):
            init = f"binade.init = {init}, " if init else ""
            return (
                f'{{{init}binade.name = "{name}", binade.role = #binade.role<{role}>}}'
            )

        arguments = ", ".join(
            f"{value.name}: {value.type} {port(role, name, init)}"
            for role in ROLES
            for value, name, init in self.arguments[role]
        )
        types = ", ".join(f"{v.type} {port(role, n)}" for v, role, n in self.results)
        out.write(f"module {{\n  func.func @forward({arguments}) -> ({types}) {{\n")
        out.write("\n".join(self.lines))
        values = ", ".join(value.name for value, _, _ in self.results)
        out.write(
            f"\n    return {values} : {', '.join(v.type for v, *_ in self.results)}"
        )
        out.write("\n  }\n}\n")
