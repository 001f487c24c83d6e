"""`binade-run` rejects truncated and modified bundles."""

import json
import random

import numpy as np
import pytest
from support.hostile import parse, run
from support.reference import binade, safetensors

GRAPH = """g (float[4,3] x, int64[4] t) => (float loss)
  <float[3,3] w = {1,2,3,4,5,6,7,8,9}> {
    h = MatMul(x, w) loss = SoftmaxCrossEntropyLoss(h, t) }"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A compiled step, and data for it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "m.onnx").write_bytes(parse(GRAPH).SerializeToString())
    process = binade(
        "compile", folder / "m.onnx", "--train", "w", "-o", folder / "m.bnd"
    )
    assert process.returncode == 0, process.stderr
    batch = {"x": np.ones((8, 3), np.float32), "t": np.zeros(8, np.int64)}
    safetensors.save(folder / "data.safetensors", batch)
    return folder


def train(bundle, files, out):
    return run("binade-run", bundle, "--data", files / "data.safetensors", "--steps", 1,
               "--out", out)  # fmt: skip


def split(data):
    """Returns the offset of the end of the header, and the header."""
    end = 8 + int.from_bytes(data[:8], "little")
    return end, json.loads(data[8:end])


def check_rejected(done, name):
    """Checks for the exit code of invalid files and exactly one error, which names the file."""
    text = done.stderr.decode()
    assert done.returncode == 3, (done.returncode, text)
    assert name in text and text.count(": error: ") == 1, text


def test_the_unmodified_bundle_is_accepted(files, tmp_path):
    assert train(files / "m.bnd", files, tmp_path / "run").returncode == 0


def test_bundles_truncated_at_each_boundary(files, tmp_path):
    data = (files / "m.bnd").read_bytes()
    end, header = split(data)
    tensors = [v["data_offsets"] for k, v in header.items() if k != "__metadata__"]
    places = {0, 1, 7, 8, 9, end - 1, end, len(data) - 1}
    places |= {end + place for offsets in tensors for place in offsets}
    for place in sorted(places - {len(data)}):
        (tmp_path / "cut.bnd").write_bytes(data[:place])
        check_rejected(train(tmp_path / "cut.bnd", files, tmp_path / "run"), "cut.bnd")
        assert not (tmp_path / "run").exists()


def test_bundles_with_changed_bits(files, tmp_path):
    """Changes bits of the header, the plan and the kernels; initial values have no hash."""
    data = (files / "m.bnd").read_bytes()
    end, header = split(data)
    draw = random.Random(1)
    places = draw.sample(range(8), 4)
    names = ["plan", *(name for name in header if name.startswith("kernels/"))]
    for name in names:
        begin, stop = header[name]["data_offsets"]
        places += [end + draw.randrange(begin, stop) for _ in range(5)]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        (tmp_path / "bit.bnd").write_bytes(changed)
        done = train(tmp_path / "bit.bnd", files, tmp_path / "run")
        if done.returncode == 0:  # Kernels for other chips are not read.
            assert place > end + header["plan"]["data_offsets"][1]
            continue
        check_rejected(done, "bit.bnd")


def change_periods(ports):
    """Yields lists of ports in which one has an invalid `every`, the period of steps in which
    it is computed."""

    def change(role, **fields):
        chosen = next(port for port in ports if port["role"] == role)
        return [{**p, **fields} if p is chosen else p for p in ports]

    (loss,) = (p for p in ports if (p["role"], p["name"]) == ("metric", "loss"))
    yield change("parameter", every=1)
    yield change("parameter", every=-1)
    for every, buffer in [(-2, loss["buffer"]), (1, change("batch")[0]["buffer"])]:
        statistic = {"role": "statistic", "name": "a/b/c", "buffer": buffer}
        yield [*ports, {**statistic, "every": every}]


def test_each_field_of_a_plan_is_checked(files, tmp_path):
    """The hashes match the modified plan, as in a file that an attacker wrote."""
    import hashlib

    data = (files / "m.bnd").read_bytes()
    end, header = split(data)
    begin, stop = header["plan"]["data_offsets"]
    plan = json.loads(data[end + begin : end + stop])
    for field, value in [
        ("arena_bytes", 2**63), ("arena_bytes", -1), ("buffers", []), ("ports", {}),
        ("records", [{"kind": "nothing"}]), ("version", 99), ("ledger", {}),
        ("observation", [{"kind": "nothing"}]), ("observation", {}),
        *(("ports", ports) for ports in change_periods(plan["ports"])),
    ]:  # fmt: skip
        text = json.dumps({**plan, field: value}).encode()
        fake = {k: v for k, v in header.items() if k in ("plan", "__metadata__")}
        fake["plan"] = {
            **fake["plan"],
            "shape": [len(text)],
            "data_offsets": [0, len(text)],
        }
        fake["__metadata__"] = {
            k: v
            for k, v in header["__metadata__"].items()
            if not k.startswith("sha256.")
        } | {"sha256.plan": hashlib.sha256(text).hexdigest()}
        head = json.dumps(fake).encode()
        path = tmp_path / "fake.bnd"
        path.write_bytes(len(head).to_bytes(8, "little") + head + text)
        check_rejected(train(path, files, tmp_path / "run"), "fake.bnd")
