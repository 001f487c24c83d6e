"""Compares the C++ reader and writer of safetensors with the Python package.

BINADE_BUILD names the build directory (default: build/release).
"""

import json
import subprocess

import pytest
from support.paths import BUILD, MODELS, ROOT

np = pytest.importorskip("numpy")
safetensors = pytest.importorskip("safetensors")

COPY = BUILD / "unittests" / "programs" / "binade-copy-safetensors"
FIXTURE = ROOT / "test/unittests/Container/Inputs/all_dtypes.safetensors"

pytestmark = pytest.mark.skipif(not COPY.exists(), reason=f"{COPY} is not built")

DTYPES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


def copy(source, target, *flags):
    return subprocess.run(
        [COPY, source, target, *flags], capture_output=True, text=True, timeout=600
    )


def contents(path):
    """The tensors by name, as (type, shape, bytes), and the metadata."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    tensors = {
        name: (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
        for name, tensor in safetensors.deserialize(data)
    }
    return tensors, metadata


def write_random(path, seed):
    """Writes a file with random types, shapes and names, using the Python package."""
    random = np.random.default_rng(seed)
    specs, alive = {}, []
    for i in range(random.integers(0, 30)):
        dtype = str(random.choice(list(DTYPES)))
        shape = random.integers(0, 6, random.integers(0, 5)).tolist()
        size = int(np.prod(shape, dtype=np.int64)) * DTYPES[dtype]
        data = random.integers(0, 256, max(size, 1)).astype(np.uint8)
        alive.append(data)
        name = "".join(map(chr, random.integers(1, 0xD7FF, random.integers(0, 9))))
        specs[f"{name}{i}"] = safetensors.TensorSpec(
            dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=size
        )
    metadata = {chr(random.integers(1, 0xD7FF)): 'a"\\\n' for _ in range(3)}
    safetensors.serialize_file(specs, str(path), metadata)


@pytest.mark.parametrize("seed", range(40))
def test_random_files_survive_a_copy(tmp_path, seed):
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    write_random(source, seed)
    done = copy(source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(target) == contents(source)


def test_every_type_survives_a_copy(tmp_path):
    target = tmp_path / "out.safetensors"
    assert copy(FIXTURE, target).returncode == 0
    assert contents(target) == contents(FIXTURE)
    assert len(contents(target)[0]) == 19


def test_weights_of_shared_models_survive_a_copy(tmp_path):
    weights = sorted(MODELS.glob("*/weights.safetensors"))
    if not weights:
        pytest.skip(f"no shared models at {MODELS}")
    for source in weights:
        target = tmp_path / "out.safetensors"
        assert copy(source, target).returncode == 0, source
        assert contents(target) == contents(source), source


def test_pytorch_reads_mixed_types(tmp_path):
    """PyTorch reads tensors in place, and therefore requires alignment."""
    torch = pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.torch").load_file
    target = tmp_path / "out.safetensors"
    assert copy(FIXTURE, target).returncode == 0
    tensors = load_file(target)
    assert tensors["bf16"].dtype == torch.bfloat16
    for name in ("f64", "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"):
        assert tensors[name].flatten().tolist() == [0.0, 1.0, -2.0, 0.5], name
    assert tensors["i64"].tolist() == [0, 1, -2, 100]


def test_a_truncated_file_is_rejected_as_text_and_as_json(tmp_path):
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    source.write_bytes(FIXTURE.read_bytes()[:-1])
    done = copy(source, target)
    assert done.returncode == 3
    assert done.stderr.startswith(f"{source}:tensor 'bool': error: ")
    done = copy(source, target, "--diag=json")
    record = json.loads(done.stderr)
    assert record["file"] == str(source)
    assert record["part"] == "tensor 'bool'"
    assert (record["severity"], record["exit_code"]) == ("error", 3)
    assert not target.exists()
