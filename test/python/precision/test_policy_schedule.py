"""A policy with a schedule: a run switches to other policies and keeps its state."""

import json

import binade as binade_package
import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade").exists(), reason=f"{BUILD} is not built"
)

MODEL = ROOT / "examples/mlp/mlp.onnx"
LOSS = "cross_entropy(prediction, labels)"
STEPS, SWITCH = 10, 6
SCHEDULE = """\
name: first
extends: fp32
schedule:
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    draw = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("data") / "data.safetensors"
    safetensors.save(path, {
        "x": draw.standard_normal((64, 16), np.float32),
        "labels": draw.integers(0, 4, 64),
    })  # fmt: skip
    return path


def write(folder, *switches, head=SCHEDULE):
    path = folder / "first.yaml"
    lines = [f"- {{ after: {after}, policy: {policy} }}" for after, policy in switches]
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def train(data, out, policy, *more, steps=("--steps", STEPS), resume=False, code=0):
    process = binade(
        "train", MODEL, "--loss", LOSS, "--data", data, "--policy", policy, "--optimizer",
        "adamw", "--lr", 0.01, "--seed", 1, *steps, "--resume" if resume else "--out", out,
        *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def read_losses(out):
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def read_policies(out):
    """Returns the policy of each part of a run, and the step after which the part begins."""
    about = json.loads((out / "run.json").read_text())
    return [(one["policy"], one["after_step"]) for one in about["invocations"]]


def assert_equal_files(a, b):
    a, b = safetensors.load(a), safetensors.load(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], strict=True, err_msg=name)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A run that switches from fp32 to bf16-amp."""
    folder = tmp_path_factory.mktemp("whole")
    policy = write(folder, (SWITCH, "bf16-amp"))
    process = train(data, folder / "run", policy, "--save-every", 1, "--keep", STEPS)
    assert "policy first -> bf16-amp" in process.stdout
    assert " of which 0 from or to quantized values; 0 left out" in process.stdout
    return folder


def test_each_part_trains_under_its_policy(whole, data, tmp_path):
    """Compared with three commands: train under fp32, convert the checkpoint, and resume under
    bf16-amp."""
    train(data, tmp_path / "run", "fp32", "--stop-after", SWITCH)
    losses = read_losses(whole / "run")
    assert losses[:SWITCH] == read_losses(tmp_path / "run")
    done = binade("compile", MODEL, "--loss", LOSS, "--policy", "bf16-amp", "--optimizer",
                  "adamw", "--lr", 0.01, "-o", tmp_path / "narrow.bnd")  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = binade("ckpt", "convert", tmp_path / "run", "--to", tmp_path / "narrow.bnd", "--out",
                  tmp_path / "converted")  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = binade("train", tmp_path / "narrow.bnd", "--data", data, "--seed", 1, "--steps",
                  STEPS, "--resume", tmp_path / "converted")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert losses[SWITCH:] == read_losses(tmp_path / "converted")[-(STEPS - SWITCH) :]
    assert_equal_files(
        whole / "run/final.safetensors", tmp_path / "converted/final.safetensors"
    )
    wide = train(data, tmp_path / "wide", "fp32")
    assert wide.returncode == 0
    assert losses[SWITCH] != read_losses(tmp_path / "wide")[SWITCH]


def test_the_switch_keeps_every_bit_of_the_state(whole, data, tmp_path):
    """Compares the checkpoint at the switch, which the switch converts, with that of fp32."""
    train(data, tmp_path / "run", "fp32", "--stop-after", SWITCH)
    name = f"checkpoints/step-{SWITCH:06d}"
    kept, own = (json.loads((run / name / "manifest.json").read_text())
                 for run in (whole / "run", tmp_path / "run"))  # fmt: skip
    assert kept["run"]["policy hash"] != own["run"]["policy hash"]
    shards = sorted((whole / "run" / name).glob("*.safetensors"))
    assert shards
    for shard in shards:
        assert_equal_files(shard, tmp_path / "run" / name / shard.name)


@pytest.mark.parametrize("stop", [3, SWITCH, 8])
def test_a_resumed_run_equals_the_whole_one(whole, data, tmp_path, stop):
    train(data, tmp_path / "run", whole / "first.yaml", "--stop-after", stop)
    train(data, tmp_path / "run", whole / "first.yaml", resume=True)
    assert read_losses(tmp_path / "run") == read_losses(whole / "run")
    assert_equal_files(
        whole / "run/final.safetensors", tmp_path / "run/final.safetensors"
    )


def test_a_policy_may_be_used_twice(data, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("name: other\nextends: bf16-amp\n")
    policy = write(tmp_path, (2, "other.yaml"), ("50%", "fp32"), ("80%", "other.yaml"))
    train(data, tmp_path / "run", policy)
    assert read_policies(tmp_path / "run") == [
        ("first", 0), ("other", 2), ("fp32", 5), ("other", 8),
    ]  # fmt: skip
    assert len(read_losses(tmp_path / "run")) == STEPS


def test_shares_are_of_the_steps_of_all_epochs(data, tmp_path):
    policy = write(tmp_path, ("75%", "bf16-amp"))
    train(data, tmp_path / "run", policy, steps=("--epochs", 2))
    assert read_policies(tmp_path / "run") == [("first", 0), ("bf16-amp", 12)]


def test_switches_to_the_same_step_leave_out_a_part(data, tmp_path):
    policy = write(tmp_path, (5, "bf16-amp"), ("50%", "bf16"))
    train(data, tmp_path / "run", policy)
    assert read_policies(tmp_path / "run") == [("first", 0), ("bf16", 5)]


def test_a_switch_that_is_never_reached_is_named(data, tmp_path):
    policy = write(tmp_path, (STEPS, "bf16-amp"))
    process = train(data, tmp_path / "run", policy)
    assert f"training ends after step {STEPS}, before policy bf16-amp" in process.stderr
    assert read_policies(tmp_path / "run") == [("first", 0)]


def test_an_extended_schedule_is_inherited_or_removed(data, tmp_path):
    write(tmp_path, (SWITCH, "bf16-amp"))
    for text, parts in (("", 2), ("schedule: []\n", 1)):
        own = tmp_path / "own.yaml"
        own.write_text("name: own\nextends: first.yaml\n" + text)
        train(data, tmp_path / f"run-{parts}", own)
        assert len(read_policies(tmp_path / f"run-{parts}")) == parts


@pytest.mark.parametrize("switches, line, message", [
    ([(0, "bf16-amp")], 4, "expected a number of steps from 1 to 2147483647, or a share"),
    (["-1%", "bf16-amp"], 4, "or a share of them such as 13%, got '-1%'"),
    ([("101%", "bf16-amp")], 4, "got '101%'"),
    ([(5, "bf16-apm")], 4, "unknown policy 'bf16-apm'; did you mean 'bf16-amp'?"),
    ([(5, "bf16-amp"), (5, "fp32")], 5, "begins after 5 steps, not later than the previous"),
    ([("9%", "bf16"), ("5%", "fp32")], 5, "begins after 5% of all steps, not later than"),
    ([(5, "first.yaml")], 4, "has a schedule of its own"),
    ([(5, "bf16-master")], 4, "is F32 under the first policy, BF16 under 'bf16-master'"),
])  # fmt: skip
def test_errors_name_the_line(data, tmp_path, switches, line, message):
    if isinstance(switches[0], str):
        switches = [tuple(switches)]
    policy = write(tmp_path, *switches)
    process = train(data, tmp_path / "run", policy, code=3)
    assert process.stderr.startswith(f"{policy}:{line}:"), process.stderr
    assert message in process.stderr
    assert not (tmp_path / "run").exists()


def test_optimizer_states_have_one_format(data, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("name: other\nextends: fp32\nrules:\n"
                     "- { match: { op: optimizer_update }, state: bf16 }\n")  # fmt: skip
    process = train(data, tmp_path / "run", write(tmp_path, (5, "other.yaml")), code=3)
    assert (
        "'state/" in process.stderr and "F32 under the first policy" in process.stderr
    )
    assert "its policies have to store them in the same formats" in process.stderr


def test_a_schedule_and_a_switch_after_an_alarm_exclude_each_other(data, tmp_path):
    policy = write(tmp_path, (5, "bf16-amp"))
    process = train(data, tmp_path / "run", policy, "--on-alarm", "switch:bf16", code=2)
    assert "cannot be used with a policy that has a schedule" in process.stderr
    policy = write(tmp_path, (5, "bf16-amp"),
                   head=SCHEDULE.replace("sch", "on_alarm: switch:bf16\nsch"))  # fmt: skip
    process = train(data, tmp_path / "run", policy, code=3)
    assert f"{policy}:3:" in process.stderr
    assert "cannot also switch after an alarm" in process.stderr


def test_ranges_are_not_recorded(data, tmp_path):
    policy = write(tmp_path, (5, "bf16-amp"))
    process = train(data, tmp_path / "run", policy, "--record",
                    f"ranges={tmp_path / 'ranges'}", code=2)  # fmt: skip
    assert "--record cannot be used with a policy that has a schedule" in process.stderr


def test_a_bundle_keeps_the_first_policy(tmp_path):
    policy = write(tmp_path, ("85%", "bf16-amp"))
    done = binade("compile", MODEL, "--loss", LOSS, "--policy", policy, "-o",
                  tmp_path / "step.bnd")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{policy}:4:" in done.stderr and "warning: a compiled step" in done.stderr
    assert "'bf16-amp' after 85% of all steps" in done.stderr


def test_a_step_in_python_keeps_the_first_policy(tmp_path, caplog):
    policy = write(tmp_path, ("85%", "bf16-amp"))
    binade_package.compile(MODEL, loss=LOSS, policy=str(policy))
    assert "only 'binade train' of a model continues under 'bf16-amp'" in caplog.text


def test_tables_name_all_policies(whole):
    listed = binade("runs", "run", cwd=whole)
    assert "first -> bf16-amp" in listed.stdout, listed.stderr


def test_a_schedule_is_shown(tmp_path):
    policy = write(tmp_path, (3, "bf16-amp"), ("85%", "fp32"))
    shown = binade("policy", "show", policy)
    assert "  schedule    bf16-amp after 3 steps\n" in shown.stdout
    assert "  schedule    fp32 after 85% of all steps\n" in shown.stdout
