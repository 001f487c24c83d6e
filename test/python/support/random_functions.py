"""Random functions of elements, rows and groups."""

import random

import numpy as np
from support.reference import evaluate

F32 = np.float32
GROUPS = [4, 8, 16, 32]


class Function:
    """Builds a function op by op; `known` lists values by their shape. `of_rows` restricts
    reductions to rows and groups in rows."""

    def __init__(self, seed, of_rows=False):
        self.random, self.of_rows = random.Random(seed), of_rows
        self.group = self.random.choice(GROUPS)
        last = self.group * self.random.choice([1, 2, 3, 5])
        # Square shapes reveal code that confuses rows and columns.
        square = self.random.choice([(last,), (last // self.group,)])
        lead = self.random.choice(
            [(1,), (3,), (6,), (2, 8), (1, 4), (4, 4), square, square, square]
        )
        # Sizes of groups in a column, if any divides its length.
        self.high = self.random.choice(
            [n for n in (2, 3, 4, 8, lead[-1]) if not lead[-1] % n]
        )
        self.full = (*lead, last)
        self.rows, self.last = lead, (last,)
        self.groups = (*lead, last // self.group)
        self.blocks = (*lead[:-1], lead[-1] // self.high, last)
        self.known = {}
        self.lines, self.inputs, self.phase = [], [], ""
        for shape in (self.full, self.full, self.rows, self.last, self.groups):
            self.keep(f"%a{len(self.inputs)}", shape)
            self.inputs.append(shape)

    def keep(self, name, shape):
        self.known.setdefault(shape, []).append(name)

    def pick(self, shape):
        return self.random.choice(self.known[shape][-4:])

    @staticmethod
    def type(shape, element="f32"):
        return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

    def emit(self, op, operands, shape, attributes=""):
        """`operands`: pairs of name and shape."""
        name = f"%v{len(self.lines)}"
        types = ", ".join(self.type(s) for _, s in operands)
        attributes = ", ".join(filter(None, [attributes, self.phase]))
        self.lines.append(
            f"{name} = binade.{op} {', '.join(n for n, _ in operands)} "
            f"{{{attributes}}} : ({types}) -> {self.type(shape)}"
        )
        self.keep(name, shape)

    def add_elementwise(self):
        shape = self.random.choice([self.full, self.full, self.rows, self.groups])
        x, y = (self.pick(shape), shape), (self.pick(shape), shape)
        if self.random.random() < 0.3:
            self.emit(self.random.choice(["neg", "abs"]), [x], shape)
        else:
            self.emit(self.random.choice(["add", "sub", "max"]), [x, y], shape)

    def add_maximum(self):
        full, rank = self.full, len(self.full)
        axes = self.random.choice(
            [[rank - 1], [rank - 1], list(range(rank - 1)), list(range(1, rank))]
        )
        if self.of_rows:
            axes = [rank - 1]
        shape = tuple(full[axis] for axis in range(rank) if axis not in axes)
        attribute = f"axes = array<i64: {', '.join(map(str, axes))}>"
        self.emit("reduce_max", [(self.pick(full), full)], shape, attribute)

    def add_group_maximum(self):
        operand = (self.pick(self.full), self.full)
        self.emit("group_max", [operand], self.groups, f"size = {self.group}")

    def add_column_maximum(self):
        operand = (self.pick(self.full), self.full)
        self.emit("group_max", [operand], self.blocks, f"size = {self.high}, axis = -2")

    def add_broadcast(self):
        source = self.random.choice([self.rows, self.rows, self.last])
        target = self.random.choice([self.full, self.full, self.groups])
        places = range(len(target) - len(source) + 1)
        fits = [i for i in places if target[i : i + len(source)] == source]
        if not fits:
            return
        first = self.random.choice(fits)
        axes = ", ".join(str(first + i) for i in range(len(source)))
        operand = (self.pick(source), source)
        self.emit("broadcast", [operand], target, f"axes = array<i64: {axes}>")

    def add_quantized(self):
        count = int(np.prod(self.full))
        other = self.random.choice([g for g in GROUPS if self.last[0] % g == 0])
        granularities = [
            ("per_tensor", ()), ("per_row", self.rows),
            (f"per_group<{self.group}>", (count // self.group,)),
            (f"per_group<{other}>", (count // other,)),
            (f"per_block<1, {self.group}>", self.groups),
            (f"per_block<{self.high}, 1>", self.blocks),
            (f"per_block<{self.high}, 1>", self.blocks),
            (f"per_group<{self.group + 1}>", (-(-count // (self.group + 1)),)),
        ]  # fmt: skip
        if self.of_rows:
            granularities = granularities[1:4]
        granularity, scales = self.random.choice(granularities)
        rule = self.random.choice(["inverse_power", "round_up"])
        form = f"#binade.quantized<f8E4M3FN, {granularity}, scale = f32, rule = {rule}>"
        if rule == "round_up":
            form = form.replace("scale = f32", "scale = f8E8M0FNU")
        scale = self.type(scales, "f32" if rule == "inverse_power" else "f8E8M0FNU")
        wide, codes = self.type(self.full), self.type(self.full, "f8E4M3FN")
        name = f"%q{len(self.lines)}"
        phase = f", {self.phase}" if self.phase else ""
        self.lines.append(
            f"{name}:2 = binade.quantize {self.pick(self.full)} "
            f"{{format = {form}, saturate{phase}}} : ({wide}) -> ({codes}, {scale})"
        )
        back = f"%v{len(self.lines)}"
        self.lines.append(
            f"{back} = binade.dequantize {name}#0, {name}#1 {{format = {form}{phase}}} "
            f": ({codes}, {scale}) -> {wide}"
        )
        self.keep(back, self.full)

    def build(self):
        choices = [self.add_elementwise] * 4 + [self.add_broadcast] * 3
        choices += [self.add_maximum] * 2 + [self.add_quantized] * 2
        choices.append(self.add_group_maximum)
        choices.append(
            self.add_group_maximum if self.of_rows else self.add_column_maximum
        )
        for step in range(40):
            if step == 28:
                self.phase = "binade.phase = #binade.phase<backward>"
            self.random.choice(choices)()
        values = [
            (n, s) for s, names in self.known.items() for n in names if n[1] == "v"
        ]
        results = self.random.sample(
            values, min(len(values), self.random.randint(4, 16))
        )
        arguments = ", ".join(
            f"%a{i}: {self.type(s)}" for i, s in enumerate(self.inputs)
        )
        types = ", ".join(self.type(s) for _, s in results)
        body = "\n  ".join(self.lines)
        names = ", ".join(name for name, _ in results)
        return (
            f"func.func @f({arguments}) -> ({types}) {{\n  {body}\n"
            f"  return {names} : {types}\n}}"
        )


def check(seed, backend="cpu", **options):
    function = Function(seed, **options)
    module = function.build()
    generator = np.random.default_rng(seed)
    inputs = {
        f"arg{i}": generator.integers(-8, 9, shape).astype(F32)
        for i, shape in enumerate(function.inputs)
    }
    expected = evaluate(module, inputs, "--backend", "reference")
    got = evaluate(module, inputs, "--backend", backend)
    for name, value in expected.items():
        np.testing.assert_array_equal(
            got[name], value, f"seed {seed}, {name}\n{module}"
        )
