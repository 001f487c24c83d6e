"""`utils/check_names.py` finds types with equal names, and `utils/check_layers.py` finds
includes and links that violate the layers."""

import re

import pytest
from support.paths import ROOT
from support.sources import load, write


def test_names_of_types_are_unique():
    assert load("check_names").find_violations(ROOT) == []


def test_types_with_equal_names_are_found(tmp_path):
    shared = "namespace a {\nnamespace {{\n{}\n}}\nstruct {} : B {{\n}};\n}}\n"
    for name, own, common in (("x", "struct One {};", "Two"), ("y", "struct One {};", "Two"),
                              ("z", "", "Three")):  # fmt: skip
        text = shared.replace("namespace a {", "namespace a {{").format(own, common)
        write(tmp_path, f"lib/{name}.cpp", text)
    assert load("check_names").find_violations(tmp_path) == [
        "a::Two is defined in lib/x.cpp and lib/y.cpp"
    ]


def test_includes_and_links_follow_the_layers():
    assert load("check_layers").find_violations(ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "lib/Kernels/X.cpp",
            '\n#include "binade/Precision/Policy.h"\n',
            r"X.cpp:2: Kernels may not include Precision",
        ),
        (
            "include/binade/Runtime/X.h",
            '#include "llvm/ADT/SmallVector.h"\n',
            r"X.h:1: Runtime is free of MLIR, but has llvm/ADT/SmallVector.h",
        ),
        (
            "lib/Plan/X.cpp",
            "#include <mlir/IR/Operation.h>\n",
            r"Plan is free of MLIR, but has mlir/IR/Operation.h",
        ),
        (
            "include/binade/IR/Ops/X.td",
            'include "binade/Kernels/Passes.td"\n',
            r"X.td:1: IR may not include Kernels",
        ),
        (
            "lib/Autodiff/X.cpp",
            '#include "../Optimizer/Settings.h"\n',
            r"\.\./Optimizer/Settings.h leads out of Autodiff",
        ),
        ("lib/Stuff/X.cpp", "int x;\n", r"folder Stuff is not in utils/layers.txt"),
        (
            "lib/Import/CMakeLists.txt",
            "binade_library(BinadeImport SOURCES X.cpp LINKS BinadeAutodiff)\n",
            r"Import may not link BinadeAutodiff",
        ),
    ],
)
def test_a_violated_layer_is_found(tmp_path, name, text, expected):
    write(tmp_path, "utils/layers.txt", (ROOT / "utils/layers.txt").read_text())
    write(tmp_path, name, text)
    (violation,) = load("check_layers").find_violations(tmp_path)
    assert re.search(expected, violation)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("phase A:\nphase B: A\n", "layers.txt:2: B names A, which is a phase"),
        ("shared A: B\nshared B:\n", "layers.txt:1: A names B, not in a line above"),
        ("shared A:\nplain B: A\n", "layers.txt:2: B is plain, but A needs MLIR"),
        ("shared A:\nplain A:\n", "layers.txt:2: A stands here twice"),
        ("layer A:\n", "layers.txt:1: expected 'KIND FOLDER: FOLDER...': layer A:"),
    ],
)
def test_an_invalid_table_of_layers_is_rejected(tmp_path, table, expected):
    write(tmp_path, "utils/layers.txt", table)
    assert load("check_layers").find_violations(tmp_path) == [expected]
