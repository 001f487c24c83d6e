#!/usr/bin/env python3
"""Writes a C++ table of the signatures of ONNX ops.

usage: onnx_schemas.py OUT

A row lists which inputs and outputs share an element type, which types are allowed, how many
inputs and outputs a node has, and its attributes. The schemas are those of the package `onnx`.
"""

from __future__ import annotations

import pathlib
import re
import sys

import onnx

TENSOR = re.compile(r"tensor\((\w+)\)")
VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
# Types that are not f32, and that an op may compute in.
NARROW = [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16]
# How a schema writes the types whose TensorProto names differ.
NUMBERS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


def to_mask(types: list[str]) -> int:
    """A bit for each element type; a parameter that is not a tensor has none."""
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


def choose_type(types: list[str], wanted: int) -> onnx.TypeProto | None:
    """`wanted` if it is one of them, or f32, or any."""
    mask = to_mask(types)
    for number in (wanted, onnx.TensorProto.FLOAT):
        if mask >> number & 1:
            return onnx.helper.make_tensor_type_proto(number, None)
    if not mask:
        return None
    return onnx.helper.make_tensor_type_proto(mask.bit_length() - 1, None)


def is_body_valid(schema: onnx.defs.OpSchema, element: int) -> bool:
    """Whether the types of the function that defines the op fit together where its inputs
    are `element`: constants of another type may stand in it."""
    allowed = {
        constraint.type_param_str: list(constraint.allowed_type_strs)
        for constraint in schema.type_constraints
    }
    types = [
        choose_type(allowed.get(p.type_str, [p.type_str]), element)
        for p in schema.inputs
        if p.option != OPTIONAL
    ]
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    given = [value for value in defaults if value.type != onnx.AttributeProto.UNDEFINED]
    try:
        onnx.shape_inference.infer_function_output_types(
            schema.function_body, types, given
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, TypeError):
        return False
    return True


def find_refused(schema: onnx.defs.OpSchema) -> int:
    """A mask of the narrow types in which the op's function is invalid, though it is valid in
    f32."""
    if not schema.has_function or not is_body_valid(schema, onnx.TensorProto.FLOAT):
        return 0
    return sum(1 << type for type in NARROW if not is_body_valid(schema, type))


def describe_node(schema: onnx.defs.OpSchema) -> str:
    """How many inputs and outputs a node has, which inputs it needs, and its attributes."""
    presence = "".join(
        "o" if parameter.option == OPTIONAL else "r"
        for parameter in schema.inputs
        if parameter.option != VARIADIC
    )
    attributes = " ".join(
        f"{name}={attribute.type.value}{'!' if attribute.required else ''}"
        for name, attribute in sorted(schema.attributes.items())
    )
    counts = (schema.min_input, schema.max_input, schema.min_output, schema.max_output)
    return f'{", ".join(map(str, counts))}, "{presence}", "{attributes}"'


def describe(schema: onnx.defs.OpSchema) -> str:
    refused = find_refused(schema)
    allowed = {
        constraint.type_param_str: to_mask(constraint.allowed_type_strs) & ~refused
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
        f'"{inputs}", "{outputs}", {{{masks or 0}}}, {describe_node(schema)}}},\n'
    )


def main() -> None:
    schemas = sorted(
        onnx.defs.get_all_schemas_with_history(),
        key=lambda schema: (schema.domain, schema.name, schema.since_version),
    )
    pathlib.Path(sys.argv[1]).write_text("".join(map(describe, schemas)))


if __name__ == "__main__":
    main()
