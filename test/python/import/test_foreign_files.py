"""Files of other formats: the error names the format and says what to do."""

import pytest
from support.exported_models import BINADE, binade

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")

ZIP = b"PK\x03\x04" + bytes(22)
FILES = {
    "m.keras": (
        ZIP + b"\x0d\0\0\0metadata.json{}",
        "a Keras model (.keras)",
        "binade.keras.export",
    ),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file", "binade.keras.export"),
    "m.pt": (ZIP + b"\x0e\0\0\0m/data.pkl", "a zip archive", "'binade from-torch'"),
    "m.pt2": (
        ZIP + b"\x17\0\0\0m/weights",
        "torch.export program",
        "'binade from-torch'",
    ),
    "m.tflite": (
        b"\x1c\0\0\0TFL3" + bytes(40),
        "a TensorFlow Lite model",
        "from which it was made",
    ),
    "m.mlirbc": (
        b"ML\xefR\x0dStableHLO_v1.15.0\0" + bytes(30),
        "a StableHLO module",
        "binade.jax.export",
    ),
    "saved_model.pb": (
        bytes.fromhex("080112d9aa010ad60e12a60e0a5e0a10") + b"AssignVariableOp",
        "a TensorFlow SavedModel",
        "binade.keras.export",
    ),
}


@pytest.mark.parametrize("name", list(FILES))
@pytest.mark.parametrize("command", ["import", "train"])
def test_the_format_is_named(name, command, tmp_path):
    content, kind, advice = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    more = ["--data", path, "--steps", 1, "--out", tmp_path / "run"]
    result = binade(command, path, *(more if command == "train" else []))
    assert result.returncode == 3
    assert kind in result.stderr
    assert advice in result.stderr


def test_a_saved_model_is_recognized_by_its_directory(tmp_path):
    content, _, _ = FILES["saved_model.pb"]
    (tmp_path / "saved_model.pb").write_bytes(content)
    result = binade("import", tmp_path)
    assert result.returncode == 3
    assert "this is a TensorFlow SavedModel" in result.stderr


def test_text_of_stablehlo_is_recognized(tmp_path):
    path = tmp_path / "m.mlir"
    path.write_text(
        "module {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "    %0 = stablehlo.add %x, %x : tensor<2xf32>\n"
        "    return %0 : tensor<2xf32>\n  }\n}\n"
    )
    result = binade("import", path)
    assert result.returncode == 3
    assert "a StableHLO module" in result.stderr
    assert "binade.jax.export" in result.stderr
