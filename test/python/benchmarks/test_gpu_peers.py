"""The PyTorch peers of benchmarks/gpu compute the same values as Binade's kernels."""

import gc
import sys
import types
import weakref

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.reference import evaluate

torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import models  # noqa: E402
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
        elif (
            name == "codes"
        ):  # Another order of summation moves some values across a tie.
            assert (got == expected).mean() > 0.999
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_captures_and_forward_passes_share_a_stream(monkeypatch):
    """A backward pass runs on the stream of its forward pass, and is captured there."""
    used = []

    class Used(Stream):
        def __init__(self, stream):
            used.append(stream)

    cuda = types.SimpleNamespace(
        Stream=object, stream=Used, synchronize=lambda: None, CUDAGraph=object,
        graph=lambda graph, stream: Used(stream),
    )  # fmt: skip
    monkeypatch.setattr(peers, "torch", types.SimpleNamespace(cuda=cuda))
    peers.side_stream.cache_clear()
    with peers.on_side_stream():
        pass
    peers.captured(lambda: None)
    peers.side_stream.cache_clear()
    assert len(used) == 3 and len(set(used)) == 1


def test_every_peer_of_a_case_exists():
    for case in CASES:
        for peer in case.peers:
            known = {peers.COMPILED, peers.PASSES, peers.TWICE}
            if not isinstance(case, Quantizer):
                known = set(peers.UPDATES)
            assert peer in known, peer


class Stream:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_a_captured_call_keeps_its_tensors_alive(monkeypatch):
    """A CUDA graph contains only addresses, so its tensors must live as long as it does."""
    graph = types.SimpleNamespace(replays=0)

    def replay():
        graph.replays += 1

    graph.replay = replay
    cuda = types.SimpleNamespace(
        Stream=Stream, stream=lambda stream: stream, synchronize=lambda: None,
        CUDAGraph=lambda: graph, graph=lambda graph, stream: Stream(),
    )  # fmt: skip
    monkeypatch.setattr(peers, "torch", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(peers, "side_stream", Stream)

    def make():
        x = np.zeros(4)  # In place of a tensor.
        return peers.captured(lambda: x.sum()), weakref.ref(x)

    call, tensor = make()
    gc.collect()
    assert tensor() is not None
    call()
    assert graph.replays == 1
    del call
    gc.collect()
    assert tensor() is None


@pytest.mark.parametrize("name", models.PEERS)
def test_peer_models_create_tensors_on_the_device_of_their_inputs(name, monkeypatch):
    """Runs on PyTorch's meta device, to find tensors that are created on another one."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class OneDevice(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            for x in tree_leaves(made):
                assert not isinstance(x, torch.Tensor) or x.is_meta, function
            return made

    monkeypatch.setattr(models, "GPT2", models.SMALL_GPT2)
    monkeypatch.setattr(models, "LLAMA", models.SMALL_LLAMA)
    batch = {
        "gpt2": models.make_small_gpt2_batch,
        "llama": models.make_small_llama_batch,
    }
    module = models.PEERS[name]().to("meta")
    inputs = {key: x.to("meta") for key, x in batch[name]().items()}
    with OneDevice():
        # The computation of the peer of a step.
        scores = module(inputs["input_ids"])
        models.cross_entropy(scores, inputs["labels"]).backward()
    assert all(parameter.grad.is_meta for parameter in module.parameters())
