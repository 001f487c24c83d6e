"""`binade.overrides` writes rules that keep ops wide, and policies with such rules."""

import json

import numpy as np
import pytest
import yaml
from binade import overrides
from binade.errors import RejectedError
from binade.units import make_units
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, write

OP = {"kind": "matmul", "node": "a[0]*{b}", "phase": "backward"}


def test_special_characters_of_globs_are_escaped(tmp_path):
    rule = overrides.keep_wide(OP)
    assert rule == {
        "match": {"name": r"a\[0]\*\{b\}", "phase": "backward"},
        "class": "deny",
    }
    path = tmp_path / "wide.yaml"
    overrides.write_policy(path, "bf16-amp", [rule], "Why.")
    assert yaml.safe_load(path.read_text())["rules"] == [rule]
    process = binade("policy", "show", path)
    assert process.returncode == 0, process.stderr


def test_rules_for_forward_and_backward_are_merged():
    forward = overrides.keep_wide(OP | {"phase": "forward"})
    backward, other = overrides.keep_wide(OP), overrides.keep_wide(OP | {"node": "c"})
    merged = overrides.merge_phases([forward, other, backward])
    assert merged == [{"match": {"name": r"a\[0]\*\{b\}"}, "class": "deny"}, other]


def test_a_policy_is_copied_with_the_files_it_extends(tmp_path):
    """Comments that name files in a cycle cause no endless loop, and files outside the
    policy's directory are not copied."""
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "sub").mkdir(parents=True)
    target.mkdir()
    (tmp_path / "outside.yaml").write_text("name: outside\n")
    (source / "top.yaml").write_text(
        "# See sub/base.yaml, ../outside.yaml and top.yaml.\n"
        "name: top\nextends: sub/base.yaml\n"
    )
    (source / "sub/base.yaml").write_text(
        "# Of top.yaml; base.yaml.\nname: base\nextends: bf16-amp\n"
    )
    assert overrides.copy_policy(str(source / "top.yaml"), target) == "top.yaml"
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.yaml")}
    assert files == {
        "outside.yaml", "from/top.yaml", "from/sub/base.yaml", "to/top.yaml",
        "to/sub/base.yaml",
    }  # fmt: skip
    assert binade("policy", "show", target / "top.yaml").returncode == 0
    assert overrides.copy_policy("bf16-amp", target) == "bf16-amp"


def test_a_policy_extends_only_files_below_its_directory(tmp_path):
    base = str(tmp_path / "policies/base.yaml")
    overrides.check_place(tmp_path / "fixed.yaml", base)
    with pytest.raises(RejectedError, match="extends files in its directory or below"):
        overrides.check_place(tmp_path / "other/fixed.yaml", base)


def test_one_rule_keeps_several_ops_wide(tmp_path):
    """`binade bisect` writes such a rule for a layer."""
    write(
        tmp_path, TWO_LAYERS, np.zeros((8, 8), F32), first=np.eye(8), second=np.eye(8)
    )
    nodes = [{"node": node, "phase": "forward"} for node in ("up", "down")]
    [unit] = make_units(nodes, lambda entry: ("layer", ""))
    overrides.write_policy(tmp_path / "wide.yaml", "bf16-amp", unit.rules())

    def explain(policy):
        process = binade("explain", tmp_path / "model.onnx", "--policy", policy, "--format",
                         "json")  # fmt: skip
        assert process.returncode == 0, process.stderr
        ops = json.loads(process.stdout)["ops"]
        return {o["name"]: o["format"] for o in ops
                if o["op"] == "matmul" and o["phase"] == "forward"}  # fmt: skip

    assert explain("bf16-amp") == {"up": "bf16", "down": "bf16"}
    assert explain(tmp_path / "wide.yaml") == {"up": "f32", "down": "f32"}
