"""`utils/setup.sh` installs missing packages, or explains how to install them."""

import os
import shutil
import subprocess
import tempfile

import pytest
from support.paths import ROOT
from support.sources import write

STUBS = {
    # All packages are installed except those in MISSING.
    "dpkg-query": 'for last; do :; done; case " $MISSING " in *" $last "*) exit 1;; esac; echo -n installed',
    "apt-cache": 'case " $UNKNOWN " in *" $2 "*) exit 0;; esac; echo "  Candidate: 1.0"',
    "apt-get": 'echo "apt-get $*" >> "$CALLS"',
}


def run_setup(root, *arguments, user=None, **environment):
    """Runs utils/setup.sh in a tree without Python requirements, with a fake apt."""
    shutil.copytree(ROOT / "utils", root / "utils")
    write(root, "python/requirements.txt", "# nothing\n")
    stubs = root / "stubs"
    for name, body in STUBS.items():
        write(root, f"stubs/{name}", f"#!/bin/sh\n{body}\n")
        (stubs / name).chmod(0o755)
    for name in ("bash", "cat", "chmod", "cmp", "cp", "dirname", "env", "sed"):
        (stubs / name).symlink_to(shutil.which(name))
    command = [root / "utils/setup.sh", *arguments]
    if user and os.geteuid() == 0:
        become = [shutil.which("setpriv"), f"--reuid={user}"]
        if subprocess.run([*become, "true"], capture_output=True).returncode:
            pytest.skip("there is no other user in this user namespace")
        inside = root.relative_to(tempfile.gettempdir())
        for path in (root, *root.parents[: len(inside.parts) - 1]):
            path.chmod(0o755)
        for path in root.rglob("*"):  # Independent of the umask.
            if not path.is_symlink():
                readable = 0o055 if path.is_dir() else 0o044
                path.chmod(path.stat().st_mode | readable)
        command = [*become, *command]
    calls = root / "calls"
    environment = {"PATH": str(stubs), "CALLS": str(calls), **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    text = calls.read_text() if calls.exists() else ""
    return done.returncode, done.stdout + done.stderr, text.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="installing by apt needs root")
def test_setup_installs_missing_packages_in_one_call(tmp_path):
    status, output, calls = run_setup(tmp_path, MISSING="lld-22 libdnnl-dev")
    assert status == 0, output
    install = "apt-get install -y -qq --no-install-recommends lld-22 libdnnl-dev"
    assert calls == ["apt-get update -qq", install]
    assert "setup: apt: installing lld-22 libdnnl-dev" in output
    assert (tmp_path / ".venv/bin/python").exists()


def test_setup_does_not_call_apt_when_nothing_is_missing(tmp_path):
    status, output, calls = run_setup(tmp_path)
    assert (status, calls) == (0, []), output
    assert "packages are installed" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="installing by apt needs root")
def test_setup_names_the_package_repository_of_llvm(tmp_path):
    names = "libmlir-22-dev clang-22"
    status, output, calls = run_setup(tmp_path, MISSING=names, UNKNOWN=names)
    assert status == 1
    assert f"error: apt finds no package for: {names}" in output
    assert "LLVM's package\nrepository for Debian, branch 22" in output
    assert calls == ["apt-get update -qq"]


def test_setup_without_root_and_sudo_prints_the_command(tmp_path):
    status, output, calls = run_setup(tmp_path, user=65534, MISSING="cmake")
    assert (status, calls) == (1, [])
    assert "neither root nor is there sudo" in output
    assert "apt-get install --no-install-recommends cmake" in output


def test_setup_rejects_an_invalid_argument(tmp_path):
    status, output, _ = run_setup(tmp_path, "--with", "cuda")
    assert status == 1
    assert (
        "--with takes 'torch', 'peers', 'wheel', 'browser' or 'docs', got 'cuda'"
        in output
    )
