"""`binade shadow` measures the error that each op's format introduces; compared with NumPy."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from binade.tracing import FLAGS_OF_TRAINING, OF_TRAINING
from support.paths import BUILD
from support.reference import BF16, binade, safetensors
from support.traced_models import F16, F32, F64, TWO_LAYERS, norm, options, train, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-shadow").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((16, 8)).astype(F32)
FIRST, SECOND = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
FP8 = (
    "quantize: { activation: e5m2-tensor, weight: e5m2-tensor, gradient: e5m2-tensor }"
)
# No loss scaling: powers of two would not change the errors.
PLAIN = "name: plain\nnarrow: f16\nwide: f32\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shadow")
    write(folder, TWO_LAYERS, X, first=FIRST, second=SECOND)
    (folder / "plain.yaml").write_text(PLAIN)
    return folder


def shadow(*arguments):
    process = binade("shadow", *arguments, "--json")
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def shadow_model(folder, policy, *more):
    return shadow(folder / "model.onnx", *options(folder, policy), *more)


def find(report, node, phase="forward", result=0, kind=None):
    (entry,) = [
        e for e in report["errors"]
        if (e["node"], e["phase"], e["result"]) == (node, phase, result)
        and kind in (None, e["kind"])
    ]  # fmt: skip
    return entry


def f16(x):
    return np.asarray(x).astype(F16).astype(F64)


def expect(entry, narrow, local, exact):
    """`narrow` is the policy's result, `local` the f64 result from the same operands."""
    narrow, local, exact = (np.asarray(x, F64) for x in (narrow, local, exact))
    assert entry["introduced"] == pytest.approx(
        norm(narrow - local) / norm(local), rel=1e-9
    )
    assert entry["inherited"] == pytest.approx(
        norm(local - exact) / norm(exact), rel=1e-9, abs=1e-18
    )
    error = norm(narrow - exact) / norm(exact)
    assert entry["error"] == pytest.approx(error, rel=1e-9)
    assert entry["sqnr"] == pytest.approx(-20 * np.log10(error), rel=1e-9)
    assert entry["largest"] == np.max(np.abs(narrow))


def test_errors_match_numpy(folder):
    """Forward and backward pass; each value of the policy is rounded once."""
    report = shadow_model(folder, folder / "plain.yaml")
    x, w1, w2 = (a.astype(F64) for a in (X[:4], FIRST, SECOND))
    hidden = f16(f16(x) @ f16(w1))
    expect(find(report, "up"), hidden, x @ w1, x @ w1)
    kept, exact_kept = np.maximum(hidden, 0), np.maximum(x @ w1, 0)
    expect(find(report, "act"), kept, kept, exact_kept)
    product, exact = f16(kept @ f16(w2)), exact_kept @ w2
    expect(find(report, "down"), product, kept @ w2, exact)
    # d loss / d y is 2 y / 32, where y is the result of the matmul.
    gradients = [
        e for e in report["errors"] if (e["node"], e["phase"]) == ("down", "backward")
    ]
    signals = sorted(entry["signal"] for entry in gradients)
    dy = 2 * exact / 32
    expected = sorted([norm(dy @ w2.T), norm(exact_kept.T @ dy)])
    assert signals == pytest.approx(expected, rel=1e-12)


def test_the_largest_error_is_first(folder):
    """One layer has FP8 operands, the others bf16. The report names its rule."""
    path = folder / "planted.yaml"
    path.write_text("name: planted\nextends: bf16-amp\nrules:\n"
                    f"- {{ match: {{ name: down, phase: forward }}, {FP8} }}\n")  # fmt: skip
    first, second, *_ = shadow_model(folder, path)["errors"]
    assert (first["node"], first["phase"], first["kind"]) == (
        "down",
        "forward",
        "matmul",
    )
    assert first["rule"].endswith("planted.yaml:4")

    # E5M2 has two fraction bits. Values are scaled to its range, then rounded.
    def e5m2(a):
        scale = np.max(np.abs(a)) / 57344
        return (a / scale).astype(ml_dtypes.float8_e5m2).astype(F64) * scale

    hidden = (X[:4].astype(BF16).astype(F64) @ FIRST.astype(BF16).astype(F64)).astype(
        BF16
    )
    kept = np.maximum(hidden.astype(F64), 0)
    exact = kept @ SECOND.astype(F64)
    narrow = (e5m2(kept) @ e5m2(SECOND.astype(F64))).astype(BF16).astype(F64)
    assert first["introduced"] == pytest.approx(
        norm(narrow - exact) / norm(exact), rel=0.05
    )
    assert first["introduced"] > 10 * second["introduced"]


def test_underflowing_gradients_are_counted(tmp_path):
    """In f16 without loss scaling. The count equals that of NumPy."""
    small = (X * 1e-3).astype(F32)
    write(tmp_path, TWO_LAYERS, small, first=FIRST, second=SECOND)
    (tmp_path / "plain.yaml").write_text(PLAIN)
    report = shadow_model(tmp_path, tmp_path / "plain.yaml", "--phase", "backward",
                          "--by", "underflow")  # fmt: skip
    shares = [e["underflow"] / e["elements"] for e in report["errors"]]
    assert shares == sorted(shares, reverse=True)
    kept = np.maximum(f16(f16(small[:4]) @ f16(FIRST)), 0)
    dy = 2 * f16(f16(kept @ f16(SECOND)) / 32)
    of_weight = kept.T @ dy
    vanished = np.sum((f16(of_weight) == 0) & (of_weight != 0))
    assert 0 < vanished < of_weight.size
    counts = [
        e["underflow"]
        for e in report["errors"]
        if (e["node"], e["kind"]) == ("down", "matmul")
    ]
    assert vanished in counts


def test_errors_of_saved_values_appear_at_their_readers(folder):
    """A value saved in E4M3: its error appears at the op that reads it.

    E4M3 has three fraction bits: relative errors are at most 2^-4, about 2^-6
    on average. Sums of eight terms have errors of the same size.
    """
    policies = {}
    for name, rule in {"kept": "class: allow", "coded": "saved: coat-group"}.items():
        path = folder / f"{name}.yaml"
        path.write_text(f"name: {name}\nextends: plain.yaml\nrules:\n"
                        f"- {{ match: {{ op: relu, name: act }}, {rule} }}\n")  # fmt: skip
        report = shadow_model(folder, path, "--op", "down")
        down = {phase: [e for e in report["errors"] if e["phase"] == phase]
                for phase in ("forward", "backward")}  # fmt: skip
        policies[name] = [entry["introduced"] for entry in down["backward"]]
        assert down["forward"][0]["introduced"] < 1e-3
    assert max(policies["kept"]) < 1e-3
    weight, other = policies[
        "coded"
    ]  # The input gradient does not read the saved value.
    assert 2**-8 < weight < 2**-4 and other < 1e-3
    # The inherited error is the same as without quantization.
    x, w1, w2 = (a.astype(F64) for a in (X[:4], FIRST, SECOND))
    kept, exact = np.maximum(f16(f16(x) @ f16(w1)), 0), np.maximum(x @ w1, 0)
    local = kept.T @ (2 * f16(f16(kept @ f16(w2)) / 32))
    expected = exact.T @ (2 * (exact @ w2) / 32)
    inherited = norm(local - expected) / norm(expected)
    assert down["backward"][0]["inherited"] == pytest.approx(inherited, rel=1e-9)


def test_lost_updates_are_measured(folder):
    """A bf16 parameter loses updates; with a split master it is as accurate as f32."""
    lines = "name: {}\nextends: bf16-amp\nrules:\n- {{ match: {{ op: optimizer_update }}, parameter: bf16{} }}\n"
    (folder / "lossy.yaml").write_text(lines.format("lossy", ""))
    (folder / "split.yaml").write_text(lines.format("split", ", master: split_round"))
    (folder / "grads").mkdir()
    run = train(
        folder, folder / "grads/run", folder / "lossy.yaml", "--save-grads", 1, lr=1e-3
    )
    gradient = safetensors.load(run / "grads-000001.safetensors")["second"]
    old = SECOND.astype(BF16)
    step = F32(1e-3) * gradient
    new = (old.astype(F32) - step).astype(BF16)
    report = shadow(run, "--phase", "optimizer")
    entry = find(report, "second", "optimizer")
    assert entry["underflow"] == np.sum((new == old) & (step != 0)) > 0
    change = new.astype(F64) - old.astype(F64)
    assert entry["introduced"] == pytest.approx(
        norm(change + step) / norm(step), rel=1e-3
    )
    better = shadow_model(folder, folder / "split.yaml", "--phase", "optimizer")
    assert find(better, "second", "optimizer")["introduced"] < 1e-3


def test_rounding_of_states_is_measured(folder):
    """Measures the error of a momentum in bf16 that is rounded to nearest."""
    more = ["--set", "momentum=0.9", "--states", "bf16", "--step", "2"]
    report = shadow_model(folder, "fp32", *more)
    entry = find(report, "second", "optimizer", 1)
    assert 2**-11 < entry["introduced"] < 2**-8
    assert find(report, "second", "optimizer", 0)["introduced"] < 1e-6


def test_a_step_of_a_run_can_use_another_policy(folder):
    """The loss in f64 does not depend on the policy."""
    run = train(folder, folder / "run", "bf16-amp", steps=3)
    own, other = shadow(run), shadow(run, "--policy", "fp16-amp")
    assert own["step"] == other["step"] == 3
    assert own["exact_loss"] == other["exact_loss"]
    worst = [report["errors"][0]["introduced"] for report in (own, other)]
    assert 4 < worst[0] / worst[1] < 16  # f16 has three more fraction bits than bf16.
    losses = [json.loads(line)["loss"] for line in open(run / "metrics.jsonl")]
    assert own["loss"] == pytest.approx(losses[-1], rel=1e-6)


def test_the_table(folder):
    process = binade("shadow", folder / "model.onnx", *options(folder, "fp16-amp"),
                     "--op", "down", "--top", 2)  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0].startswith("step 1 under fp16-amp and in f64: loss ")
    rows = [line for line in lines if line.startswith("matmul")]
    assert len(rows) == 2 and all(" down " in row for row in rows)
    assert lines[-1] == "1 more: --top 0"


def test_narrow_sums_are_reported_to_have_no_fixed_order(folder):
    rule = "- { match: { op: matmul }, compute: f16, accumulate: f16, result: f16 }\n"
    (folder / "sums.yaml").write_text(f"{PLAIN}rules:\n{rule}")
    for policy, word in (("sums", "f16"), ("plain", "f32")):
        policy = folder / f"{policy}.yaml"
        report = shadow_model(folder, policy)
        count = sum(
            (entry["kind"], entry["sums"]) == ("matmul", "f16")
            for entry in report["errors"]
        )
        text = binade("shadow", folder / "model.onnx", *options(folder, policy)).stdout
        said = f"\nthe policy allows {count} of these to accumulate in less than f32"
        assert (said in text, count > 0) == (word == "f16", word == "f16")


def test_on_nonfinite_applies_to_the_traced_step(tmp_path):
    """With `continue`, the update is computed as in training; with `skip`, it is not."""
    write(tmp_path, TWO_LAYERS, F32(1e5) * X, first=FIRST, second=SECOND)
    (tmp_path / "plain.yaml").write_text(PLAIN)
    words = [tmp_path / "model.onnx", *options(tmp_path, tmp_path / "plain.yaml")]
    wrong = {}
    for answer in ("skip", "continue"):
        report = shadow(*words, "--on-nonfinite", answer, "--phase", "optimizer")
        wrong[answer] = [
            find(report, name, "optimizer")["nonfinite"] for name in ("first", "second")
        ]
    assert wrong == {"skip": [0, 0], "continue": [FIRST.size, SECOND.size]}
    # Without a finite element there is no error, which is not an error of 0.
    up = find(shadow(*words), "up")
    sizes = "introduced", "inherited", "error", "sqnr", "smallest", "largest"
    assert up["nonfinite"] == up["elements"] and {up[key] for key in sizes} == {None}
    table = binade("shadow", *words, "--phase", "forward", "--op", "up").stdout
    assert re.search(r"^matmul +up +forward +- +- +- ", table, re.MULTILINE), table


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        (
            ["--op", "nothing"],
            3,
            "no op of phase forward or backward or optimizer is called",
        ),
        (["--steps", "3"], 3, "--steps: not an option of 'binade shadow'"),
        (["--step", "0"], 2, "steps count from 1"),
        (["--top=-1"], 2, "expected a number from 0 on, got '-1'"),
        (["--policies", "x"], 2, "--policies"),
    ],
)
def test_invalid_options_are_errors(folder, more, code, text):
    words = ["shadow", folder / "model.onnx", *options(folder, "fp32")]
    process = binade(*words, *more)
    assert process.returncode == code and text in process.stderr, process.stderr
    assert process.stdout == ""


def test_a_missing_model_is_named():
    process = binade("shadow", "absent", "--data", "absent.npz")
    assert process.returncode == 3
    assert "absent: does not exist; expected a model, or the dir" in process.stderr


def test_options_only_of_training_are_listed():
    """`OF_TRAINING` lists exactly the options that `binade trace` lacks."""
    training, tracing = (
        set(re.findall(r"^ +(--[a-z-]+)", text.partition("Examples:")[0], re.MULTILINE))
        for text in (binade(name, "--help").stdout for name in ("train", "trace"))
    )
    assert {*OF_TRAINING, *FLAGS_OF_TRAINING} == training - tracing
