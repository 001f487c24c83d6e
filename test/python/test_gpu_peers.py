"""What kernels are compared with in benchmarks/gpu computes the same, in PyTorch."""

import sys

import ml_dtypes
import numpy as np
import pytest
from reference import ROOT, evaluate

torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import peers  # noqa: E402
from cases import CASES, TINY, Quantizer  # noqa: E402


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c, Quantizer)],
                         ids=lambda case: case.name)  # fmt: skip
def test_quantizers(case, tmp_path):
    case.write(tmp_path / "case.mlir", TINY)
    x = np.random.default_rng(0).standard_normal((TINY.rows, TINY.columns), np.float32)
    x, old = x.astype(ml_dtypes.bfloat16), np.float32(3)
    inputs = {"x": x, "old": old, "weight": np.ones(TINY.columns, np.float32)}
    vectors = {vector.split(":")[0] for vector in case.vectors}
    inputs = {name: v for name, v in inputs.items() if name in vectors | {"x"}}
    text = (tmp_path / "case.mlir").read_text()
    found = evaluate(text, inputs, "--backend", "simulator")
    wide = torch.from_numpy(x.astype(np.float32)).bfloat16()
    made = peers.QUANTIZERS[case.name](
        wide, torch.ones(TINY.columns), torch.tensor(old)
    )
    assert len(made) == len(case.results)
    for (name, _), value in zip(case.results, made):
        expected = value.float().numpy().reshape(found[name].shape)
        got = found[name].astype(np.float32)
        if case.name != "norm":
            np.testing.assert_array_equal(got, expected, name)
        elif name == "codes":  # Sums in another order move a value across a tie.
            assert (got == expected).mean() > 0.999
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_every_peer_is_there():
    for case in CASES:
        for peer in case.peers:
            known = {peers.COMPILED, peers.PASSES, peers.TWICE}
            if not isinstance(case, Quantizer):
                known = set(peers.UPDATES)
            assert peer in known, peer
