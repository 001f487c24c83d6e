"""Formats of optimizer states (`--states`): which states they apply to, the contents of files
and buffers, resumed runs, and losses."""

import re

import ml_dtypes
import numpy as np
import pytest
from support.codec import FLOATS, formats
from support.paths import ROOT
from support.reference import binade, safetensors
from support.shared_models import Model
from support.storage_runs import LOSS, Mlp

F32 = np.float32
GPT = ROOT / "examples/char-gpt/char-gpt.onnx"


def compile_step(folder, *flags, model=GPT, phase="materialize"):
    out = folder / "step.mlir"
    process = binade("compile", model, *flags, "--to", phase, "-o", out)
    assert process.returncode == 0, process.stderr
    return out.read_text()


def find_arguments(text, state):
    """Element types of the arguments that store `state`, by the name of the parameter and the
    suffix of the part, such as `.scale`."""
    pattern = rf'tensor<(?:\d+x)*(\w+)> {{[^}}]*binade.name = "{state}/([\w.]+?)"'
    return {name: element for element, name in re.findall(pattern, text)}


def test_states_of_large_parameters_except_embeddings_are_quantized(tmp_path):
    text = compile_step(tmp_path, "--states", "e4m3x")
    kept = find_arguments(text, "exp_avg_sq")
    assert kept["blocks.0.mlp.0.weight"] == "f8E4M3FN"
    for part in ("scale", "power", "centre"):
        assert kept[f"blocks.0.mlp.0.weight.{part}"] == "f32"
    embeddings = [name for name in kept if name.startswith(("token", "position"))]
    assert embeddings and all(kept[name] == "f32" for name in embeddings)
    biases = [name for name in kept if name.endswith("bias")]
    assert biases and all(kept[name] == "f32" for name in biases)


def test_formats_for_names_override_the_default(tmp_path):
    text = compile_step(
        tmp_path, "--states", "dyn8", "--states", "token*:e4m3", "--states", "*bias:bf16",
        "--states", "blocks.1.*weight:f32",
    )  # fmt: skip
    kept = find_arguments(text, "exp_avg")
    assert kept["token.weight"] == "f8E4M3FN"
    assert kept["blocks.0.mlp.0.bias"] == "bf16"
    assert kept["blocks.0.mlp.0.weight"] == "i8"
    assert kept["blocks.1.mlp.0.weight"] == "f32"


def test_two_formats_apply_to_signed_and_unsigned_states(tmp_path):
    text = compile_step(tmp_path, "--states", "dyn8+e4m3x")
    name = "blocks.0.mlp.0.weight"
    first, second = (find_arguments(text, state) for state in ("exp_avg", "exp_avg_sq"))
    assert (first[name], second[name]) == ("i8", "f8E4M3FN")
    assert f"{name}.power" in second and f"{name}.power" not in first


def test_rules_of_policies_name_formats(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "name: mine\nextends: bf16\nrules:\n"
        "- {match: {op: optimizer_update}, parameter: bf16, master: stochastic, "
        "state: e5m2}\n"
        "- {match: {op: optimizer_update, role: bias}, state: dyn8}\n"
    )
    kept = find_arguments(compile_step(tmp_path, "--policy", policy), "exp_avg")
    assert kept["blocks.0.mlp.0.weight"] == "f8E5M2"
    # A rule that matches its role quantizes even a small parameter's state.
    assert kept["blocks.0.mlp.0.bias"] == "i8"


def test_the_preset_of_8_bit_optimizers(tmp_path):
    kept = find_arguments(
        compile_step(tmp_path, "--policy", "8bit-optimizer"), "exp_avg"
    )
    assert kept["blocks.0.mlp.0.weight"] == "i8" and kept["token.weight"] == "f32"


def test_user_defined_formats_and_code_books(tmp_path):
    values = np.linspace(-1, 1, 16)
    (tmp_path / "steps.yaml").write_text(
        "values: [" + ", ".join(f"{v:.6f}" for v in values) + "]\n"
    )
    form = tmp_path / "mine.yaml"
    form.write_text(
        "summary: sixteen steps\nsigned: steps.yaml\nunsigned: linear4-unsigned\n"
        "group: 64\nscale: bf16\n"
    )
    text = compile_step(tmp_path, "--states", form)
    kept = find_arguments(text, "exp_avg")
    assert kept["blocks.0.mlp.0.weight.scale"] == "bf16"
    assert '#binade.code_book<"steps"' in text


@pytest.mark.parametrize("text, message", [
    ("summary: x\ngroup: 16\n", "has either an element, two code books, signed and"),
    ("element: f8E4M3FN\ngroup: 16\ncompand: {signed: softsign, unsigned: sqrt}\n",
     "has either an element, two code books, signed and"),
    ("group: 16\ncompand: {signed: softsign}\n", "'compand' has two functions, signed and"),
    ("group: 16\ncompand: {signed: log, unsigned: sqrt}\n",
     "expected softsign, sqrt or sqrt_softsign"),
    ("group: 16\ncompand: {signed: sqrt, unsigned: sqrt}\n",
     "error: the function of states that may be negative is softsign"),
    ("group: 16\ncompand: {signed: softsign, unsigned: sqrt}\nscale: bf16\n",
     "elements companded by 'softsign' have scales in f32 or f16, not 'bf16'"),
    ("element: f8E4M3FN\n", "a format has one of group, block and per"),
    ("element: bf16\ngroup: 16\n", "f4E2M1FN or f16, got 'bf16'"),
    ("element: f8E8M0FNU\ngroup: 16\n", "f4E2M1FN or f16, got 'f8E8M0FNU'"),
    ("signed: nothing\nunsigned: nothing\ngroup: 16\n", "unknown code book 'nothing'"),
    ("element: f8E4M3FN\ngroup: 16\nscale: f64\n", "f8E8M0FNU or f8E4M3FN, got 'f64'"),
    ("element: f8E4M3FN\ngroups: 16\n", "'groups'"),
    ("element: f4E2M1FN\nblock: [16]\n", "a block has rows and columns"),
    ("element: f4E2M1FN\nblock: [1, 16]\nscale: f8E4M3FN\n", "follow rule 'rounded_inverse'"),
    ("element: f4E2M1FN\nblock: [1, 16]\nrule: rounded_inverse\n", "'rounded_inverse'"),
    ("element: f4E2M1FN\nblock: [1, 16]\ntensor_scale: f32\n", "needs scales of blocks"),
    ("element: f4E2M1FN\nblock: [1, 16]\ntensor_scale: bf16\n", "expected f32, got 'bf16'"),
    ("element: f4E2M1FN\ngroup: 16\nscale: f8E4M3FN\nrule: rounded_inverse\n", "of blocks or rows"),
    ("element: f4E2M1FN\nblock: [1, 32]\nscale: f8E4M3FN\ntensor_scale: f32\n"
     "rule: rounded_four_six\n", "compares errors of blocks of at most 16 rows and 16 columns"),
    ("element: f4E2M1FN\nblock: [16, 16]\nscale: f8E4M3FN\ntensor_scale: f32\n"
     "rule: rounded_eden\n", "blocks of one row or one column of at most 16 elements"),
])  # fmt: skip
def test_invalid_format_files_are_rejected(tmp_path, text, message):
    form = tmp_path / "bad.yaml"
    form.write_text(text)
    process = binade("compile", GPT, "--states", form, "-o", tmp_path / "x.bnd")
    assert process.returncode == 3
    assert message in process.stderr and "bad.yaml:" in process.stderr
    assert not (tmp_path / "x.bnd").exists()


@pytest.mark.parametrize("states, code, message", [
    ("e4m4", 2, "did you mean 'e4m3'?"),
    ("e4m3+bf61", 2, "no format of states is called 'bf61'"),
    ("missing*:e4m3", 3, "no parameter matches 'missing*'"),
    ("dyn8:stochastik", 2, "after ':' the format of the parameters"),
    ("e4m3-tensor", 3, "has scales per_tensor; states need a format with 'group'"),
    ("softsign8:stochastic", 3, "rounds values that 'softsign' has compressed"),
])  # fmt: skip
def test_invalid_states_are_rejected(tmp_path, states, code, message):
    process = binade("compile", GPT, "--states", states, "-o", tmp_path / "x.bnd")
    assert process.returncode == code and message in process.stderr
    # The message offers only formats that states can have.
    if code == 2:
        assert "dyn8" in process.stderr
        for name in ("e4m3-tensor", "mxfp8", "e5m2-delayed", "e4m3-1x128"):
            assert name not in process.stderr


@pytest.mark.parametrize("state, message", [
    ("dyn8:stochastik", "expected ':stochastic' or nothing after the name of a format"),
    ("dyn9", "4:42: error: unknown format 'dyn9'; did you mean 'dyn4'?"),
    ("dyn9", "there are f32, bf16, f16, coat-group, dyn4, dyn8, "),
    ("half", "unknown format 'half'; expected one of f32, bf16, f16, coat-group, dyn4, "),
])  # fmt: skip
def test_invalid_states_of_a_policy_are_rejected(tmp_path, state, message):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "name: mine\nextends: fp32\nrules:\n"
        f"- {{match: {{op: optimizer_update}}, state: {state}}}\n"
    )
    process = binade("policy", "show", policy)
    assert process.returncode == 3 and "mine.yaml:4:" in process.stderr
    assert message in process.stderr and "e4m3-tensor" not in process.stderr


BYTES = {
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}


@pytest.mark.parametrize("element", BYTES)
def test_element_types_without_a_file_type(tmp_path, element):
    """Files store their elements as bytes, and runs resume from them."""
    form = tmp_path / "mine.yaml"
    form.write_text(f"element: {element}\ngroup: 32\n")
    mlp = Mlp(tmp_path)
    states = ["--states", f"*:{form}"]
    whole = mlp.train("fp32", 6, *states, out="whole")
    mlp.train("fp32", 3, *states, "--save-every", 3, out="parts")
    process = binade(
        "train", mlp.model, "--loss", LOSS, "--data", tmp_path / "data.safetensors",
        "--order", "sequential", *states, "--resume", tmp_path / "parts", "--steps", 6,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    parts = safetensors.load(tmp_path / "parts/final.safetensors")
    for key, value in whole.items():
        assert parts[key].tobytes() == value.tobytes(), key
    wide = mlp.train("fp32", 6, out="wide")["state/exp_avg/fc1_weight"].ravel()
    codes, scale = (whole["state/exp_avg/fc1_weight" + part] for part in ("", ".scale"))
    assert codes.dtype == np.uint8
    elements = codes.ravel().view(BYTES[element]).astype(F32)
    kept = elements * np.repeat(scale, 32)[: elements.size]
    assert np.abs(kept - wide).max() < 0.2 * np.abs(wide).max()


NAMES = [name for name in formats(True) if name != "f32"]


@pytest.mark.parametrize("name", NAMES)
def test_files_contain_quantized_states_and_runs_resume(tmp_path, name):
    """A resumed run has the same bits as one without a break. The file contains the parts of
    the format, and the dequantized states are close to f32 states."""
    mlp = Mlp(tmp_path)
    states = ["--states", f"*:{name}"]
    whole = mlp.train("fp32", 10, *states, "--save-every", 5, out="whole")
    mlp.train("fp32", 5, *states, "--save-every", 5, out="parts")
    process = binade(
        "train", mlp.model, "--loss", LOSS, "--data", tmp_path / "data.safetensors",
        "--order", "sequential", *states, "--resume", tmp_path / "parts", "--steps", 10,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    parts = safetensors.load(tmp_path / "parts/final.safetensors")
    assert whole.keys() == parts.keys()
    for key, value in whole.items():
        assert parts[key].tobytes() == value.tobytes(), key

    wide = mlp.train("fp32", 10, out="wide")
    for state, signed in (("exp_avg", True), ("exp_avg_sq", False)):
        form = formats(signed)[name]
        key = f"state/{state}/fc1_weight"
        size = whole["fc1_weight"].size
        suffixes = ["", ".scale", ".power", ".centre"][: len(form.parts(size))]
        found = [whole[key + suffix] for suffix in suffixes]
        assert [part.size for part in found] == [n for n, _ in form.parts(size)]
        assert found[0].dtype == (np.int8 if form.is_book else FLOATS[form.element])
        kept = form.decode([found[0].ravel().view(form.word), *found[1:]], size)
        exact = wide[key].ravel()
        assert np.abs(kept - exact).max() < 0.35 * np.abs(exact).max()
    for key in ("fc1_weight", "fc2_bias"):
        assert np.abs(whole[key] - wide[key]).max() < 0.02


def read_ledger(process):
    found = re.search(r" state ([\d.]+) (B|KiB|MiB)", process.stdout)
    assert found, process.stdout
    return float(found[1]) * {"B": 1, "KiB": 1024, "MiB": 1 << 20}[found[2]]


def test_states_use_the_memory_of_their_format(tmp_path):
    sizes = {}
    for name in ("f32", "e4m3x", "dyn8", "dyn4"):
        bundle = tmp_path / f"{name}.bnd"
        process = binade("compile", GPT, "--states", name, "-o", bundle)
        assert process.returncode == 0, process.stderr
        sizes[name] = read_ledger(binade("inspect", bundle))
    text = compile_step(tmp_path, phase="optimizer")
    pattern = r'tensor<((?:\d+x)+)f32> {[^}]*binade.name = "exp_avg/([\w.]+)"'
    shapes = {name: [int(n) for n in shape[:-1].split("x")]
              for shape, name in re.findall(pattern, text)}  # fmt: skip
    for name, size in sizes.items():
        expected = 0
        for parameter, shape in shapes.items():
            count = int(np.prod(shape))
            is_quantized = count >= 4096 and not parameter.startswith(
                ("token", "position")
            )
            form = formats(True)[name] if is_quantized else None
            if form is None:
                expected += 2 * 4 * count
                continue
            expected += 2 * sum(n * {"f32": 4, "f16": 2}.get(kind, 1)
                                for n, kind in form.parts(count))  # fmt: skip
        assert abs(size / expected - 1) < 0.01, name


@pytest.mark.parametrize(
    "states", ["e4m3x", "dyn8", "dyn8+e4m3x", "e5m2x", "e4m3+bf16", "softsign8"]
)
def test_losses_with_quantized_states_match_pytorch(tmp_path, states):
    model = Model("mlp-digits", tmp_path)
    run = model.train("fp32", "adamw", "--states", f"*weight:{states}")
    single = model.autocast["fp32"]["adamw"]["loss"]
    found = run.column("loss")
    assert not np.array_equal(found, single)
    np.testing.assert_allclose(found, single, rtol=0.02)
