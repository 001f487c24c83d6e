"""Batches of a data file by their numbers, and PyTorch's checkpoints of compiled steps: what
``binade train`` reads and continues from is the expected value.
"""

import binade
import binade.torch
import numpy as np
import pytest
from binade import safetensors
from binade.errors import RejectedError, UsageError
from support import distributed_models
from support.reference import binade as run_binade

WINDOW = "input_ids=tokens[0:32],labels=tokens[1:33]"
OPTIONS = {"optimizer": "adamw", "threads": 1, "accumulate": 2}
FLAGS = ("--optimizer", "adamw", "--threads", 1, "--accumulate", 2, "--states", "dyn8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    distributed_models.export_char_gpt(folder, batch=2, dropout=0.1)
    tokens = np.random.default_rng(0).integers(0, 94, 33 * 7, np.uint8)
    safetensors.save(folder / "train.safetensors", {"tokens": tokens})
    return folder


def compile_step(folder, states="dyn8", **more):
    return binade.compile(folder / "gpt.onnx", states=states, **OPTIONS, **more)


def open_batches(step, folder, **options):
    path = folder / "train.safetensors"
    return binade.torch.Batches(step, path, window=WINDOW, **options)


def train(step, batches, steps):
    for _ in range(steps):
        first = 2 * step.calls
        step([batches(first), batches(first + 1)])


def train_alone(folder, out, *flags, steps):
    run_binade(
        "train", folder / "gpt.onnx", "--data", folder / "train.safetensors",
        "--window", WINDOW, *FLAGS, "--steps", steps, "--out", out, *flags,
    )  # fmt: skip
    return safetensors.load(out / "final.safetensors")


def check_equal(step, expected):
    for role, prefix in (("parameter", ""), ("state", "state/"), ("scaler", "scaler/")):
        for name, value in step.ports(role).items():
            np.testing.assert_array_equal(value, expected[prefix + name], err_msg=name)
    assert step.updates == expected["step"]
    np.testing.assert_array_equal(step.ports("rng")["rng"], expected["rng"])


def test_batches_are_those_of_binade_train(folder, tmp_path):
    """Over several epochs of 3 batches, each in an order of its own."""
    expected = train_alone(folder, tmp_path / "run", steps=5)
    step = compile_step(folder)
    batches = open_batches(step, folder)
    assert (len(batches), batches.samples) == (3, 7)
    train(step, batches, 5)
    check_equal(step, expected)


def test_batches_do_not_depend_on_what_was_read_before(folder):
    step = compile_step(folder)
    ordered = open_batches(step, folder, seed=3)
    every = [ordered(number)["labels"] for number in range(8)]
    for order in ([7, 0, 3], [1, 3, 5], [6, 6, 2]):
        batches = open_batches(step, folder, seed=3)
        for number in order:
            np.testing.assert_array_equal(batches(number)["labels"], every[number])
    # No sample is repeated in an epoch: the inputs of all windows differ.
    read = np.concatenate([ordered(n)["input_ids"] for n in range(3)])
    assert len(np.unique(read, axis=0)) == 6


def test_checkpoints_continue_in_binade_train_and_back(folder, tmp_path):
    step = compile_step(folder)
    batches = open_batches(step, folder)
    train(step, batches, 3)
    binade.torch.save_checkpoint(step, tmp_path / "saved")

    copy = compile_step(folder, seed=5)
    binade.torch.load_checkpoint(copy, tmp_path / "saved")
    assert copy.calls == 3
    copy.save(tmp_path / "state.safetensors")
    check_equal(step, safetensors.load(tmp_path / "state.safetensors"))

    init = ("--init", tmp_path / "state.safetensors")
    expected = train_alone(folder, tmp_path / "run", *init, steps=2)
    copy.calls = 0  # The run has its own order of batches.
    train(copy, batches, 2)
    check_equal(copy, expected)

    back = compile_step(folder, seed=6)
    back.restore(tmp_path / "run" / "final.safetensors")
    binade.torch.save_checkpoint(back, tmp_path / "back")
    binade.torch.load_checkpoint(step, tmp_path / "back")
    check_equal(step, expected)


@pytest.mark.parametrize(
    "states, words", [("f32", "in the step"), ("linear8", "other formats")]
)
def test_checkpoints_of_other_formats_are_refused(states, words, folder, tmp_path):
    step = compile_step(folder)
    binade.torch.save_checkpoint(step, tmp_path / "saved")
    other = compile_step(folder, states=states, seed=1)
    before = {name: value.copy() for name, value in other.parameters.items()}
    with pytest.raises(RejectedError, match=words):
        binade.torch.load_checkpoint(other, tmp_path / "saved")
    for name, value in other.parameters.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_run_continues_only_with_the_same_computation(folder, tmp_path):
    options = {"exchange": "exact", **OPTIONS}
    step = binade.torch.distribute(binade.compile(folder / "gpt.onnx", **options))
    batches = open_batches(step, folder)
    binade.torch.train(step, batches, tmp_path / "run", steps=2)
    again = binade.torch.train(step, batches, tmp_path / "run", steps=3)
    assert (len(again), step.calls) == (1, 3)
    options["clip"] = 0.5
    other = binade.torch.distribute(binade.compile(folder / "gpt.onnx", **options))
    with pytest.raises(RejectedError, match="another run: its computation"):
        binade.torch.train(other, batches, tmp_path / "run", steps=4)


def test_the_directory_of_binade_train_is_named(folder, tmp_path):
    words = ["train", folder / "gpt.onnx", "--data", folder / "train.safetensors", "--window",
             WINDOW, "--steps", 1, "--out", tmp_path / "run", *FLAGS]  # fmt: skip
    done = run_binade(*words)
    assert done.returncode == 0, done.stderr
    step = binade.torch.distribute(compile_step(folder, exchange="exact"))
    with pytest.raises(
        RejectedError, match=r"a run of 'binade train', which .* step\.restore\('"
    ):
        binade.torch.train(step, open_batches(step, folder), tmp_path / "run", steps=2)
    final = tmp_path / "run" / "final.safetensors"
    step.restore(final)
    check_equal(step, safetensors.load(final))


def test_incomplete_checkpoints_are_refused(folder, tmp_path):
    step = compile_step(folder)
    binade.torch.save_checkpoint(step, tmp_path / "saved")
    (tmp_path / "saved" / ".metadata").unlink()
    for name in ("saved", "absent"):
        with pytest.raises(RejectedError, match="no complete checkpoint"):
            binade.torch.load_checkpoint(step, tmp_path / name)


def test_a_wrong_order_is_refused(folder):
    step = compile_step(folder)
    with pytest.raises(UsageError, match="'shuffle' or 'sequential'"):
        open_batches(step, folder, order="random")
    with pytest.raises(RejectedError):
        binade.torch.Batches(step, folder / "train.safetensors")
