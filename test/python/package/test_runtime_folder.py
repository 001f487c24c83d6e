"""`utils/build_runtime.sh` builds a folder that runs bundles on a bare system."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors

SCRIPT = ROOT / "utils" / "build_runtime.sh"
# Libraries of a bare system.
SYSTEM = re.compile(
    r"linux-vdso|ld-linux|lib(?:c|m|dl|pthread|rt|gcc_s)\.so|libstdc\+\+"
)
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-run").exists(), reason="binade-run is not built"
)


def build(*arguments):
    return subprocess.run(
        [SCRIPT, *arguments], env=os.environ | {"BINADE_BUILD": str(BUILD)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """The built folder, moved to another place."""
    folder = tmp_path_factory.mktemp("runtime")
    done = build(folder / "made")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (folder / "made/NEEDS.txt").read_text()
    return (folder / "made").rename(folder / "moved")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    done = binade(
        "compile", ROOT / "examples/mlp/mlp.onnx", "--loss",
        "cross_entropy(prediction, labels)", "-o", folder / "step.bnd",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.random.default_rng(0).standard_normal((64, 16), np.float32)
    data = {"x": x, "labels": (x > 0).sum(1) % 4}
    safetensors.save(folder / "train.safetensors", data)
    return folder


def list_linked(file, **environment):
    """Returns (name, path) of the libraries that the loader finds for a file."""
    done = subprocess.run(
        ["ldd", file], env=environment, capture_output=True, text=True, check=True
    )
    assert "not found" not in done.stdout, done.stdout
    return re.findall(r"^\s*(\S+) => (.+) \(0x", done.stdout, re.MULTILINE)


def test_the_runtime_links_only_the_system_and_itself(runtime):
    for file in ("bin/binade-run", "lib/libbinade_runtime.so"):
        for name, path in list_linked(runtime / file):
            assert not re.search(r"LLVM|MLIR|python|cuda", name), f"{file}: {name}"
            within = path.startswith(str(runtime))
            assert SYSTEM.search(name) or within, f"{file}: {path}"


def test_needs_txt_states_the_requirements(runtime):
    text = (runtime / "NEEDS.txt").read_text()
    (needed,) = re.findall(r"glibc +(2\.\d+) or newer", text)
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert (
        [2, 17] <= list(map(int, needed.split("."))) <= list(map(int, here.split(".")))
    )
    assert re.search(r"GLIBCXX_3\.4\.\d+", text)
    assert "of CUDA 11.8 or newer" in text
    assert sum(path.lstat().st_size for path in runtime.rglob("*")) < 8 << 20


def copy_system(runtime, root):
    """Copies the loader, the libraries of a bare system, and the folder to `root`."""
    shutil.copytree(runtime, root / "opt/binade", symlinks=True)
    paths = {path for _, path in list_linked(runtime / "bin/binade-run")}
    loader = "/lib64/ld-linux-x86-64.so.2"
    for path in [loader, *(p for p in paths if not p.startswith(str(runtime)))]:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])


def arguments(folder, out):
    return [folder / "step.bnd", "--data", folder / "train.safetensors", "--steps", 3,
            "--out", out, "--seed", 1]  # fmt: skip


def test_the_runtime_runs_without_an_environment(runtime, bundle, tmp_path):
    """Computes the bits of `binade train`. Both use Binade's own matmuls."""
    done = subprocess.run(
        [runtime / "bin/binade-run", *map(str, arguments(bundle, tmp_path / "run"))],
        env={"BINADE_CONTRACTION": "own"}, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = binade(
        "train", *arguments(bundle, tmp_path / "train"),
        env=os.environ | {"BINADE_CONTRACTION": "own"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, expected = (
        (tmp_path / name / "final.safetensors").read_bytes()
        for name in ("run", "train")
    )
    assert found == expected


def test_the_runtime_runs_on_a_bare_system(runtime, bundle, tmp_path):
    copy_system(runtime, tmp_path)
    shutil.copytree(bundle, tmp_path / "data")
    (tmp_path / "proc").mkdir()
    # The new root needs /proc, which contains the path of a program.
    enter = 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
    system = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    start = ["unshare", "--mount", "sh", "-c", enter, tmp_path]

    def run(*command):
        return subprocess.run(
            [*start, *command], env=system, capture_output=True, text=True, check=False
        )

    if run("/opt/binade/bin/binade-run", "--version").returncode == 1:
        pytest.skip("this user may not change the root of a process")
    done = run(
        "/opt/binade/bin/binade-run", "/data/step.bnd", "--data",
        "/data/train.safetensors", "--steps", "3", "--out", "/run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/final.safetensors").exists()


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ([], 2, "a folder is expected"),
        (["--what"], 2, "unknown option --what"),
        (["--with", "cuda", "out"], 2, "--with takes 'onednn', got 'cuda'"),
        (["a", "b"], 2, "one folder is expected, got 'a' and 'b'"),
        ([ROOT / "utils"], 1, "utils exists; name a folder that does not"),
    ],
)
def test_invalid_command_lines(given, code, message):
    done = build(*given)
    assert done.returncode == code
    assert message in done.stderr
