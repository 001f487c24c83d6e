#!/usr/bin/env python3
"""Writes which inputs and outputs of ONNX ops have one element type, and which types those
may be, as rows of a C++ table: onnx_schemas.py OUT. The facts are those of the package
`onnx`, whose schemas are the standard."""

from __future__ import annotations

import pathlib
import re
import sys

import onnx

TENSOR = re.compile(r"tensor\((\w+)\)")
VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
# How a schema writes the types whose TensorProto names differ.
NUMBERS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


def to_mask(types: list[str]) -> int:
    """A bit for each element type; what is no tensor has none."""
    found = (TENSOR.fullmatch(text) for text in types)
    return sum(1 << NUMBERS[match[1]] for match in found if match)


def find_same(schema: onnx.defs.OpSchema, allowed: dict[str, int]) -> dict[str, str]:
    """Types of outputs that nothing but an optional input determines, by the type that they
    have without it: of the inputs', the one with the same choice."""
    if any("type" in name or name in ("to", "value") for name in schema.attributes):
        return {}  # An attribute says which.
    given = [p.type_str for p in schema.inputs if p.option != OPTIONAL]
    free = {p.type_str for p in schema.outputs} & set(allowed) - set(given)
    return {
        name: other
        for name in free
        for other in given
        if allowed[name] and allowed[name] == allowed.get(other)
    }


def describe(schema: onnx.defs.OpSchema) -> str:
    allowed = {
        constraint.type_param_str: to_mask(constraint.allowed_type_strs)
        for constraint in schema.type_constraints
    }
    same = find_same(schema, allowed)
    kinds: dict[str, int] = {}

    def letters(parameters) -> str:
        text = ""
        for parameter in parameters:
            name = same.get(parameter.type_str, parameter.type_str)
            text += chr(ord("a") + kinds.setdefault(name, len(kinds)))
            if parameter.option == VARIADIC:
                text += "*" if parameter.is_homogeneous else "+"
        return text

    inputs, outputs = letters(schema.inputs), letters(schema.outputs)
    masks = ", ".join(hex(allowed.get(name, to_mask([name]))) for name in kinds)
    return (
        f'{{"{schema.domain}", "{schema.name}", {schema.since_version}, '
        f'"{inputs}", "{outputs}", {{{masks or 0}}}}},\n'
    )


def main() -> None:
    schemas = sorted(
        onnx.defs.get_all_schemas_with_history(),
        key=lambda schema: (schema.domain, schema.name, schema.since_version),
    )
    pathlib.Path(sys.argv[1]).write_text("".join(map(describe, schemas)))


if __name__ == "__main__":
    main()
