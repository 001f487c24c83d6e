"""Messages name the cause of an error, in terms that need no documentation. Each model contains
one error."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from support.message_models import check, draw, train, write  # noqa: E402

F32 = np.float32
MEAN = "s = Mul(p, p)\nloss = ReduceMean<keepdims = 0>(s)"
rng = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    labels = rng.integers(0, 5, 16)
    labels[3] = 5
    least = labels.clip(max=4)
    least[3] = np.iinfo(np.int64).min
    safetensors.save(tmp_path / "d.safetensors", {"x": draw(16, 4), "y": labels})
    safetensors.save(tmp_path / "least.safetensors", {"x": draw(16, 4), "y": least})
    return tmp_path


def unused(folder, **metadata):
    weights = {"w": draw(4, 3), "u": draw(3), "i": np.arange(3)}
    return write(folder / "m.onnx", f"p = MatMul(x, w)\n{MEAN}", weights=weights,
                 **metadata)  # fmt: skip


def test_an_unused_parameter_is_kept_with_a_warning(folder):
    model = unused(folder, trainable=["w", "u"])
    check(
        train(model), 0, "the loss does not depend on parameter 'u': it is not trained"
    )
    final = safetensors.load(folder / "run/final.safetensors")
    assert {"w", "u", "state/exp_avg/w"} <= final.keys()
    assert "state/exp_avg/u" not in final


@pytest.mark.parametrize("name, other", [
    ("step", "step 'step'"), ("state/exp_avg/w", "state 'exp_avg/w'"),
])  # fmt: skip
def test_names_of_parameters_must_not_collide_with_state(folder, name, other):
    """Names in checkpoints and final.safetensors are unique."""
    model = onnx.load(write(
        folder / "m.onnx", "p = MatMul(x, w)\nq = Add(p, other)\n"
        + MEAN.replace("p, p", "q, q"), weights={"w": draw(4, 3), "other": draw(3)},
    ))  # fmt: skip
    model.graph.initializer[1].name = name
    model.graph.node[1].input[1] = name
    onnx.save(model, folder / "m.onnx")
    check(train(folder / "m.onnx", "--train", "*"), 3, f"parameter '{name}'", other,
          f"would both be saved under the name '{name}'", "expected another name",
          without=["bug"])  # fmt: skip
    assert not (folder / "run").exists()


def test_an_unused_frozen_parameter_is_kept(folder):
    model = unused(folder, trainable=["w"], frozen=["u"])
    check(train(model), 0)
    assert "u" in safetensors.load(folder / "run/final.safetensors")


def test_freezing_all_parameters_is_an_error(folder):
    model = unused(folder, trainable=["w", "u"])
    check(train(model, "--freeze", "*"), 3, "all are frozen: 'w', 'u'", "--freeze freezes",
          without=["external data"])  # fmt: skip


def test_a_model_without_parameters_is_an_error(folder):
    check(train(unused(folder, trainable=[])), 3, "has no parameter to train",
          "--train GLOB", without=["all are frozen"])  # fmt: skip


@pytest.mark.parametrize("name, words", [
    ("x", ["names 'x'", "is an input without an initial value", "binade.init"]),
    ("i", ["names 'i'", "is 'i64'"]),
    ("z", ["names 'z'", "neither an initializer nor an input"]),
])  # fmt: skip
def test_metadata_with_untrainable_names_are_rejected(folder, name, words):
    body = f"t = Gather<axis = 1>(x, i)\np = MatMul(t, w)\n{MEAN}"
    model = write(folder / "m.onnx", body, weights={"w": draw(3, 3), "i": np.arange(3)},
                  trainable=["w", name])  # fmt: skip
    for command in ("import", "inspect"):
        process = binade(command, model)
        check(process, 3, "'binade.trainable'", *words)
    check(train(model), 3, "'binade.trainable'", *words)


def norm(folder, **metadata):
    body = f"p = BatchNormalization(x, g, b, running_mean, v)\n{MEAN}"
    weights = {"g": np.ones(4, F32), "b": np.zeros(4, F32),
               "running_mean": np.zeros(4, F32), "v": np.ones(4, F32),
               "u": draw(3)}  # fmt: skip
    return write(folder / "m.onnx", body, weights=weights, **metadata)


@pytest.mark.parametrize("flag", ["--train", "--freeze", "--fold"])
@pytest.mark.parametrize("glob, words", [
    ("running_mean", ["'running_mean' is a running statistic of node 'n0'"]),
    ("run*", ["'running_mean' is a running statistic of node 'n0'"]),
    ("u", ["no node reads 'u'"]), ("x", ["'x' is an input"]),
    ("running_meen", ["matches none"]), ("gg", ["matches none"]),
])  # fmt: skip
def test_globs_that_match_no_parameter_are_errors(folder, flag, glob, words):
    process = binade("import", norm(folder, trainable=["g", "b"]), flag, glob)
    check(process, 3, f"{flag} '{glob}' matches none of", *words)


def test_metadata_must_not_name_running_statistics(folder):
    process = binade("import", norm(folder, trainable=["g", "v"]))
    check(process, 3, "names 'v', which is a running statistic of node 'n0'")


def shared(folder, **metadata):
    body = ("a = LayerNormalization(x, g, b)\nc = MatMul(a, w)\n"
            f"p = LayerNormalization(c, g, b)\n{MEAN}")  # fmt: skip
    weights = {"g": np.ones(4, F32), "b": np.zeros(4, F32), "w": draw(4, 4)}
    return write(folder / "m.onnx", body, weights=weights, **metadata)


def test_a_shared_parameter_is_warned_about_once(folder):
    model = shared(folder, trainable=["g", "b", "w"])
    commands = [
        binade("import", model, "--report", "-o", folder / "m.mlir"),
        train(model),
    ]
    for process in commands:
        check(process, 0, "initializer 'g': warning: is read by 'n0' and 'n2', and trained",
              "initializer 'b' is read by 'n0' and 'n2'", "optimize=False")  # fmt: skip
        assert process.stderr.count("warning: is read by") == 1


def test_a_report_is_not_followed_by_the_module(folder):
    model = shared(folder, trainable=["g", "b", "w"])
    reported = binade("import", model, "--report")
    assert reported.returncode == 0, reported.stderr
    assert "parameters: 3 tensors" in reported.stderr
    assert reported.stdout == ""
    assert binade("import", model, "--report", "-o", "-").stdout.count("module {") == 1
    assert binade("import", model).stdout.count("module {") == 1


def test_many_shared_parameters_are_counted(folder):
    weights = {f"w{i}": draw(3) for i in range(9)}
    body = ["p0 = MatMul(x, w)"]
    for i in range(9):
        body += [f"q{i} = Add(p{i}, w{i})", f"p{i + 1} = Mul(q{i}, w{i})"]
    model = write(folder / "m.onnx", "\n".join([*body, MEAN.replace("p, p", "p9, p9")]),
                  weights={"w": draw(4, 3), **weights}, trainable=list(weights))  # fmt: skip
    process = train(model)
    check(
        process,
        0,
        "initializer 'w0': warning: is read by",
        "note: and 5 more initializers",
    )
    assert process.stderr.count("is read by") == 4


def test_readers_in_the_backward_pass_do_not_count_as_sharing(folder):
    """Nodes of the backward pass read the same parameters as those of the forward pass."""
    body = f"p = MatMul(x, w)\n{MEAN}\nt = Transpose(w)\ng = MatMul(p, t)"
    model = write(folder / "m.onnx", body, output="float loss, float[8, 4] g",
                  weights={"w": draw(4, 3)}, trainable=["w"])  # fmt: skip
    check(binade("import", model, "--report", "-o", folder / "m.mlir"), 0,
          without=["is read by"])  # fmt: skip


def test_equal_weights_of_an_exporter_cause_no_warning(folder):
    model = shared(folder, trainable=["g", "b", "w"], version=1)
    check(train(model), 0, without=["is read by"])


def test_convert_does_not_warn_about_untrained_parameters(folder):
    """`binade convert` does not train and has no --train."""
    tensor = lambda name, *shape: helper.make_tensor_value_info(name, 1, shape)
    nodes = [helper.make_node("MatMul", ["x", "a.w"], ["p"]),
             helper.make_node("Add", ["p", "a.b"], ["y"])]  # fmt: skip
    weights = {"a.w": draw(4, 3), "a.b": draw(3)}
    model = helper.make_model(helper.make_graph(
        nodes, "g", [tensor("x", 8, 4)], [tensor("y", 8, 3)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    ), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=80, location="w")
    process = binade("convert", path, "--policy", "bf16-amp", "-o", folder / "o.onnx")
    check(process, 0, without=["trained", "--train", "the loss"])
    check(binade("import", path), 0, "initializer 'a.b': warning: is not trained")


def test_injections_after_the_last_step_cause_a_warning(folder):
    model = unused(folder, trainable=["w"])
    data = folder / "d.safetensors"
    check(train(model, "--inject", f"{data}@99"), 0,
          f"--inject {data}@99 has no effect: training ends after step 1")  # fmt: skip
    check(train(model, "--inject", f"{data}@1"), 0, without=["no effect"])


@pytest.mark.parametrize("words, name", [
    (["train", "m.onnx", "--epoch", "3"], "'--epoch'; did you mean '--epochs'?"),
    (["train", "--hlep"], "'--hlep'; did you mean '--help'?"),
    (["train", "m.onnx", "--learning-rate", "1"],
     "'--learning-rate'; did you mean '--lr'?"),
    (["shadow", "m.onnx", "--phases", "forward"],
     "'--phases'; did you mean '--phase'?"),
    (["why-nan", "run", "--first-step", "3"],
     "'--first-step'; did you mean '--step'?"),
    (["train", "m.onnx", "--dat", "d", "--steps", "1", "--out", "x"],
     "'--dat'; did you mean '--data'?"),
    (["convert", "m.onnx", "--outptu", "x"], "'--outptu'; did you mean '--output'?"),
    (["compile", "-x"], "'-x'"), (["diff", "--polcy", "a"], "'--polcy'"),
])  # fmt: skip
def test_misspelled_options_are_reported_before_missing_ones(words, name):
    check(binade(*words), 2, f"no option is called {name}", without=["required"])


COMMANDS = [
    [BUILD / "bin/binade", "--help"], [BUILD / "bin/binade", "train", "--help"],
    [BUILD / "bin/binade", "list", "policies"], [BUILD / "bin/binade", "list", "stats"],
    [BUILD / "bin/binade", "policy", "show", "coat"], [BUILD / "bin/binade-run", "--help"],
    *([sys.executable, "-m", f"binade.{name}", "--help"]
      for name in ("data", "initial", "runs", "replay", "why_nan", "sweep", "bisect",
                   "shadow", "search")),
    [sys.executable, "-m", "binade.runs", "{runs}"],
]  # fmt: skip


@pytest.mark.parametrize("ignores", [False, True], ids=["default", "ignored"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(map(str, c[-3:])))
def test_commands_end_quietly_when_their_reader_closes_the_pipe(
    folder, command, ignores
):
    """As with `| head`: they print no message or traceback, and end by SIGPIPE or with 0."""
    if "{runs}" in command:
        check(train(unused(folder, trainable=["w"])), 0)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [str(word).format(runs=folder) for word in command], stdout=writer,
        stderr=subprocess.PIPE, text=True,
        restore_signals=not ignores,  # Python ignores SIGPIPE by default.
        env=os.environ | {"PYTHONPATH": str(BUILD / "python")},
    )  # fmt: skip
    os.close(writer)
    said = process.communicate(timeout=600)[1]
    assert said == ""
    assert process.returncode in (-signal.SIGPIPE, 0)
