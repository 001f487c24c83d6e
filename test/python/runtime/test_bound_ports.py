"""The C interface runs programs on memory of its caller."""

import ctypes

import numpy as np
import pytest
from support.cuda_runs import run
from support.paths import BUILD
from support.runtime import LIBRARY, Runtime

ROLES = b"parameter,buffer,state"
RATE = 0.01


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    if not (BUILD / "python" / "binade").exists():
        pytest.skip("the extension is not built")
    from binade import updates

    folder = tmp_path_factory.mktemp("bound")
    (folder / "update.mlir").write_text(
        updates.write_update({"w": (3, 40)}, updates.KEPT)
    )
    run(
        "binade", "compile", folder / "update.mlir", "--from=autodiff",
        "--optimizer", "sgd", "--set", "momentum=0.5", "--lr", RATE,
        "-o", folder / "update.bnd",
    )  # fmt: skip
    return folder / "update.bnd"


@pytest.fixture
def runtime():
    assert LIBRARY.exists()
    return Runtime()


def load(runtime, path, device=b"cpu", roles=ROLES):
    program = ctypes.c_void_p()
    code = runtime.library.binade_program_load_bound(
        str(path).encode(), device, ctypes.c_uint32(1), roles, ctypes.byref(program)
    )
    return code, program


def list_ports(runtime, program):
    from support.runtime import Tensor

    found = {}
    for index in range(runtime.library.binade_program_tensor_count(program)):
        tensor = Tensor()
        assert runtime.library.binade_program_tensor_at(
            program, ctypes.c_size_t(index), ctypes.byref(tensor)
        ) == 0  # fmt: skip
        found[tensor.role.decode(), tensor.name.decode()] = index, tensor.data
    return found


def test_a_step_updates_memory_of_the_caller(runtime, bundle):
    code, program = load(runtime, bundle)
    assert code == 0, runtime.error()
    ports = list_ports(runtime, program)
    draw = np.random.default_rng(0)
    memory = {
        ("parameter", "w"): draw.standard_normal((3, 40)).astype(np.float32),
        ("buffer", "gradient/w"): draw.standard_normal((3, 40)).astype(np.float32),
        ("state", "momentum_buffer/w"): np.full((3, 40), np.nan, np.float32),
    }
    assert all(ports[key][1] is None for key in memory)
    assert runtime.library.binade_program_initialize(program, ctypes.c_uint64(0)) == 2
    assert "is not bound to memory" in runtime.error()
    for key, array in memory.items():
        assert runtime.library.binade_program_bind(
            program, ctypes.c_size_t(ports[key][0]), ctypes.c_void_p(array.ctypes.data)
        ) == 0  # fmt: skip
    w, gradient, momentum = (array.copy() for array in memory.values())
    assert runtime.library.binade_program_initialize(program, ctypes.c_uint64(0)) == 0
    momentum[:] = 0
    for _ in range(2):
        assert runtime.library.binade_program_run(program) == 0, runtime.error()
        momentum = np.float32(0.5) * momentum + gradient
        w = w - np.float32(RATE) * momentum
    np.testing.assert_allclose(memory["parameter", "w"], w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        memory["state", "momentum_buffer/w"], momentum, rtol=1e-6
    )
    assert runtime.library.binade_program_enqueue(program, None) == 2
    assert "on a CUDA device" in runtime.error()
    hyper = ports["hyper", "lr"][0]
    assert (
        runtime.library.binade_program_bind(program, ctypes.c_size_t(hyper), None) == 2
    )
    runtime.library.binade_program_free(program)


@pytest.mark.parametrize("arguments, error", [
    ({"roles": b"parameter,weights"}, "no role is called 'weights'"),
    ({"device": b"gpu"}, "no device is called 'gpu'"),
])  # fmt: skip
def test_wrong_arguments(runtime, bundle, arguments, error):
    code, _ = load(runtime, bundle, **arguments)
    assert code == 2
    assert error in runtime.error()
