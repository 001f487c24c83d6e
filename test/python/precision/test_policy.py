"""Policy files: the schema, `binade policy show` and `check`, and the texts in a bundle."""

import collections
import hashlib
import json
import re
import time

import jsonschema
import pytest
import yaml
from support.paths import ROOT
from support.reference import binade

MODEL = ROOT / "examples/char-gpt/mini.onnx"
POLICIES = ROOT / "lib/Precision/Policies"
PRESETS = sorted((ROOT / "lib/Precision/Policies").glob("*.yaml"))
HEAD = "name: mine\nnarrow: bf16\nwide: f32\n"
RULE = HEAD + "rules:\n- "

ACCEPTED = {
    "extends": "name: mine\nextends: fp16-amp\n",
    "every_key_of_a_rule": RULE
    + "{match: {op: [matmul, attention], name: '*', phase: forward, role: weight, "
    "layer: last}, compute: f32, accumulate: f32, result: bf16, saved: bf16, "
    "optional: true}\n",
    "painting": HEAD + "propagate: painting\n",
    "cut": HEAD
    + "cut: {costs: x86-64-v3, memory: 0, formats: [{format: bf16, penalty: 0.5}]}\n",
    "clamp": RULE + "{match: {op: matmul}, clamp: tensor, optional: true}\n",
    "watched": HEAD
    + "loss_scale: {underflow: 0, check: 3, per_tensor: true, per_layer: {}}\n",
    "per_layer": HEAD
    + "loss_scale: {static: 1, per_layer: {underflow: 0.01, bound: 4, "
    "gathered: 8}}\n",
    "evidence": HEAD + "evidence: {underflow: 0.5, overflow: 0}\n",
    "class": RULE + "{match: {op: softmax}, class: deny, optional: true}\n",
    "tf32_of_operands": RULE
    + "{match: {op: matmul}, compute: tf32, result: f32, optional: true}\n",
    "loss_scale": HEAD
    + "loss_scale: {init: 8, growth: 1.5, backoff: 0.25, interval: 3, min: 1, max: 16, "
    "delay: 1, hysteresis: 2, consecutive_hysteresis: true}\n",
    "static": HEAD + "loss_scale: {static: 0.125}\n",
}
REFUSED = {
    "key": HEAD + "narow: bf16\n",
    "list_for_a_mapping": "[1, 2]\n",
    "rules_as_a_mapping": HEAD + "rules: {op: matmul}\n",
    "class": RULE + "{class: narrow}\n",
    "phase": RULE + "{match: {phase: forwards}, class: deny}\n",
    "role": RULE + "{match: {role: table}, class: deny}\n",
    "layer": RULE + "{match: {layer: second}, class: deny}\n",
    "flag": RULE + "{match: {op: matmul}, class: deny, optional: perhaps}\n",
    "negative_scale": HEAD + "loss_scale: {init: -1}\n",
    "shrinking_growth": HEAD + "loss_scale: {growth: 1}\n",
    "growing_backoff": HEAD + "loss_scale: {backoff: 1}\n",
    "tf32_in_memory": RULE + "{match: {op: matmul}, result: tf32}\n",
    "products_of_bytes": RULE + "{match: {op: matmul}, compute: f8E4M3FN}\n",
    "results_of_bytes": RULE + "{match: {op: matmul}, result: f8E5M2}\n",
    "results_of_f64": RULE + "{match: {op: matmul}, result: f64}\n",
    "half_a_byte": RULE + "{match: {op: matmul}, compute: f4E2M1FN}\n",
    "narrow_bytes": "name: mine\nnarrow: f8E4M3FN\nwide: f32\n",
    "propagate": HEAD + "propagate: backwards\n",
    "no_clamp": RULE + "{match: {op: matmul}, clamp: all}\n",
    "bound": HEAD + "loss_scale: {per_layer: {bound: 0.5}}\n",
    "share": HEAD + "evidence: {underflow: 1.5}\n",
    "memory": HEAD + "cut: {costs: x86-64-v3, memory: -1}\n",
    "interval": HEAD + "loss_scale: {interval: 0}\n",
    "hysteresis": HEAD + "loss_scale: {hysteresis: 0}\n",
    "negative_delay": HEAD + "loss_scale: {delay: -1}\n",
    "no_static_scale": HEAD + "loss_scale: {static: 0}\n",
}


@pytest.fixture(scope="module")
def schema():
    schema = json.loads(binade("policy", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_the_schema_accepts_the_presets(schema, path):
    schema.validate(yaml.safe_load(path.read_text()))


def test_the_checklist_names_every_key(schema):
    """docs/howto/add-a-policy.md describes the keys of a file, a rule and a `match`."""
    page = (ROOT / "docs/howto/add-a-policy.md").read_text()
    top = schema.schema["properties"]
    rule = top["rules"]["items"]["properties"]
    keys = {*top, *rule, *rule["match"]["properties"]}
    assert keys <= set(re.findall(r"`(\w+)`", page))


@pytest.mark.parametrize("case", ACCEPTED)
def test_schema_and_reader_accept(schema, tmp_path, case):
    (tmp_path / "mine.yaml").write_text(ACCEPTED[case])
    schema.validate(yaml.safe_load(ACCEPTED[case]))
    shown = binade("policy", "show", tmp_path / "mine.yaml")
    assert shown.returncode == 0 and shown.stdout.startswith("mine")


@pytest.mark.parametrize("case", REFUSED)
def test_schema_and_reader_reject(schema, tmp_path, case):
    (tmp_path / "mine.yaml").write_text(REFUSED[case])
    assert not schema.is_valid(yaml.safe_load(REFUSED[case]))
    shown = binade("policy", "show", tmp_path / "mine.yaml")
    assert shown.returncode == 3 and not shown.stdout
    assert re.match(r".+mine\.yaml:\d+:\d+: error: .*(expected|unknown)", shown.stderr)


@pytest.mark.parametrize("base, saved", [
    ("bf16-amp", "f8E4M3FN"), ("fp16-amp", "f8E5M2"), ("bf16-amp", "f8E5M2FNUZ"),
])  # fmt: skip
def test_results_can_be_saved_in_8_bit_floats(tmp_path, base, saved):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        f"name: mine\nextends: {base}\nrules:\n"
        f"- {{match: {{op: [gelu, layer_norm, matmul, attention]}}, saved: {saved}}}\n"
    )
    done = binade("compile", MODEL, "--policy", policy, "-o", tmp_path / "step.bnd")
    assert done.returncode == 0, done.stderr


def test_results_cannot_be_saved_in_f8E8M0FNU(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(RULE + "{match: {op: gelu}, saved: f8E8M0FNU}\n")
    shown = binade("policy", "show", policy)
    assert shown.returncode == 3
    assert re.match(
        r".+mine\.yaml:\d+:\d+: error: .*'f8E8M0FNU'; did you mean 'f8E4M3FNUZ'\?\n"
        r".*: note: there are f32, bf16, f16, f8E4M3FN, f8E5M2, .*coat-group",
        shown.stderr,
    )


def test_check_counts_the_decisions_of_assign(tmp_path):
    """Compares the counts per line of the policy with the decisions in the module."""
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "name: mine\nextends: bf16-amp\nrules:\n"
        "- {match: {role: logits, phase: forward}, class: deny}\n"
        "- {match: {op: [layer_norm, gelu]}, class: deny}\n"
        "- {match: {name: 'blocks.1.*', op: matmul}, compute: f32}\n"
    )
    module = tmp_path / "step.mlir"
    done = binade("compile", MODEL, "--policy", policy, "--to=assign", "-o", module)
    assert done.returncode == 0, done.stderr
    rules = re.findall(r'rule = "([^"]*)"', module.read_text())
    decided = collections.Counter(rule.rsplit("/", 1)[-1] for rule in rules)

    done = binade("policy", "check", policy, "--model", MODEL)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d+) +(\d+)  ([^\n]*)$", done.stdout, re.MULTILINE)
    counted = {
        re.match(r".*?(mine\.yaml:\d+|bf16-amp\.yaml:\d+|class \w+)", text)[1]: int(
            count
        )
        for count, _, text in rows
    }
    assert {rule: n for rule, n in counted.items() if n} == decided
    assert all(int(count) <= int(matched) for count, matched, _ in rows)
    for line in range(4, 7):
        assert counted[f"mine.yaml:{line}"] > 0


def test_a_policy_that_only_extends_another_decides_the_same(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: bf16-amp\nextends: bf16-amp\n")
    texts = []
    for policy in ("bf16-amp", tmp_path / "mine.yaml"):
        module = tmp_path / "step.mlir"
        assert not binade(
            "compile", MODEL, "--policy", policy, "--to=materialize", "-o", module
        ).returncode
        text = module.read_text()
        texts.append(re.sub(r"#binade\.policy<.*", "", text))
    assert texts[0] == texts[1]


def test_show_reports_errors_as_json(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\nnarow: bf16\n")
    done = binade("policy", "show", tmp_path / "mine.yaml", "--diag", "json")
    assert done.returncode == 3
    record = json.loads(done.stderr.splitlines()[0])
    assert record["severity"] == "error" and "narow" in record["message"]


def test_many_rules_are_read_in_linear_time(tmp_path):
    rules = [f"  - {{ match: {{ name: n{i} }}, class: deny }}\n" for i in range(40000)]
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: bf16-amp\nrules:\n" + "".join(rules))
    # Comparing all pairs of rules would take minutes.
    assert binade("policy", "show", path).returncode == 0
    path.write_text(path.read_text() + rules[7].replace("deny", "allow"))
    done = binade("policy", "show", path)
    assert done.returncode == 3
    assert "mine.yaml:40004:" in done.stderr and "mine.yaml:11," in done.stderr


@pytest.mark.nightly
def test_a_policy_can_read_measured_costs(tmp_path):
    start = time.monotonic()
    done = binade("costs", "--measure", "-o", tmp_path / "here.yaml")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start <= 30
    costs = yaml.safe_load((tmp_path / "here.yaml").read_text())
    rates = {rates.pop("format"): rates for rates in costs["formats"]}
    assert list(rates) == ["f32", "bf16", "f16"]
    # Present machines, with a factor of about a hundred either way.
    for each in rates.values():
        assert 1e8 < each["products"] < 1e14
        assert 1e7 < each["elements"] < 1e13
    assert 1e-8 < costs["launch"] < 1e-2
    assert set(costs) == {"target", "processor", "launch", "formats", "quantized"}
    quantized = {rates.pop("format"): rates for rates in costs["quantized"]}
    formats = ["e4m3-tensor", "e5m2-tensor", "e4m3-1x128", "e4m3-128x128", "mxfp8"]
    assert list(quantized) == formats
    for each in quantized.values():
        assert set(each) == {"products", "quantize", "dequantize"}
        assert 1e8 < each["products"] < 1e14
        assert 1e7 < each["quantize"] < 1e13 and 1e7 < each["dequantize"] < 1e13
    policy = tmp_path / "mine.yaml"
    policy.write_text("name: mine\nextends: fp8-current\ncut: { costs: here.yaml }\n")
    assert binade("policy", "show", policy).returncode == 0


# --- In the bundle ------------------------------------------------------------


def sha256(*texts):
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def test_a_bundle_contains_the_texts_of_its_policy(tmp_path):
    mine = "# Mine.\nname: mine\nextends: base.yaml\ncut: { costs: here.yaml }\n"
    base = 'name: base\nextends: bf16-amp # "quoted"\n'
    costs = (POLICIES.parent / "Costs" / "x86-64-v3.yaml").read_text()
    shipped = (POLICIES / "bf16-amp.yaml").read_text()
    for name, text in [("mine", mine), ("base", base), ("here", costs)]:
        (tmp_path / f"{name}.yaml").write_text(text)
    bundle = tmp_path / "step.bnd"
    done = binade("compile", MODEL, "--policy", tmp_path / "mine.yaml", "-o", bundle)
    assert done.returncode == 0, done.stderr

    # Each hash covers a text, its costs, and the hash of the policy that it extends.
    hashes = [sha256(shipped)]
    hashes.insert(0, sha256(base, hashes[0]))
    hashes.insert(0, sha256(mine, costs, hashes[0]))
    policy = json.loads(binade("inspect", bundle, "--json").stdout)["policy"]
    assert policy == {
        "name": "mine",
        "hash": hashes[0],
        "texts": [
            {"name": "mine", "hash": hashes[0], "text": mine, "costs": costs},
            {"name": "base", "hash": hashes[1], "text": base},
            {"name": "bf16-amp", "hash": hashes[2], "text": shipped},
        ],
    }
    shown = binade("inspect", bundle, "--policy-text").stdout
    heads = [
        f"# policy '{name}', SHA-256 {key}\n"
        for name, key in zip(("mine", "base", "bf16-amp"), hashes, strict=True)
    ]
    assert shown == "".join(
        [heads[0], mine, "# its costs\n", costs, heads[1], base, heads[2], shipped]
    )
    # The IR contains the same hashes.
    module = tmp_path / "step.mlir"
    binade(
        "compile",
        MODEL,
        "--policy",
        tmp_path / "mine.yaml",
        "--to=assign",
        "-o",
        module,
    )
    text = module.read_text()
    assert re.findall(r'hash = "(\w+)"', text) == hashes


def test_a_policy_edited_in_the_module_is_rejected(tmp_path):
    module = tmp_path / "step.mlir"
    binade("compile", MODEL, "--policy", "bf16-amp", "--to=assign", "-o", module)
    text = module.read_text()
    module.write_text(text.replace("narrow: bf16", "narrow: f16 ", 1))
    assert module.read_text() != text
    done = binade("compile", module, "--from=assign", "-o", tmp_path / "step.bnd")
    assert done.returncode == 3
    assert "policy 'bf16-amp' was edited in the module" in done.stderr


@pytest.mark.parametrize("command", [
    ["policy", "show"], ["policy", "check", "--model", MODEL], ["explain", MODEL, "--policy"],
])  # fmt: skip
def test_an_unknown_name_is_a_usage_error(command):
    done = binade(*command, "bf16-apm")
    assert done.returncode == 2
    assert "no policy is called 'bf16-apm'; did you mean 'bf16-amp'?" in done.stderr
