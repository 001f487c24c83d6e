"""Optimizer rules read from their files, and modules of one update."""

import re

import numpy as np
from support.paths import ROOT
from support.reference import tensor_type

RULES = ROOT / "lib/Optimizer/Rules"
F32 = np.float32


class Rule:
    """The states, settings and formulas of a rule file."""

    def __init__(self, name):
        self.name = name
        self.text = (RULES / f"{name}.mlir").read_text()
        settings = r"%s = \[(.*?)\][,}\n ]*(?:hypers|kinds|others|variants|\}|\n)"
        self.states = self._names(settings % "states")
        self.hypers = self._names(settings % "hypers")
        scalars = re.search(
            rf"@{name}\.scalars\(.*?->\s*(\(.*?\)|f64)", self.text, re.S
        )
        self.scalars = scalars[1].count("f64")

    def _names(self, pattern):
        found = re.search(pattern, self.text, re.S)
        return re.findall(r'"(\w+)"', found[1])

    @property
    def prepares(self):
        """Names of the forms of `prepare`: "" for the unnamed form."""
        pattern = rf"private @{self.name}\.prepare(?:\.([\w.]+))?\(\s*%p"
        return [form or "" for form in re.findall(pattern, self.text)]

    def state_shapes(self, shape, form):
        """Shapes of a parameter's states, some of which have one value per row or column."""
        if form is None:
            return [shape] * len(self.states)
        name = f"prepare.{form}" if form else "prepare"
        arguments = re.search(
            rf"func private @{self.name}\.{name}\((.*?)\)\s*->", self.text, re.S
        )[1]
        kinds = re.findall(r"!(\w+)", arguments)[2 : 2 + len(self.states)]
        rows, columns = shape[:1], (int(np.prod(shape[1:])),)
        return [
            {"rows": rows, "columns": columns, "number": ()}.get(kind, shape)
            for kind in kinds
        ]

    def write_scalars(self, hypers):
        """Lines that compute `%k`, the scalars of the step number `%step`."""
        assert len(hypers) == len(self.hypers), self.hypers
        lines = [
            f"  %h{i} = binade.constant dense<{h:.17e}> : tensor<f64>"
            for i, h in enumerate(hypers)
        ]
        names = ", ".join(["%step"] + [f"%h{i}" for i in range(len(hypers))])
        types = ", ".join(["tensor<i64>"] + ["tensor<f64>"] * len(hypers))
        results = ", ".join(["tensor<f32>"] * self.scalars)
        lines.append(
            f"  %k:{self.scalars} = binade.optimizer_scalars @{self.name}({names})"
        )
        return "\n".join([*lines, f"    : ({types}) -> ({results})"])


def update_module(
    rule, hypers, shape, kept=None, form=None, parameter="f32", master=None,
    factors=0, skip=False,
):  # fmt: skip
    """`@step(p, g, step, s0..., f0..., skip) -> (p, s0...)` for one parameter of `shape`,
    an int or tuple. `kept` has a format per state, or None for f32; a quantized state `s0`
    has the parts `s0.0`, `s0.1`... `master` is the kind of companion, which is the last
    state, and its element type. `form` names the rule's `prepare`, "" the unnamed one. A
    form that ends in "shrink" uses `update.shrink`, which reacts to gradients that are not
    finite and draws from `seed` and `place`."""
    rule = Rule(rule)
    draws = (form or "").endswith("shrink")
    if draws:
        plain = rf"func.func private @{rule.name}\.update\(.*?\n}}\n"
        rule.text = re.sub(plain, "", rule.text, flags=re.S)
        rule.text = rule.text.replace(".update.shrink(", ".update(")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    p, g, scalar = tensor_type(shape, parameter), tensor_type(shape, F32), "tensor<f32>"
    states = []
    shapes = rule.state_shapes(shape, form)
    for index, (own, how) in enumerate(zip(shapes, kept or [None] * len(shapes))):
        if how is None:
            states.append((f"s{index}", tensor_type(own, F32)))
            continue
        for part, (count, element) in enumerate(how.parts(int(np.prod(own)))):
            size = own if part == 0 and count == np.prod(own) else (count,)
            states.append((f"s{index}.{part}", tensor_type(size, element)))
    attributes = []
    if any(kept or []):
        formats = ", ".join(how.attribute() if how else "unit" for how in kept)
        attributes.append(f"formats = [{formats}]")
    if form is not None:
        name = f"prepare.{form}" if form else "prepare"
        attributes.append(f"prepare = @{rule.name}.{name}")
    if master:
        attributes.append(f"master = #binade.master<{master[0]}>")
        if master[1]:
            states.append(("companion", tensor_type(shape, master[1])))
    more = [("step", "tensor<i64>"), *states]
    more += [(f"f{i}", scalar) for i in range(factors)]
    more += [("skip", "tensor<i1>")] * skip
    random = [("seed", "tensor<i64>"), ("place", "tensor<i64>")] * draws
    more += random

    def value(name):
        return "%" + name.replace(".", "_")

    def listed(word, names):
        return f" {word}({', '.join(names)})" if names else ""

    scalars = [f"%k#{i}" for i in range(rule.scalars)]
    update = f"@{rule.name} %p, %g" + "".join([
        listed("states", [value(name) for name, _ in states]),
        listed("scalars", scalars),
        listed("factors", [f"%f{i}" for i in range(factors)]),
        listed("skip", ["%skip"] * skip),
        listed("random", [value(name) for name, _ in random]),
    ])  # fmt: skip
    kinds = [p, g, *(kind for _, kind in states), *[scalar] * len(scalars)]
    kinds += [scalar] * factors + ["tensor<i1>"] * skip
    kinds += [kind for _, kind in random]
    arguments = ", ".join(
        f'{value(name)}: {kind} {{binade.name = "{name}"}}'
        for name, kind in [("p", p), ("g", g), *more]
    )
    results = [("p", p), *states]
    named = ", ".join(f'{kind} {{binade.name = "{name}"}}' for name, kind in results)
    plain = ", ".join(kind for _, kind in results)
    returned = ", ".join(f"%u#{i}" for i in range(len(results)))
    return f"""{rule.text}
func.func @step({arguments}) -> ({named}) {{
{rule.write_scalars(hypers)}
  %u:{len(results)} = binade.optimizer_update {update}
    {{{", ".join(attributes)}}} : ({", ".join(kinds)}) -> ({plain})
  return {returned} : {plain}
}}
"""
