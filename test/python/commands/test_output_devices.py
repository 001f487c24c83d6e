"""Every option that names an output file accepts a device such as /dev/null, and a pipe."""

import os
import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors
from support.train_commands import MINI, WINDOW, train

COMMANDS = {
    "import": ["import", MINI],
    "compile": ["compile", MINI],
    "convert": ["convert", MINI, "--policy", "bf16-amp"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_device_takes_the_output(name):
    before = set(os.listdir("/dev"))
    process = binade(*COMMANDS[name], "-o", "/dev/null")
    assert process.returncode == 0, process.stderr
    assert set(os.listdir("/dev")) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_takes_the_bytes_of_the_file(name, tmp_path):
    assert binade(*COMMANDS[name], "-o", tmp_path / "file").returncode == 0
    command = [
        str(BUILD / "bin/binade"),
        *map(str, COMMANDS[name]),
        "-o",
        "/dev/stderr",
    ]
    piped = subprocess.run(command, capture_output=True, check=True, timeout=300)
    # `import` prints numbers of nodes and tensors before.
    assert piped.stderr.endswith((tmp_path / "file").read_bytes())


def test_weights_in_a_file_of_their_own_need_a_name(tmp_path):
    """Such weights are in a file named after the model, which would be /dev/null.data."""
    data, run = tmp_path / "data.safetensors", tmp_path / "run"
    safetensors.save(data, {"tokens": np.arange(16 * 128 + 1, dtype=np.uint8) % 94})
    process = train(MINI, data, "--window", WINDOW, out=run)
    assert process.returncode == 0, process.stderr
    command = ["export", run, "--model", MINI, "-o", "/dev/null", "--weights"]
    assert binade(*command, "inside").returncode == 0
    process = binade(*command, "beside")
    assert process.returncode == 2, process.stderr
    assert "/dev/null: is a device or pipe" in process.stderr
    assert not os.path.exists("/dev/null.data")
