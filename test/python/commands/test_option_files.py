"""A YAML file with options replaces the command line: PyYAML reads what a run writes."""

import json

import pytest
import yaml
from support.paths import ROOT
from support.reference import binade, safetensors

np = pytest.importorskip("numpy")
MODEL = ROOT / "examples" / "mlp" / "mlp.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    draw = np.random.default_rng(1)
    safetensors.save(
        folder / "points.safetensors",
        {
            "x": draw.standard_normal((64, 16)).astype(np.float32),
            "labels": draw.integers(0, 4, 64),
        },
    )
    return folder


def describe(folder, **changes):
    options = {
        "model": str(MODEL),
        "loss": "cross_entropy(prediction, labels)",
        "data": str(folder / "points.safetensors"),
        "policy": "bf16-amp",
        "lr": 0.01,
        "set": {"weight_decay": 0.1, "beta1": 0.8},
        "steps": 3,
        "seed": 4,
    } | changes
    return {key: value for key, value in options.items() if value is not None}


def write(folder, name, **changes):
    path = folder / name
    path.write_text(yaml.safe_dump(describe(folder, **changes)))
    return path


def words(folder):
    return ["train", MODEL, "--loss", "cross_entropy(prediction, labels)", "--data",
            folder / "points.safetensors", "--policy", "bf16-amp", "--lr", 0.01,
            "--set", "weight_decay=0.1", "--set", "beta1=0.8", "--seed", 4]  # fmt: skip


def read(run):
    return (run / "final.safetensors").read_bytes()


@pytest.fixture(scope="module")
def expected(folder):
    process = binade(*words(folder), "--steps", 3, "--out", folder / "expected")
    assert process.returncode == 0, process.stderr
    return folder / "expected"


def test_a_file_trains_as_the_command_line_does(folder, expected, tmp_path):
    path = write(folder, "own.yaml", out=str(tmp_path / "run"))
    process = binade("train", path)
    assert process.returncode == 0, process.stderr
    assert read(tmp_path / "run") == read(expected)
    command = json.loads((tmp_path / "run/run.json").read_text())["invocations"][0]
    assert command["command"][:3] == ["binade", "train", str(MODEL)]


@pytest.mark.parametrize("place", ["before", "after"])
def test_options_of_the_command_line_replace_those_of_the_file(place, folder, tmp_path):
    path = write(folder, "long.yaml", steps=50, policy="coat", set={"beta1": 0.5})
    options = ["--steps", 3, "--policy=bf16-amp", "--set", "weight_decay=0.1",
               "--set", "beta1=0.8", "--out", tmp_path / "run"]  # fmt: skip
    process = (
        binade("train", path, *options)
        if place == "after"
        else binade("train", *options, path)
    )
    assert process.returncode == 0, process.stderr
    process = binade(*words(folder), "--steps", 3, "--out", tmp_path / "other")
    assert read(tmp_path / "run") == read(tmp_path / "other")


def test_a_run_writes_the_file_that_repeats_it(folder, expected, tmp_path):
    options = yaml.safe_load((expected / "run.yaml").read_text())
    assert options == describe(folder, set=["weight_decay=0.1", "beta1=0.8"])
    process = binade("train", expected / "run.yaml", "--out", tmp_path / "again")
    assert process.returncode == 0, process.stderr
    assert read(tmp_path / "again") == read(expected)
    assert (tmp_path / "again/run.yaml").read_text() == (
        expected / "run.yaml"
    ).read_text()


def test_special_characters_survive(folder, tmp_path):
    """Names that YAML would read as something else."""
    data = tmp_path / "- a: 'b' #\"c\".safetensors"
    data.write_bytes((folder / "points.safetensors").read_bytes())
    process = binade(
        *words(folder), "--data", data, "--steps", 1, "--out", tmp_path / "run"
    )
    # --data is given twice, which only the file may replace.
    assert process.returncode == 2
    path = write(folder, "names.yaml", data=str(data), steps=1)
    process = binade("train", path, "--out", tmp_path / "run")
    assert process.returncode == 0, process.stderr
    options = yaml.safe_load((tmp_path / "run/run.yaml").read_text())
    assert options["data"] == str(data)
    process = binade("train", tmp_path / "run/run.yaml", "--out", tmp_path / "again")
    assert process.returncode == 0, process.stderr
    assert read(tmp_path / "again") == read(tmp_path / "run")


@pytest.mark.parametrize("flag, expected", [(True, True), (False, False)])
def test_options_without_values(flag, expected, folder, tmp_path):
    path = write(folder, "flag.yaml", **{"save-inputs": None, "overwrite": flag})
    first = binade("train", path, "--out", tmp_path / "run")
    assert first.returncode == 0, first.stderr
    again = binade("train", path, "--out", tmp_path / "run")
    assert (again.returncode == 0) == expected


@pytest.mark.parametrize("command", ["explain", "compile", "fit", "inspect"])
def test_other_commands_take_what_they_know(command, folder, tmp_path):
    path = write(folder, "other.yaml")
    more = {"compile": ["-o", tmp_path / "step.bnd"], "fit": ["--memory", "1GiB"]}
    process = binade(command, path, *more.get(command, []))
    assert process.returncode == 0, process.stderr
    assert "command:" not in process.stdout


def test_a_sweep_takes_the_options_of_a_run(expected, tmp_path):
    out = tmp_path / "swept"
    process = binade("sweep", expected / "run.yaml", "--policies", "fp32,bf16-amp",
                     "--seeds", "4", "--out", out)  # fmt: skip
    assert process.returncode == 0, process.stderr
    runs = {
        json.loads(path.read_text())["policy"]: path.parent
        for path in out.rglob("run.json")
    }
    assert set(runs) == {"fp32", "bf16-amp"}
    assert read(runs["bf16-amp"]) == read(expected)
    process = binade("sweep", expected / "run.yaml", "--policies", "fp32", "--seeds", "4",
                     "--steps", 2, "--out", tmp_path / "short")  # fmt: skip
    assert process.returncode == 0, process.stderr
    metrics = next((tmp_path / "short").rglob("metrics.jsonl")).read_text()
    assert json.loads(metrics.splitlines()[-1])["step"] == 2


def test_other_programs_take_the_options_of_a_run(expected, tmp_path):
    process = binade("shadow", expected / "run.yaml")
    assert process.returncode == 0, process.stderr
    assert "matmul" in process.stdout


WRONG = {
    "unknown key": (
        "model: m.onnx\nstep: 3\n",
        [
            "2:1: error: unknown key 'step' in the options of a command; "
            "did you mean 'steps'?\n"
        ],
    ),
    "no near key": (
        "model: m.onnx\nfrobnicate: 3\n",
        [
            "2:1: error: unknown key 'frobnicate' in the options of a command; "
            "'binade help train' lists the keys\n"
        ],
    ),
    "no model": ("steps: 3\n", ["has no model"]),
    "list": ("- model\n", ["1:1", "expected the options of a command"]),
    "list for a single value": (
        "model: m.onnx\nsteps: [1, 2]\n",
        ["own.yaml:2:", "expected a single value"],
    ),
    "flag": ("model: m.onnx\noverwrite: 3\n", ["2:12", "true or false", "'3'"]),
    "twice": ("model: a.onnx\nmodel: b.onnx\n", ["2:1", "repeated"]),
    "no YAML": ("model: [", ["own.yaml"]),
    "empty": ("", ["own.yaml"]),
    "value": ("model: m.onnx\nsteps: many\nout: run\n", ["--steps", "'many'"]),
}


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_files_are_refused(kind, tmp_path):
    text, expected = WRONG[kind]
    (tmp_path / "own.yaml").write_text(text)
    process = binade("train", tmp_path / "own.yaml")
    assert process.returncode == (2 if kind == "value" else 3), process.stderr
    assert process.stderr.count("error:") == 1
    for word in expected:
        assert word in process.stderr


def test_the_directory_of_a_run_is_refused_with_its_file(folder, expected):
    done = binade("explain", expected)
    assert done.returncode == 3
    assert (
        f"{expected}: error: is the directory of a run, expected a model; "
        in done.stderr
    )
    assert f"{expected}/run.yaml repeats the options of the run" in done.stderr


def test_a_missing_file_is_refused(tmp_path):
    process = binade("train", tmp_path / "absent.yaml", "--out", tmp_path / "run")
    assert process.returncode == 3
    assert "absent.yaml" in process.stderr
    assert not (tmp_path / "run").exists()


def test_a_policy_is_not_an_option_file(tmp_path):
    (tmp_path / "own.yaml").write_text("name: own\nextends: bf16-amp\n")
    process = binade("policy", "show", tmp_path / "own.yaml")
    assert process.returncode == 0, process.stderr
