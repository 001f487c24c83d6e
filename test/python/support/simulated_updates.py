"""A process that updates tensors on the simulated driver; started by test_cuda_updates.py.

    python simulated_updates.py CASE OUT FOLDER

It runs the same steps on the CPU, and writes what both found to OUT. The kernels are in
FOLDER, and the environment selects the simulated driver. CASE is JSON with `formats`
(arguments of an Update), `dtype`, and optionally `graph` (whether the last steps replay a
graph) and `hangs` (whether kernels never end).
"""

import ctypes
import json
import os
import sys

import torch

from binade.torch.devices import Device
from binade.torch.update import Scaling, Update

SHAPES = {"0.0": (3, 40), "0.1": (17,), "0.2": (2, 256), "0.3": (0, 4), "0.4": ()}
GLOBAL = 0  # The mode in which PyTorch captures graphs.


class Driver:
    """The simulated driver, as PyTorch uses it: a context, and a stream of its own."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.library.cuDriverGetVersion(ctypes.byref(ctypes.c_int()))
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(ctypes.c_void_p()), 0)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name} returned {status}"

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def copy(self, name, to, source, size):
        if size:
            kinds = (
                ctypes.c_uint64 if "HtoD" in name else ctypes.c_void_p,
                ctypes.c_void_p if "HtoD" in name else ctypes.c_uint64,
            )
            to, source = (kind(value) for kind, value in zip(kinds, (to, source)))
            self.call(name, to, source, ctypes.c_size_t(size), self.stream)


class SimulatedDevice(Device):
    """Tensors of the host whose copies on the device are what a program uses. Each binding
    of a tensor has another address."""

    def __init__(self, driver):
        super().__init__(torch.device("cpu"))
        self.name, self.target, self.alignment = "cuda:0", "cuda:sm_90", 16
        self.driver = driver
        self.bound = {}

    def bind(self, program, memory):
        places = []
        for index, tensor in memory:
            assert tensor.is_contiguous()
            address = self.driver.allocate(tensor.nbytes)
            self.bound[index] = tensor, address
            places.append((index, address))
        program.bind(places)
        self.upload()

    def upload(self):
        for tensor, address in self.bound.values():
            self.driver.copy(
                "cuMemcpyHtoDAsync_v2", address, tensor.data_ptr(), tensor.nbytes
            )

    def download(self):
        for tensor, address in self.bound.values():
            self.driver.copy(
                "cuMemcpyDtoHAsync_v2", tensor.data_ptr(), address, tensor.nbytes
            )
        self.wait()

    def initialize(self, program):
        self.wait()
        program.initialize(0)
        self.download()

    def run(self, program):
        # Tensors that were bound before have changed, too.
        self.upload()
        program.enqueue(self.driver.stream.value)
        self.download()

    def wait(self):
        self.driver.call("cuStreamQuery", self.driver.stream)


class CapturingDevice(SimulatedDevice):
    """Captures each run in a graph, and launches it."""

    captures = False

    def run(self, program):
        if not self.captures:
            return super().run(program)
        self.wait()
        self.driver.call("cuStreamBeginCapture_v2", self.driver.stream, GLOBAL)
        program.enqueue(self.driver.stream.value)
        captured, self.graph = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.call(
            "cuStreamEndCapture", self.driver.stream, ctypes.byref(captured)
        )
        self.driver.call(
            "cuGraphInstantiateWithFlags",
            ctypes.byref(self.graph), captured, ctypes.c_ulonglong(0),
        )  # fmt: skip
        self.used = dict(self.bound)
        self.replay()

    def replay(self):
        """Repeats the captured step, with the tensors that it had."""
        self.bound = dict(self.used)
        self.upload()
        self.driver.call("cuGraphLaunch", self.graph, self.driver.stream)
        self.download()


class Run:
    """An update of parameters on a device, with the same values on each."""

    def __init__(self, device, case, folder):
        generator = torch.Generator().manual_seed(0)
        self.kind = getattr(torch, case["dtype"])
        self.generator = generator
        self.parameters = {name: self.draw(shape) for name, shape in SHAPES.items()}
        self.device = device
        self.update = Update(
            self.parameters,
            device,
            masters=dict.fromkeys(SHAPES, case.get("master", "none")),
            attributes=dict.fromkeys(SHAPES, "binade.row_groups"),
            save_kernels=folder,
            **case["formats"],
        )

    def draw(self, shape):
        return torch.randn(shape, generator=self.generator).to(self.kind)

    def step(self, without=(), overflow=False, scale=1.0, rate=None):
        """Returns the gradients."""
        gradients = {name: self.draw(shape) for name, shape in SHAPES.items()}
        if overflow:
            gradients["0.2"][1, 3] = torch.inf
        if rate is not None:
            self.update.settings[
                next(n for n in self.update.settings if n[:2] == "lr")
            ] = rate
        given = {
            name: value for name, value in gradients.items() if name not in without
        }
        scaling = Scaling(torch.tensor(scale), torch.tensor(0.0))
        self.update.run(self.parameters, given, scaling)
        return given

    def found(self):
        states = {
            f"{name} {key}": state
            for name, states in self.update.states.items()
            for key, state in states.items()
        }
        common = {"step": self.update.common["step"]}
        return {**self.parameters, **states, **common}


def train(run):
    skipped = []
    for options in [
        {}, {"without": ["0.1", "0.4"]}, {"overflow": True}, {"scale": 4.0},
        {"rate": 0.25},
    ]:  # fmt: skip
        run.step(**options)
        skipped.append(run.update.skipped)
    return run.found() | {"skipped": torch.tensor(skipped)}


def replay(run):
    """A step, another that is captured, two that are not, and three that replay the captured
    one with other gradients, of which one is infinite."""
    run.step()
    run.device.captures = True
    captured = run.step()
    run.device.captures = False
    run.step()
    run.step(without=["0.1"])
    skipped = [run.update.skipped]
    for number in range(3):
        values = {name: run.draw(shape) for name, shape in SHAPES.items()}
        for name, value in captured.items():
            value.copy_(values[name])
        if number == 1:
            captured["0.2"][1, 3] = torch.inf
        if isinstance(run.device, CapturingDevice):
            run.device.replay()
        else:
            scaling = Scaling.none(torch.device("cpu"))
            run.update.run(run.parameters, captured, scaling)
        skipped.append(run.update.skipped)
    return run.found() | {"skipped": torch.tensor(skipped)}


def main(text, out, folder):
    case = json.loads(text)
    driver = Driver()
    if case.get("hangs"):
        device = SimulatedDevice(driver)
        run = Run(device, case, folder)
        device.run = lambda program: program.enqueue(driver.stream.value)
        run.step()
        torch.save("returned", out)
        os._exit(0)
    work, device = (
        (replay, CapturingDevice) if case.get("graph") else (train, SimulatedDevice)
    )
    expected = work(Run(Device(torch.device("cpu")), case, ""))
    torch.save((work(Run(device(driver), case, folder)), expected), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
