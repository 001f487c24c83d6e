"""`binade plan`: its numbers for a small model, counted by hand, and its messages."""

import json

import pytest
from support.paths import ROOT
from support.reference import binade

onnx = pytest.importorskip("onnx")

# 3 and 5 rows: 12 and 20 elements.
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[8, 3] x, float[8, 4] target) => (float loss)
  <float[3, 4] first = {%s}, float[5, 4] second = {%s}, int64[8] places = {0, 1, 2, 3, 4, 0, 1, 2}> {
  y = MatMul(x, first)
  z = Gather(second, places)
  sum = Add(y, z)
  difference = Sub(sum, target)
  square = Mul(difference, difference)
  loss = ReduceMean<keepdims = 0>(square)
}
"""
FABRIC = """
name: four and more
costs: here.yaml
memory_gib: 1.0e-6
levels:
- { name: inner, size: 4, latency_us: 10, bandwidth_gb_per_s: 1 }
- { name: outer, latency_us: 100, bandwidth_gb_per_s: 0.1 }
failures: { rank_hours: 1000, save_s: 30, restart_s: 60 }
"""
COSTS = """
target: a machine for tests
launch: 1.0e-3
formats: [{ format: f32, products: 1.0e6, elements: 1.0e5 }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    values = [", ".join(["0.125"] * count) for count in (12, 20)]
    model = onnx.parser.parse_model(GRAPH % tuple(values))
    model.metadata_props.add(key="binade.trainable", value='["first", "second"]')
    onnx.save(model, folder / "model.onnx")
    (folder / "fabric.yaml").write_text(FABRIC)
    (folder / "here.yaml").write_text(COSTS)
    return folder


def plan(folder, ranks, *words):
    done = binade("plan", folder / "model.onnx", "--ranks", ranks,
                  "--fabric", folder / "fabric.yaml", *words)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(folder, ranks, *words):
    return json.loads(plan(folder, ranks, "--json", *words))


def test_one_bucket_of_eight_ranks(folder):
    """32 gradients of f32, 128 bytes: in a group of four, 2 * 2 steps of 10 us and
    2 * 3/4 * 128 bytes at 1 GB/s; between two groups, 2 steps of 100 us and a quarter of the
    bytes, 2 * 1/2 * 32, at 0.1 GB/s."""
    found = read(folder, 8)
    assert [(one["name"], one["members"]) for one in found["levels"]] == [
        ("inner", 4), ("outer", 2),
    ]  # fmt: skip
    assert sum(bucket["elements"] for bucket in found["buckets"]) == 32
    gradients = found["formats"]["f32"]["buckets"]
    assert sum(one["sent_bytes"] for one in gradients) == pytest.approx(192 + 32)
    transfer = sum(one["transfer_s"] for one in gradients)
    assert transfer == pytest.approx(192 / 1e9 + 32 / 1e8)
    latency = sum(one["latency_s"] for one in gradients)
    assert latency == pytest.approx(len(gradients) * (4 * 10e-6 + 2 * 100e-6))
    [loss] = found["others"]
    # Eight losses of 8 bytes: 3/4 of them from the group, the others from a rank of the other.
    assert (loss["what"], loss["operation"], loss["bytes"]) == (
        "loss",
        "all_gather",
        64,
    )
    assert found["step_s"] == pytest.approx(found["compute_s"] + found["exposed_s"])


def test_formats_send_what_their_transfers_send(folder):
    """Each of eight ranks adds up a block of 128 elements, so that 1024 are exchanged. Per
    element, to three others of a group and four in the other: 7/8 of parts of 2 bytes in bf16,
    and an all-gather of 4 bytes, 3/4 + 1/4 * 1/2."""
    formats = read(folder, 8)["formats"]
    sent = {
        name: sum(bucket["sent_bytes"] for bucket in one["buckets"])
        for name, one in formats.items()
    }
    buckets = len(formats["f32"]["buckets"])
    padded = 1024 * buckets
    gather = padded * 4 * (3 / 4 + 1 / 8)
    assert sent["bf16"] == pytest.approx(padded * 2 * 7 / 8 + gather)
    assert sent["e4m3"] == pytest.approx(padded * (1 + 4 / 128) * 7 / 8 + gather)
    assert sent["exact"] == pytest.approx(2 * 32 * (8 + 4 / 128) * (3 / 4 + 1 / 8))


def test_sharded_states_need_parameters_back(folder):
    found = read(folder, 4, "--shard", "zero1")
    # An all-reduce of 32 elements: two transfers of three quarters.
    sent = sum(bucket["sent_bytes"] for bucket in found["buckets"])
    assert sent == pytest.approx(2 * 3 / 4 * 128)
    others = {one["what"]: (one["operation"], one["bytes"]) for one in found["others"]}
    assert others == {
        "loss": ("all_gather", 32),
        # Each parameter, of 12 and 20 elements, has one rank, so that the others send as
        # much padding as the second parameter has bytes.
        "parameters": ("all_gather", 4 * 20 * 4),
    }
    memory = [one for one in found["memory"] if one["shard"] == "zero1"]
    assert [one["exchange"] for one in memory] == ["f32", "bf16", "e4m3", "exact"]
    for one in memory:
        assert one["ledger"]["state"] == 2 * 4 * 20


def test_ranks_with_sharded_states_update_their_shard(folder):
    """Nothing but the update is divided: of 32 elements, the fullest of four ranks has 20. The
    update reads parameter, gradient and two states and writes all but the gradient: 7 times
    4 bytes, at 4 * 1e5 bytes per second."""
    whole, shard = read(folder, 4), read(folder, 4, "--shard", "zero1")
    saved = whole["compute_s"] - shard["compute_s"]
    assert saved == pytest.approx(7 * 4 * (32 - 20) / 4e5, rel=0.05)  # And scalars.
    assert (
        read(folder, 1, "--shard", "zero1")["compute_s"] == read(folder, 1)["compute_s"]
    )


def test_micro_batches_are_exchanged_once(folder):
    one, three = read(folder, 4), read(folder, 4, "--micro-batches", "3")
    sent = [sum(b["sent_bytes"] for b in found["buckets"]) for found in (one, three)]
    assert sent[0] == pytest.approx(sent[1])
    assert three["others"][0]["bytes"] == 3 * 32  # Losses.
    assert three["compute_s"] > 2 * one["compute_s"]


def test_checkpoints_follow_the_rate_of_failures(folder):
    """1000 hours over 8 ranks are 450,000 s: sqrt(2 * 30 * 450,000) = 5196 s, Daly's 5176."""
    found = read(folder, 8)["checkpoints"]
    assert found["mean_time_between_failures_s"] == pytest.approx(450_000)
    assert found["interval_s"] == pytest.approx(5176, abs=1)
    assert found["lost_share"] == pytest.approx(
        30 / 5196 + 5196 / 900_000 + 60 / 450_000, rel=0.01
    )


def test_limits_name_the_first_power_of_two(folder):
    limits = {one["name"]: one for one in read(folder, 2)["limits"]}
    assert (
        limits["few blocks"]["ranks"] == 4 and "2 blocks" in limits["few blocks"]["why"]
    )
    # 20 elements in the fullest of 4 ranks, 8 on average; of 2 ranks, 16 on average.
    assert limits["uneven shards"]["ranks"] == 4
    # 1000 h over 2^n ranks; a tenth of the time is lost near sqrt(60 / M) = 0.1, 6000 s.
    assert limits["failures"]["ranks"] in (512, 1024)


def test_one_rank_exchanges_nothing(folder):
    found = read(folder, 1)
    assert found["levels"] == [] and found["exposed_s"] == found["sent_bytes"] == 0
    assert "on 1 rank:" in plan(folder, 1)


def test_the_report_has_units(folder):
    text = plan(folder, 8, "--policy", "bf16-amp")
    assert "model, policy bf16-amp, on 8 ranks: a prediction\n" in text.replace(
        "g, ", "model, "
    )
    assert "fabric: four and more: 2 x outer of 4 x inner\n" in text
    assert "B !" in text  # The fabric's ranks have a kilobyte of memory.
    assert "save every 86.3 min" in text


def test_runs_are_simulated_by_a_seed(folder):
    found = [read(folder, 8, "--simulate", seed)["simulated"] for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]
    assert 300 < found[0]["deaths"] < 500
    predicted = read(folder, 8)["checkpoints"]["lost_share"]
    assert found[0]["lost_share"] == pytest.approx(predicted, rel=0.12)
    assert "virtual ranks" in plan(folder, 8, "--simulate", 3)


def test_options_of_a_run_are_read_from_its_file(folder):
    path = folder / "run.yaml"
    path.write_text("model: " + str(folder / "model.onnx") + "\npolicy: bf16-amp\n")
    done = binade(
        "plan", path, "--ranks", 2, "--fabric", folder / "fabric.yaml", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policy"] == "bf16-amp"


@pytest.mark.parametrize(
    "words, code, text",
    [
        (["--ranks", "0"], 2, "--ranks: expected a number from 1 on"),
        (["--ranks", "8", "--accumulate", "2"], 2, "use --micro-batches"),
        (["--ranks", "8", "--polcy", "bf16"], 2, "did you mean '--policy'?"),
        (["--ranks", "8", "--bucket", "-1"], 2, "expected a number above 0, in MiB"),
        (["--ranks", "8", "--costs", "sm_1"], 3, "unknown costs 'sm_1'"),
        (["--ranks", "8", "--fabric", "h20"], 2, "did you mean 'h200'?"),
        (["--ranks", "8", "--policy", "no.yaml"], 3, "no.yaml"),
    ],
)
def test_wrong_options_are_named(folder, words, code, text):
    fabric = [] if "--fabric" in words else ["--fabric", folder / "fabric.yaml"]
    done = binade("plan", folder / "model.onnx", *fabric, *words)
    assert done.returncode == code and text in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_fabric_without_costs_or_failures_needs_them_named(folder):
    bare = folder / "bare.yaml"
    bare.write_text(
        "name: x\nlevels: [{name: l, latency_us: 1, bandwidth_gb_per_s: 1}]\n"
    )
    words = ["plan", folder / "model.onnx", "--ranks", 2, "--fabric", bare]
    done = binade(*words)
    assert (
        done.returncode == 2
        and "has no 'costs'; name a target by --costs" in done.stderr
    )
    done = binade(*words, "--costs", "sm_90", "--simulate", "1")
    assert (
        done.returncode == 2
        and "--simulate: the fabric has no 'failures'" in done.stderr
    )
    assert "no rate of failures" in binade(*words, "--costs", "sm_90").stdout


def test_a_compiled_step_has_its_options(folder, tmp_path):
    bundle = tmp_path / "step.bnd"
    assert binade("compile", folder / "model.onnx", "-o", bundle).returncode == 0
    words = ["plan", bundle, "--ranks", 2, "--fabric", folder / "fabric.yaml"]
    assert binade(*words).returncode == 0
    done = binade(*words, "--policy", "bf16")
    assert (
        done.returncode == 2 and "is compiled; '--policy' cannot change" in done.stderr
    )


def test_a_bundle_has_its_exchange_and_micro_batches(folder, tmp_path):
    """A step with an exchange has the micro-batches of all ranks: 2 or 1 of 6 in each of 4."""
    bundle = tmp_path / "step.bnd"
    words = ["compile", folder / "model.onnx", "-o", bundle, "--accumulate", 6]
    assert binade(*words, "--exchange", "bf16").returncode == 0
    words = ["plan", bundle, "--fabric", folder / "fabric.yaml", "--json", "--ranks"]
    found = json.loads(binade(*words, 4).stdout)
    assert (found["exchange"], found["batches"]) == ("bf16", 2)
    done = binade(*words, 4, "--exchange", "f32")
    assert done.returncode == 2 and "--exchange f32: " in done.stderr
    assert "is compiled with bf16; leave the option out" in done.stderr
    done = binade(*words, 4, "--micro-batches", 3)
    assert done.returncode == 2 and "--micro-batches 3: " in done.stderr
    done = binade(*words, 7)
    assert done.returncode == 2 and "for 6 micro-batches of all ranks" in done.stderr
    words[1] = tmp_path / "alone.bnd"
    more = ["compile", folder / "model.onnx", "-o", words[1], "--accumulate", 3]
    assert binade(*more).returncode == 0
    found = json.loads(binade(*words, 4, "--exchange", "exact").stdout)
    assert (found["exchange"], found["batches"]) == ("exact", 3)


def test_examples_of_help_are_commands():
    text = binade("plan", "--help").stdout
    assert "binade plan model.onnx --ranks 16384 --fabric h200" in text
    for name in (ROOT / "python/binade/planning/fabrics").glob("*.yaml"):
        assert name.stem in text
