"""The archive that benchmarks/gpu/prepare.sh makes is all that run.sh needs."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from support.cuda_runs import SIMULATED, need_simulated_driver
from support.gpu_benchmarks import FEW_ROWS, prepare
from support.paths import BUILD, ROOT

# Of the archive, but for `rates`, which needs a device, and `statistics`, which takes long
# to simulate.
PARTS = ["conversions", "expansion", "records", "models", "steps", "attention", "head",
         "kernels", "matmuls", "launches", "autotune"]  # fmt: skip
# Python runs it first. Nothing but Python's packages and the simulated driver may be read
# from the repository.
WATCH = """
import os, sys

def watch(event, arguments):
    if event not in ("open", "ctypes.dlopen", "os.listdir", "os.scandir", "subprocess.Popen"):
        return
    path = arguments[0]
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, (str, os.PathLike)):
        return
    path = os.path.abspath(path)
    if path.startswith({root!r} + os.sep) and not path.startswith({allowed!r}):
        raise PermissionError(f"{{event}} of {{path}}, which is in the repository")

sys.addaudithook(watch)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The archive in a folder of another repository, whose commit must not be reported."""
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("made")
    prepare(folder / "artifacts", "--only", ",".join(FEW_ROWS), *PARTS)
    alone = tmp_path_factory.mktemp("other")
    subprocess.run(["git", "init", "-q", alone], check=True)
    archive = folder / "artifacts.tar.gz"
    subprocess.run(["tar", "-xzf", archive, "-C", alone], check=True)
    shutil.rmtree(folder)
    return alone / "artifacts"


@pytest.fixture
def environment(tmp_path):
    """Without Binade's variables, and with reads from the repository forbidden."""
    allowed = (f"{ROOT}/.venv{os.sep}", sys.prefix, sys.base_prefix, str(SIMULATED))
    text = WATCH.format(root=str(ROOT), allowed=allowed)
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/sitecustomize.py").write_text(text)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BINADE_")}
    return kept | {"PYTHON": sys.executable, "LD_LIBRARY_PATH": str(SIMULATED),
                   "PYTHONPATH": str(tmp_path / "watch")}  # fmt: skip


def run(folder, *command, env):
    return subprocess.run(
        [*map(str, command)], env=env, cwd=folder, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip


def test_reads_from_the_repository_are_found(environment, tmp_path):
    program = f"print(len(open({str(ROOT / 'README.md')!r}).read()))"
    done = run(tmp_path, sys.executable, "-c", program, env=environment)
    assert done.returncode == 1 and "is in the repository" in done.stderr


@pytest.mark.slow
def test_the_archive_runs_without_the_repository(unpacked, environment, tmp_path):
    out = tmp_path / "out"
    done = run(tmp_path, unpacked / "benchmarks/gpu/run.sh", "--out", out, "--time", 4,
               *PARTS, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.json")
    result = json.loads(path.read_text())
    assert {part["name"]: part["status"] for part in result["parts"]} == dict.fromkeys(
        PARTS, "passed"
    )
    manifest = json.loads((unpacked / "manifest.json").read_text())
    assert result["commit"] == manifest["commit"] == result["artifacts"]
    assert {row["part"] for row in result["rows"]} == {
        "steps", "attention", "head", "kernels", "matmuls", "launches", "autotune"
    }  # fmt: skip
    (step,) = [row for row in result["rows"] if row["part"] == "steps"]
    table = step["profile"]["records"]
    assert table["columns"][:2] == ["path", "label"] and len(table["rows"]) > 10
    assert sum(row[3] for row in table["rows"]) == step["records"]
    # What needs a device says so.
    for row in result["rows"]:
        if row["part"] != "launches":
            assert row["unavailable"], row["name"]
    assert "## Missing peers" in path.with_suffix(".md").read_text()


@pytest.mark.slow
def test_peers_of_steps_are_in_the_archive(unpacked, environment):
    """PyTorch's models read files of the examples."""
    pytest.importorskip("torch")
    program = (
        "import sys; sys.path.insert(0, 'benchmarks/gpu'); import cases, models, torch\n"
        "with torch.device('meta'): print(len(list(models.PEERS['gpt2']().parameters())))"
    )
    done = run(unpacked, sys.executable, "-c", program, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "148"  # GPT-2's tensors.


@pytest.mark.slow
def test_missing_files_fail_their_part_only(unpacked, environment, tmp_path):
    bundle = unpacked / "steps/gpt2-bf16.bnd"
    hidden = bundle.rename(bundle.with_suffix(".hidden"))
    try:
        done = run(tmp_path, unpacked / "benchmarks/gpu/run.sh", "--out", tmp_path / "out",
                   "--time", 4, "steps", "matmuls", env=environment)  # fmt: skip
    finally:
        hidden.rename(bundle)
    assert done.returncode == 1
    (path,) = (tmp_path / "out").glob("*.json")
    parts = {part["name"]: part for part in json.loads(path.read_text())["parts"]}
    assert parts["matmuls"]["status"] == "passed"
    assert parts["steps"]["status"] == "failed"
    assert parts["steps"]["message"] == (
        "1 files of the artifacts are missing, first steps/gpt2-bf16.bnd: unpack "
        "artifacts.tar.gz again"
    )


def test_commit_of_an_enclosing_repository_is_not_used(tmp_path):
    """The commit of copied files that are not in a repository is unknown."""
    for folder in ("benchmarks", "python/binade"):
        shutil.copytree(ROOT / folder, tmp_path / "copy" / folder,
                        ignore=shutil.ignore_patterns("artifacts", "artifacts.tar.gz"))  # fmt: skip
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=b"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "other"]):
        subprocess.run([*git, *command], check=True)
    program = "import artifacts; print(artifacts.find_commit())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "copy/benchmarks/gpu",
        env=os.environ | {"BINADE_BUILD": str(BUILD)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "unknown"
