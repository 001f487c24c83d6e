"""`binade convert` on every ONNX op in every operator set, by ONNX's node tests: the types of
inputs and outputs of each node must be allowed by its schema.

The helper `convert` checks each file with onnx.checker, with strict type inference, and loads
it in onnxruntime, with and without optimizations. onnxruntime's CPU lacks some kernels.
"""

import functools
from subprocess import TimeoutExpired

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper
from support.convert import (
    check_loads,
    collect_node_tests,
    convert,
    draw,
    find_types,
    is_valid,
    run,
)

NARROW = {"fp16-amp": TensorProto.FLOAT16, "autocast-onnx": TensorProto.FLOAT16,
          "bf16": TensorProto.BFLOAT16, "bf16-amp": TensorProto.BFLOAT16}  # fmt: skip
#: A fast run takes one of this many models.
SHARE = 60
FAULTS = (
    AssertionError, TimeoutExpired, onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)  # fmt: skip
#: Earlier operator sets have other broadcasting rules.
FIRST = 7


def list_versions(model):
    """Returns the operator sets in which an op of the model has a new schema."""
    own = max(s.version for s in model.opset_import if s.domain in ("", "ai.onnx"))
    ops = {node.op_type for node in model.graph.node if node.domain == ""}
    versions = {
        schema.since_version
        for schema in histories()
        if schema.name in ops and FIRST <= schema.since_version <= own
    }
    return sorted(versions | {own})


@functools.cache
def histories():
    return [s for s in defs.get_all_schemas_with_history() if s.domain == ""]


@functools.cache
def collect():
    """Returns models by name: those of ONNX's node tests, in all operator sets."""
    models = {}
    for case in collect_node_tests():
        if "_expanded" in case.name:
            continue
        sets = [s for s in case.model.opset_import if s.domain in ("", "ai.onnx")]
        for version in list_versions(case.model) if sets else []:
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            for opset in model.opset_import:
                if opset.domain in ("", "ai.onnx"):
                    opset.version = version
            models[f"{case.name}-{version}"] = model
    return models


def find_schema(model, node):
    version = max(s.version for s in model.opset_import if s.domain in ("", "ai.onnx"))
    return defs.get_schema(node.op_type, version, "")


def list_formals(formals, count):
    """Returns the formal parameter of each of `count` arguments."""
    return [formals[min(place, len(formals) - 1)] for place in range(count)]


def find_wide(model, narrow):
    """Returns the f32 inputs of nodes whose first output is narrow: formal names by op. Some may
    be f32, see `STAYS`."""
    types, found = find_types(model), {}
    for node in model.graph.node:
        if node.domain or node.op_type in ("Cast", "CastLike", "DequantizeLinear"):
            continue
        schema = find_schema(model, node)
        if types.get(node.output[0]) != narrow:
            continue
        for name, formal in zip(
            node.input, list_formals(schema.inputs, len(node.input))
        ):
            if name and types.get(name) == TensorProto.FLOAT:
                found.setdefault(node.op_type, set()).add(formal.name)
    return found


#: Inputs that stay in f32 next to narrow operands: constant sizes and positions, the
#: statistics of norms, and masks that are added to scores.
STAYS = {
    "Attention": {"attn_mask"},
    "BatchNormalization": {"scale", "B", "input_mean", "input_var", "mean", "var"},
    "Dropout": {"ratio"},
    "GridSample": {"grid"},
    "OneHot": {"indices", "depth"},
    "Pow": {"Y"},
    "QuantizeLinear": {"y_scale"},
    "Resize": {"roi", "scales"},
    "RMSNormalization": {"scale"},
    "Upsample": {"scales"},
}


def check(folder, names, policy):
    models, missing, wrong = collect(), {}, []
    for name in names:
        model = models[name]
        if not is_valid(model):
            continue
        try:
            converted, _ = convert(model, folder, policy)
            for op, inputs in find_wide(converted, NARROW[policy]).items():
                left = inputs - STAYS.get(op, set())
                assert not left, f"{op} reads {sorted(left)} in f32"
            lacks = check_loads(folder / "in.onnx", folder / "out.onnx")
        except FAULTS as error:
            wrong.append(f"{name}: {type(error).__name__} {str(error)[:300]}")
            continue
        if lacks:
            missing.setdefault(lacks[0].split(" : ")[-1][:60], []).append(name)
    assert not wrong, f"{len(wrong)} of {len(names)}\n" + "\n".join(wrong)
    return missing


@pytest.mark.parametrize("policy", NARROW)
def test_some_ops_have_valid_types(tmp_path, policy):
    shift = list(NARROW).index(policy)
    check(tmp_path, list(collect())[shift::SHARE], policy)


@pytest.mark.parametrize("policy", ["bf16", "bf16-amp"])
def test_functions_have_valid_bodies(tmp_path, policy):
    """onnxruntime executes the functions of these ops in bf16, for which it has no kernel. In
    some operator sets, a node in a function allows fewer types than the op."""
    names = [
        "test_sce_none-13", "test_sce_none_log_prob-13",
        "test_sce_NCd1d2d3d4d5_none_no_weight-13", "test_attention_4d_attn_mask_3d_causal-23",
        "test_attention_4d_diff_heads_mask4d_padded_kv-24",
    ]  # fmt: skip
    check(tmp_path, names, policy)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("policy", NARROW)
def test_all_ops_have_valid_types(tmp_path, policy, part):
    """onnxruntime lacks kernels only for bf16: it casts f16 to f32 where needed."""
    missing = check(tmp_path, list(collect())[part::8], policy)
    print(missing)
    if NARROW[policy] == TensorProto.FLOAT16:
        assert not missing


@pytest.mark.parametrize("policy", NARROW)
@pytest.mark.parametrize("mask", [None, "float", "bool"])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("version", [23, 24])
def test_attention_has_valid_types(tmp_path, policy, mask, cached, version):
    """Query and key share a type parameter; value and mask have their own."""
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, (1, 4, 16))]
    outputs = [info("y", TensorProto.FLOAT, (1, 4, 16))]
    read, made = ["q", "q", "v"], ["a"]
    if mask:
        read.append("mask")
        element = TensorProto.FLOAT if mask == "float" else TensorProto.BOOL
        inputs.append(info("mask", element, (4, 6 if cached else 4)))
    if cached:
        read += [""] * (4 - len(read)) + ["pk", "pv"]
        made += ["nk", "nv"]
        for name in read[4:]:
            inputs.append(info(name, TensorProto.FLOAT, (1, 2, 2, 8)))
        for name in made[1:]:
            outputs.append(info(name, TensorProto.FLOAT, (1, 2, 6, 8)))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Tanh", ["q"], ["v"]),
        helper.make_node("Attention", read, made, q_num_heads=2, kv_num_heads=2),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    weight = numpy_helper.from_array(draw(16, 16, scale=0.3), "w")
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    model.ir_version = 11
    converted, _ = convert(model, tmp_path, policy)
    types = find_types(converted)
    (attention,) = [n for n in converted.graph.node if n.op_type == "Attention"]
    for place, name in enumerate(attention.input):
        if name and place == 3:
            # A float mask is added to scores in f32.
            assert types[name] != NARROW[policy]
        elif name:
            assert types[name] == NARROW[policy], (place, name)
    assert find_attribute(attention, "softmax_precision") == TensorProto.FLOAT
    if NARROW[policy] != TensorProto.FLOAT16:
        return
    feeds = {
        value.name: draw(*[d.dim_value for d in value.type.tensor_type.shape.dim])
        for value in model.graph.input
    }
    if mask == "bool":
        feeds["mask"] = feeds["mask"] > -1
    exact, narrow = (run(tmp_path / f"{kind}.onnx", feeds) for kind in ("in", "out"))
    for name, value in exact.items():
        assert np.allclose(narrow[name], value, rtol=0.01, atol=0.01), name


def find_attribute(node, name):
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return None
