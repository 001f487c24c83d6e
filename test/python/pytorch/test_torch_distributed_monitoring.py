"""Statistics and alarms of steps on several processes: the largest of all ranks, once."""

import binade
import binade.torch
import numpy as np
import pytest
from binade.errors import AlarmError
from support import distributed_models, distributed_steps
from support.process_groups import run_processes
from support.run_folders import read_metrics

WORLD = 3
COUNT = distributed_models.BATCHES
STATS = "output:absmax,min,norm"
RULE = """
- name: far-output
  watch: "output:absmax"
  value: absmax
  window: 1
  when: "n >= 1 && value > {limit}"
  says: "the output is {{value}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitoring")
    distributed_models.export_mlp(folder)
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    """Statistics of the last batch of each rank in the first step, by one process."""
    found = []
    for rank in range(WORLD):
        number = (rank + 1) * COUNT // WORLD - 1
        fresh = binade.compile(folder / "mlp.onnx", stats=STATS, threads=1)
        fresh(distributed_models.make_batch(fresh.batch, number))
        found.append(dict(fresh.statistics))
    return found


@pytest.fixture(scope="module")
def results(folder, alone, tmp_path_factory):
    """What each rank found in a step with statistics, and in one with an alarm of rank 1."""
    last = [name for name in alone[0] if name.endswith("absmax")][-1]
    values = sorted(one[last] for one in alone)
    rule = folder / "rule.yaml"
    rule.write_text(RULE.format(limit=values[1]))
    options = {"exchange": "exact", "stats": STATS, "alarms": str(rule)}
    base = {"model": str(folder / "mlp.onnx"), "distribute": {}}
    runs = [
        base | {"options": options, "out": str(folder / "run"), "steps": 4},
        base | {"options": options | {"on_alarm": "stop"}, "out": str(folder / "stop")},
    ]
    out = tmp_path_factory.mktemp("results")
    return run_processes(distributed_steps.__file__, WORLD, {"runs": runs}, out)


def test_statistics_are_the_largest_of_all_ranks(alone, results):
    names = [name for name in alone[0] if name.startswith("output/")]
    assert len(names) >= 6
    for rank in range(WORLD):
        found = results[rank][0]["first_statistics"]
        for name in names:
            choose = min if name.endswith("/min") else max
            assert found[name] == choose(one[name] for one in alone), name


def test_files_are_written_once(folder, results):
    run = folder / "run"
    assert [line["step"] for line in read_metrics(run)] == [1, 2, 3, 4]
    assert len(list(run.glob("events.out.tfevents.*"))) == 1
    lines = (run / "stats.jsonl").read_text().splitlines()
    assert len(lines) == 4 * len(
        {n.rpartition("/")[0] for n in results[0][0]["statistics"]}
    )
    losses = [line["loss"] for line in read_metrics(run)]
    assert losses == [one["loss"] for one in results[2][0]["metrics"]]
    assert (run / "final.safetensors").exists()


def test_an_alarm_of_one_rank_is_raised_on_all_and_written_once(folder, results):
    alarms = [one[0]["alarms"] for one in results]
    assert alarms[0] and alarms[1] == alarms[0] and alarms[2] == alarms[0]
    written = (folder / "run" / "alarms.jsonl").read_text().splitlines()
    assert len(written) == len(alarms[0])


def test_an_alarm_that_stops_ends_all_ranks_after_a_checkpoint(folder, results):
    for one in results:
        assert one[1]["exit_code"] == AlarmError.exit_code
        assert "far-output" in one[1]["error"]
    checkpoints = folder / "stop" / "checkpoints"
    assert [path.name for path in checkpoints.iterdir()] == ["step-000001"]
    assert not np.isnan(read_metrics(folder / "stop")[0]["loss"])
