"""Damaged or malicious policies and state formats. The numbers in names are those of the cases
in docs/Security.md."""

import os

import pytest
from support.hostile import refuse, run
from support.paths import ROOT

RULE = "name: x\nextends: bf16-amp\nrules:\n  - {{match: {}, {}}}\n"
POLICIES = {
    "54 op": (RULE.format("{op: matmull}", "class: deny"), "p.yaml:4:18: error: no op whose format can be chosen is called 'matmull'; did you mean 'matmul'?"),
    "55 contradiction": (RULE.format("{op: matmul}", "class: deny") + "  - {match: {op: matmul}, class: allow}\n", "p.yaml:5:6: error: matches the same ops as the rule at"),
    "56 integer": (RULE.format("{op: matmul}", "compute: i8"), "p.yaml:4:"),
    "57 twice": ("name: x\nname: y\n", "p.yaml:2:1: error: key 'name' is repeated"),
    "57 nan": ("name: x\nextends: fp16-amp\nloss_scale: {init: .nan}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 large number": ("name: x\nextends: fp16-amp\nloss_scale: {init: 1e999}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 alias": ("name: &a x\nextends: *a\n", "p.yaml:"),
    "57 bomb": ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "p.yaml:"),
    "57 alias of a list": ("name: x\nrules: &r\n  - {match: {op: matmul}, class: deny}\nmore: *r\n", "p.yaml:"),
    "57 key twice in a rule": (RULE.format("{op: matmul, op: exp}", "class: deny"), "p.yaml:4:"),
    "57 negative infinity": ("name: x\nextends: fp16-amp\nloss_scale: {init: -1e999}\n", "p.yaml:3:20: error: expected a number above 0"),
    "57 utf-16 without a mark": ("name: x\n".encode("utf-16-be"), "p.yaml:1:"),
    "57 directive": ("name: x\nextends: bf16-amp\n% a\n", "p.yaml:3:1: error: a line that begins with '%' is a YAML directive"),
    "57 directive for a value": ("name: x\nrules:\n%a b\n", "p.yaml:3:1: error: a line that begins with '%' is a YAML directive"),
    "57 directive after the end": ("name: x\n...\n%a b\n", "p.yaml:3:1: error: a line that begins with '%' is a YAML directive"),
    "57 mapping broken off": (b"rules:\n- {a\n# \x98\n", "p.yaml:3:3: error: Got empty plain scalar"),
    "57 9 MiB": ("#" * (9 << 20), "p.yaml"),
    "57 utf-16": ("name: x\n".encode("utf-16"), "p.yaml:1:"),
    "57 nul": (b"name: x\0\n", "p.yaml:1:"),
    "57 deep": ("name: " + "[" * 100_000, "p.yaml:"),
    "34 extends outside": ("name: x\nextends: ../base.yaml\n", "p.yaml:2:10: error: cannot read policy file"),
    "34 extends absolute": ("name: x\nextends: {base}\n", "p.yaml:2:10: error: cannot read policy file"),
    "34 extends link": ("name: x\nextends: link.yaml\n", "a component of the path is a symbolic link"),
    "34 extends itself": ("name: x\nextends: p.yaml\n", "policy extends itself"),
}  # fmt: skip


@pytest.mark.parametrize("case", POLICIES)
def test_54_to_57_policy(case, tmp_path):
    base, folder = tmp_path / "base.yaml", tmp_path / "own"
    base.write_text("name: base\nextends: bf16-amp\n")
    folder.mkdir()
    (folder / "link.yaml").symlink_to("../base.yaml")
    text, words = POLICIES[case]
    if isinstance(text, str):
        text = text.replace("{base}", str(base)).encode()
    path = folder / "p.yaml"
    path.write_bytes(text)
    refuse(3, [str(path), words], "binade", "policy", "show", path)


def test_57_a_hundred_megabytes_are_not_read(tmp_path):
    """The limit is 8 MiB; larger files are not read."""
    path = tmp_path / "p.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    refuse(3, [str(path), "8388608"], "binade", "policy", "show", path)


def test_57_a_byte_order_mark_is_ignored(tmp_path):
    """YAML allows a byte order mark in UTF-8."""
    shown = []
    for name, mark in ("with", b"\xef\xbb\xbf"), ("without", b""):
        path = tmp_path / name / "p.yaml"
        path.parent.mkdir()
        path.write_bytes(mark + b"name: x\nextends: bf16-amp\n")
        text = run("binade", "policy", "show", path).stdout.decode()
        shown.append([line for line in text.splitlines() if "  hash " not in line])
    assert shown[0] == shown[1] and len(shown[0]) > 5


def test_58_globs_take_linear_time(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(RULE.format(f'{{name: "{"a*" * 2000}b"}}', "class: deny"))
    assert run("binade", "policy", "show", path).returncode == 0


GROUPS = {"0": "group: 0", "2^64": "group: 18446744073709551616", "negative": "group: -16",
          "block": "block: [0, 16]", "both": "group: 16\nblock: [16, 16]"}  # fmt: skip


@pytest.mark.parametrize("kind", GROUPS)
def test_59_group(kind, tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text(f"summary: x\nelement: f8E4M3FN\n{GROUPS[kind]}\n")
    model = ROOT / "examples/char-gpt/mini.onnx"
    refuse(3, "f.yaml:", "binade", "compile", model, "--states", path, "-o",
           tmp_path / "x.bnd")  # fmt: skip


@pytest.mark.parametrize("option", ["--policy", "--ranges", "--optimizer", "--states"])
def test_33_devices_and_pipes(option, tmp_path):
    """Reading a FIFO would block, and /dev/zero never ends."""
    suffix = ".mlir" if option == "--optimizer" else ".yaml"
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"fifo{suffix}")
    model = ROOT / "examples/char-gpt/mini.onnx"
    for name in ("zero", "fifo"):
        refuse(3, name + suffix, "binade", "compile", model, option,
               tmp_path / f"{name}{suffix}", "-o", tmp_path / "x.bnd")  # fmt: skip
