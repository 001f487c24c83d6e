"""Rules of policies and `explain --op` that match no name say which names the model has."""

import re
import subprocess

import numpy as np
import pytest
from binade.shadow import select
from support.graphs import OPT
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, write

onnx = pytest.importorskip("onnx")

RANDOM = np.random.default_rng(11)
FIRST, SECOND = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
POLICY = """name: mine
extends: bf16-amp
rules:
- { match: { name: "NAME" }, class: deny }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write(
        folder, TWO_LAYERS, RANDOM.standard_normal((32, 8)), first=FIRST, second=SECOND
    )
    done = binade("import", folder / "model.onnx", "-o", folder / "model.mlir")
    assert done.returncode == 0, done.stderr
    (folder / "known.yaml").write_text(POLICY.replace("NAME", "u*"))
    (folder / "unknown.yaml").write_text(POLICY.replace("NAME", "blocks.1.*"))
    return folder


def refuse(code, words, *arguments):
    done = binade(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stderr.count("error: ") == 1


def test_names_of_rules_are_those_of_nodes(folder, tmp_path):
    """A module without locations says so, and another says what names there are."""
    bare = tmp_path / "bare.mlir"
    subprocess.run([OPT, folder / "model.mlir", "-o", bare], check=True, timeout=600)
    words = "rule matches no op of this model; 'optional: true' allows that; "
    for command in (
        ("explain", folder / "model.mlir", "--policy", folder / "unknown.yaml"),
        ("policy", "check", folder / "unknown.yaml", "--model", folder / "model.onnx"),
        ("compile", folder / "model.onnx", "--policy", folder / "unknown.yaml", "-o",
         tmp_path / "x.bnd"),
    ):  # fmt: skip
        refuse(3, words + "names look like 'up', 'act', 'down' (binade explain lists them)",
               *command)  # fmt: skip
    refuse(3, words + "the module has no node names: print it with --mlir-print-debuginfo",
           "explain", bare, "--policy", folder / "known.yaml")  # fmt: skip


def test_the_name_of_a_module_selects_its_ops(tmp_path):
    write(
        tmp_path, TWO_LAYERS, RANDOM.standard_normal((4, 8)), first=FIRST, second=SECOND
    )
    model = onnx.load(tmp_path / "model.onnx")
    for node, name in zip(model.graph.node, ("fc.0/up", "fc/act", "fc1/down")):
        node.name = name
    onnx.save(model, tmp_path / "model.onnx")
    done = binade("explain", tmp_path / "model.onnx", "--op", "fc")
    assert done.returncode == 0, done.stderr
    named = re.findall(r"^\w.*? at '(.*?)'", done.stdout, re.MULTILINE)
    assert set(named) == {"fc.0/up", "fc/act"}
    found = select(
        [{"node": node, "kind": "matmul", "phase": "forward"}
         for node in ("fc.0/up", "fc/act", "fc1/down")],
        "fc", [],
    )  # fmt: skip
    assert [entry["node"] for entry in found] == ["fc.0/up", "fc/act"]


def test_explain_suggests_names(folder):
    model = folder / "model.onnx"
    refuse(3, "no op or node is called 'mattmul'; did you mean 'matmul'?", "explain", model,
           "--op", "mattmul")  # fmt: skip
    refuse(3, "no op or node is called 'layers.*'; names look like 'up', 'act', 'down'",
           "explain", model, "--op", "layers.*")  # fmt: skip
