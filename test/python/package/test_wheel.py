"""`utils/build_release.sh` builds a wheel that compiles and trains on a machine with only
Python, and the runtime. Expected results are those of the local build."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import numpy as np
import pytest
from support.paths import BUILD, ROOT
from support.reference import binade, safetensors

for tool in ("auditwheel", "scikit_build_core", "wheel"):
    pytest.importorskip(tool, reason=f"no {tool}: utils/setup.sh --with wheel")

pytestmark = pytest.mark.nightly  # Three minutes.

# Folders that the wheel must not need: the system's LLVM, and where it was built.
HIDDEN = [pathlib.Path("/usr/lib/llvm-22"), ROOT]
LIBRARIES = (
    "libLLVM*.so*",
    "libdnnl.so*",
    "libprotobuf*.so*",
    "libmuparser.so*",
    "libz3.so*",
)
LOSS = ["--loss", "cross_entropy(prediction, labels)"]
STEP = """
import numpy as np, onnx, sys
import binade, binade.safetensors

data = binade.safetensors.load("train.safetensors")
step = binade.compile(
    "mlp.onnx", loss="cross_entropy(prediction, labels)", policy="bf16-amp",
    states="dyn8", threads=1,
)
batch = {name: data[name][: port.shape[0]] for name, port in step.batch.items()}
print([step(batch).loss for _ in range(3)])
opened = open("/proc/self/maps").read()
assert "native/lib/libdnnl.so.2" in opened and "native/lib/libLLVM" in opened
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    out = tmp_path_factory.mktemp("release") / "out"
    cache = (BUILD / "CMakeCache.txt").read_text()
    (prefix,) = re.findall("^CMAKE_INSTALL_PREFIX:PATH=(.*)$", cache, re.MULTILINE)
    done = subprocess.run(
        [ROOT / "utils/build_release.sh", out], capture_output=True, text=True,
        env=os.environ | {"BINADE_PYTHON": sys.executable, "BINADE_BUILD": str(BUILD)},
    )  # fmt: skip
    back = [f"-DCMAKE_INSTALL_PREFIX={prefix}", "-USKBUILD*"]
    subprocess.run(["cmake", *back, BUILD], capture_output=True, check=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a model, data and the script to run."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copy(ROOT / "examples/mlp/mlp.onnx", folder)
    x = np.random.default_rng(0).standard_normal((64, 16), np.float32)
    data = {"x": x, "labels": (x > 0).sum(1) % 4}
    safetensors.save(folder / "train.safetensors", data)
    (folder / "step.py").write_text(STEP)
    return folder


@pytest.fixture(scope="module")
def installed(release, tmp_path_factory):
    """A virtual environment with only the wheel. `enter.sh` hides all other libraries."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run(["/usr/bin/python3", "-m", "venv", place / "venv"], check=True)
    (wheel,) = release.glob("*.whl")
    done = subprocess.run(
        [place / "venv/bin/pip", "install", "--quiet", wheel],
        capture_output=True,
        text=True,
    )
    if "No matching distribution" in done.stderr or "Connection" in done.stderr:
        pytest.skip("the packages that the wheel needs are not offered here")
    assert done.returncode == 0, done.stderr
    (place / "nothing").mkdir()
    lines = ["set -e"]
    for folder in HIDDEN:
        lines.append(f"mount --bind {place}/nothing {folder}")
    for pattern in LIBRARIES:
        for library in pathlib.Path("/usr/lib/x86_64-linux-gnu").glob(pattern):
            if not library.is_symlink():
                lines.append(f"mount --bind /dev/null {library}")
    (place / "enter.sh").write_text("\n".join([*lines, 'exec "$@"', ""]))
    return place


def enter(installed, folder, *command, path=""):
    bin_ = installed / "venv/bin"
    return subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/bash", installed / "enter.sh",
         bin_ / command[0], *map(str, command[1:])],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": f"{path}/usr/bin:/bin", "HOME": str(folder),
             "BINADE_CUDA_ROOT": "/nowhere"},
    )  # fmt: skip


@pytest.fixture
def run(installed, work):
    if enter(installed, work, "python", "-c", "").returncode:
        pytest.skip("this user may not hide folders from a process")

    def run(*command, path=f"{installed / 'venv/bin'}:"):
        done = enter(installed, work, *command, path=path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_release_has_wheel_runtime_and_checksums(release):
    lines = dict(
        reversed(line.split())
        for line in (release / "SHA256SUMS").read_text().splitlines()
    )
    assert {path.name for path in release.iterdir()} == {*lines, "SHA256SUMS"}
    for name, expected in lines.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == expected
    (wheel,) = (name for name in lines if name.endswith(".whl"))
    assert wheel.endswith("-manylinux_2_36_x86_64.whl")
    (archive,) = release.glob("*.tar.gz")
    with tarfile.open(archive) as runtime:
        names = {pathlib.PurePath(name).name for name in runtime.getnames()}
    assert {"binade-run", "libbinade_runtime.so", "libdnnl.so.2", "LICENSE"} <= names


def test_the_license_of_each_library_is_in_the_wheel(release):
    (wheel,) = release.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    licences = {pathlib.PurePath(name).name for name in names if "/licenses/" in name}
    assert {"LICENSE", "libllvm22.txt", "lld-22.txt", "libdnnl2.txt", "libgomp1.txt",
            "GPL-3"} <= licences  # fmt: skip
    assert {"binade/py.typed", "binade/_core.pyi"} <= set(names)


def test_the_wheel_compiles_and_trains_without_llvm(run, work):
    found = run("python", "step.py")
    here = subprocess.run(
        [sys.executable, "-c", STEP.partition("opened")[0]], cwd=work, text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": str(BUILD / "python")},
    )  # fmt: skip
    assert found == here.stdout, here.stderr


def test_the_commands_train(run, work):
    assert "ptxas was not found" in run("binade", "list", "targets")
    steps = ["--data", "train.safetensors", "--steps", 3, "--threads", 1]
    run("binade", "train", "mlp.onnx", *LOSS, *steps, "--out", "run")
    run("binade", "compile", "mlp.onnx", *LOSS, "-o", "step.bnd")
    run("binade-run", "step.bnd", *steps, "--out", "other")
    run(
        "binade",
        "compile",
        "mlp.onnx",
        *LOSS,
        "--target",
        "cuda:sm_90",
        "-o",
        "gpu.bnd",
    )
    assert "mlp" in run("binade", "runs", ".")
    assert "Usage: binade interpret" in run("binade", "interpret", "--help")
    done = binade("train", work / "mlp.onnx", *LOSS, *steps[2:], "--data",
                  work / "train.safetensors", "--out", work / "here")  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = (work / "here/final.safetensors").read_bytes()
    for name in ("run", "other"):
        assert (work / name / "final.safetensors").read_bytes() == expected


SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_command_starts(name, run):
    """Each script starts under its own name, and `binade-NAME` also as `binade NAME`."""
    assert "usage: " in run(name, "--help").lower()
    program, _, command = name.partition("-")
    if command and command != "run":
        assert f"usage: binade {command}" in run(program, command, "--help")


def test_commands_find_each_other_off_the_path(run, work):
    """`venv/bin/binade-shadow` finds `binade` if PATH does not contain it."""
    run("binade", "train", "mlp.onnx", *LOSS, "--data", "train.safetensors", "--steps", 3,
        "--policy", "fp16-amp", "--out", "seen", path="")  # fmt: skip
    assert "step 2 under fp16-amp and in f64" in run(
        "binade-shadow", "seen", "--step", 2, path=""
    )
    assert "step 3 has the bits that it had in seen" in run(
        "binade-replay", "seen", "--step", 3, "--out", "again", path=""
    )


@pytest.mark.parametrize("script", ["build_wheel", "build_release"])
def test_invalid_command_lines(script):
    for given, message in (([], "folder is expected"), (["--what"], "--what")):
        done = subprocess.run(
            [ROOT / f"utils/{script}.sh", *given], capture_output=True, text=True
        )
        assert done.returncode == 2 and message in done.stderr
