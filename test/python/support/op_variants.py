"""Variants of the examples of ops: other formats of operands and results, decisions in every
format, and attributes of every wrong kind. Each is a module of its own."""

from __future__ import annotations

import bisect
import re
import subprocess

from support.graphs import OPT
from support.op_examples import SIMPLE, read, write

STORED = ["f64", "f32", "bf16", "f16", "f8E4M3FN", "f8E5M2", "f8E4M3", "f8E3M4", "f8E4M3FNUZ",
          "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E8M0FNU", "f4E2M1FN"]  # fmt: skip
# tf32 is a format of operands, f6 one of quantized elements; the others are LLVM's.
OTHERS = ["tf32", "f6E3M2FN", "f6E2M3FN", "f80", "f128"]
FORMATS = STORED + OTHERS
FLOAT = re.compile(
    r"(?:(?<=x)|(?<![\w#<]))(?:f64|f32|bf16|f16|f8E4M3FN|f8E5M2)(?=[,> ]|$)"
)
SEPARATOR = "// -----\n"
# Values of every kind of attribute, and numbers that are out of range for most.
VALUES = ["unit", "true", "-1 : i64", "0 : i64", "3 : i64", "9223372036854775807 : i64", "1 : i32",
          "-1.0 : f32", "0x7F800000 : f32", "0x7FC00000 : f32", '"x"', "@x", "f32", "f12", "[]",
          '["x"]', "[unit]", "array<i64>", "array<i64: -1>", "array<i64: 0>", "array<i64: 0, 0>",
          "array<i64: 99, 99>", "array<i64: 9223372036854775807, 1>", "array<i32: 1>", "{}",
          "dense<1> : tensor<2xi64>", "#binade.phase<backward>", "#binade.comparison<less>",
          "#binade.quantized<f8E4M3FN, per_tensor, scale = f32>",
          "#binade.precision<compute = f16, result = f16>"]  # fmt: skip


def vary_types(op: str, formats: list[str]):
    """The op with each format in each place of a float, and in all: pairs of a label and a
    module. Arguments and results of the function keep their formats: casts convert them."""
    types, separator, attributes = SIMPLE[op].partition(" {")
    places = list(FLOAT.finditer(types))
    seen = {types}
    for name in formats:
        for chosen in [*range(len(places)), None]:
            text = types
            for i, place in reversed(list(enumerate(places))):
                if chosen in (i, None):
                    text = text[: place.start()] + name + text[place.end() :]
            if text not in seen:
                seen.add(text)
                yield (
                    f"{op}: {text}",
                    _write_with_casts(op, types, text, separator + attributes),
                )


def _write_with_casts(op: str, outer: str, inner: str, attributes: str) -> str:
    (before, after), (operands, results) = (
        [[kind for kind, _ in read(side)] for side in text.split(" -> ")]
        for text in (outer, inner)
    )
    lines, values = [], []
    for i, (given, kind) in enumerate(zip(before, operands)):
        values.append(f"%arg{i}" if given == kind else f"%c{i}")
        if given != kind:
            lines.append(f"%c{i} = binade.cast %arg{i} : ({given}) -> {kind}")
    names = [f"%r{i}" for i in range(len(results))]
    lines.append(
        f"{', '.join(names)} = binade.{op} {', '.join(values)}{attributes} : "
        f"({', '.join(operands)}) -> ({', '.join(results)})"
    )
    for i, (kind, expected) in enumerate(zip(results, after)):
        if kind != expected:
            lines.append(f"%y{i} = binade.cast %r{i} : ({kind}) -> {expected}")
            names[i] = f"%y{i}"
    head = ", ".join(f"%arg{i}: {kind}" for i, kind in enumerate(before))
    body = "".join(f"  {line}\n" for line in lines)
    to = ", ".join(after)
    return f"func.func @f({head}) -> ({to}) {{\n{body}  return {', '.join(names)} : {to}\n}}\n"


def vary_decisions(op: str, formats: list[str]):
    """The op with a decision, in which each field has each format."""
    text, _ = write(op)
    count = SIMPLE[op].split(" -> ")[0].count(",") + 1
    wide = {"compute": "f32", "result": "f32"}
    for name in formats:
        for fields in (
            {"compute": name, "result": "f32"},
            {"compute": "f32", "result": name},
            {"compute": name, "result": name},
            {"compute": "f16", "accumulate": name, "result": "f16"},
            wide | {"operands": f"[{', '.join([name] * count)}]"},
            wide | {"operands": f"[{', '.join(['unit'] * (count - 1) + [name])}]"},
        ):
            decision = ", ".join(
                f"{field} = {value}" for field, value in fields.items()
            )
            yield f"{op}: {decision}", _decide(op, text, decision)
    for more in (
        "operands = []",
        f"operands = [{', '.join(['unit'] * (count + 1))}]",
        "operands = [#binade.quantized<f8E4M3FN, per_tensor, scale = f32>"
        + ", unit" * (count - 1) + "]",
        "clamp = <infinities>",
        "clamp = <tensor>",
    ):  # fmt: skip
        decision = f"compute = f16, result = f16, {more}"
        yield f"{op}: {decision}", _decide(op, text, decision)


def _decide(op: str, text: str, decision: str) -> str:
    attribute = f"precision = #binade.precision<{decision}>"
    if re.search(rf"binade\.{op} [^:{{]*{{", text):
        return re.sub(rf"(binade\.{op} [^:{{]*{{)", rf"\1{attribute}, ", text, count=1)
    return re.sub(rf"(binade\.{op} [^:]*?) *:", rf"\1 {{{attribute}}} :", text, count=1)


def print_generic(op: str) -> str:
    done = subprocess.run(
        [OPT, "--mlir-print-op-generic"],
        input=write(op)[0], capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout


def split_attributes(text: str) -> list[str]:
    """The attributes of a dictionary, without its braces."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<[{(") - (c in "]})" or (c == ">" and text[i - 1] != "-"))
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def vary_attributes(op: str):
    """The op in generic form, with each attribute of every kind, or left out."""
    text = print_generic(op)
    found = re.search(rf'"binade\.{op}"\([^)]*\) <{{(.*?)}}>(?= : | \({{)', text)
    if not found:
        return
    given = split_attributes(found[1])
    names = {part.split(" = ")[0] for part in given}
    for number, part in enumerate([*given, "precision"]):
        name = part.split(" = ")[0]
        if number == len(given) and name in names:
            continue
        for value in [None, *VALUES]:
            rest = [other for other in given if other.split(" = ")[0] != name]
            if value is not None:
                rest.append(f"{name} = {value}")
            changed = text[: found.start(1)] + ", ".join(rest) + text[found.end(1) :]
            yield f"{op}: {name} = {value}", changed


def find_errors(
    modules: list[str],
) -> tuple[subprocess.CompletedProcess, dict[int, list[str]]]:
    """Verifies all modules in one process; returns it and the errors of each module."""
    starts, text = [], ""
    for module in modules:
        starts.append(text.count("\n") + 1)
        text += module + SEPARATOR
    done = subprocess.run(
        [OPT, "--split-input-file", "-o", "/dev/null"],
        input=text, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    errors: dict[int, list[str]] = {}
    for line, message in re.findall(
        r"^<stdin>:(\d+):\d+: error: (.*)", done.stderr, re.MULTILINE
    ):
        number = bisect.bisect_right(starts, int(line)) - 1
        errors.setdefault(number, []).append(message)
    return done, errors
