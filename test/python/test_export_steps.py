"""Whole training steps as ONNX, run by onnxruntime: state is inputs and outputs."""

import subprocess

import numpy as np
import onnx
import pytest
from convert import run
from reference import BUILD
from test_reference_optimizer import ULPS
from test_step import F32, OPTIM, P0, SETTINGS, Step, from_bits

TRANSLATE = BUILD / "bin" / "binade-translate"
GRADIENTS = [from_bits(record) for record in OPTIM["grads"]]
# Rules of whole tensors, and of the rest what needs other ops.
OTHERS = ["adafactor", "adagrad", "lamb", "lars", "lion", "muon", "signum", "tiger"]


def export(module, folder):
    source, target = folder / "step.mlir", folder / "step.onnx"
    source.write_text(module)
    done = subprocess.run(
        [TRANSLATE, "--export-onnx", source, "-o", target],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == 0:
        onnx.checker.check_model(target, full_check=True)
    return done


class ExportedStep:
    """Starts from the state that the file has, and hands on what a step returns."""

    def __init__(self, step, folder):
        done = export(step.module, folder)
        assert done.returncode == 0, done.stderr
        self.path, self.state = folder / "step.onnx", {}

    def __call__(self, w, v, gw, gv):
        feeds = {"w": w, "v": v} | self.state | {"gw": gw, "gv": gv}
        outputs = run(self.path, feeds)
        self.state = {
            name.removeprefix("new."): value
            for name, value in outputs.items()
            if name.startswith("new.")
        }
        return {name.removeprefix("new."): value for name, value in outputs.items()}


def make(folder, optimizer, **options):
    step = Step(folder, optimizer, **options)
    return step, ExportedStep(step, folder)


@pytest.mark.parametrize("name", SETTINGS)
def test_exported_optimizers_follow_pytorch(name, tmp_path):
    optimizer, settings = SETTINGS[name]
    _, step = make(tmp_path, f"optimizer={optimizer} settings={settings}")
    for number, (g, record) in enumerate(zip(GRADIENTS, OPTIM[name])):
        outputs = step(P0, P0.reshape(2, 3), g, g.reshape(2, 3))
        expected = from_bits(record.get("p", record))
        for value in (outputs["w"], outputs["v"].ravel()):
            np.testing.assert_array_max_ulp(value, expected, maxulp=ULPS.get(name, 1))
        assert outputs["step"] == number + 1


@pytest.mark.parametrize("optimizer", OTHERS)
def test_other_rules_are_the_references(optimizer, tmp_path):
    reference, step = make(tmp_path, f"optimizer={optimizer} settings=lr=0.1 clip=1")
    for g in GRADIENTS[:3]:
        batch = P0, P0.reshape(2, 3), g, g.reshape(2, 3)
        expected, outputs = reference(*batch), step(*batch)
        assert outputs.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, 1e-5, 1e-7, err_msg=name)


def test_the_scale_is_state(tmp_path):
    """A step whose gradient is not finite keeps every bit, and halves the scale."""
    reference, step = make(tmp_path, "optimizer=adamw", policy="fp16-amp")
    good, bad = GRADIENTS[0], np.where(np.arange(6) == 2, np.inf, GRADIENTS[1])
    scales = []
    for g in (good, bad.astype("f4"), good):
        before = dict(step.state)
        batch = P0, P0.reshape(2, 3), g, g.reshape(2, 3)
        expected, outputs = reference(*batch), step(*batch)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, 1e-6, 1e-8, err_msg=name)
        scales.append(float(outputs["scale"]))
        assert outputs["found_inf"] == (not np.isfinite(g).all())
        if outputs["found_inf"]:
            for name in ("w", "v", "step"):
                assert outputs[name].tobytes() == before[name].tobytes()
    assert scales == [65536, 32768, 32768]


def test_settings_can_be_given(tmp_path):
    _, step = make(tmp_path, "optimizer=sgd settings=lr=1")
    g, zero = GRADIENTS[0], np.zeros(6, F32)
    [rate] = [
        value.name for value in onnx.load(step.path).graph.input if "lr" in value.name
    ]
    feeds = {"w": P0, "v": P0.reshape(2, 3), "gw": g, "gv": zero.reshape(2, 3)}
    outputs = run(step.path, feeds | {rate: np.array(0.5, "f8")})
    np.testing.assert_array_equal(outputs["new.w"], P0 - F32(0.5) * g)


def test_halves_of_bits_are_refused(tmp_path):
    policy = tmp_path / "halves.yaml"
    policy.write_text(
        "name: halves\nextends: fp32\nrules:\n- {match: {op: optimizer_update}, "
        "parameter: bf16, master: split_round}\n"
    )
    step = Step(tmp_path, "optimizer=adamw", policy=policy)
    done = export(step.module, tmp_path)
    assert done.returncode == 1 and "binade.optimizer_update (2)" in done.stderr
