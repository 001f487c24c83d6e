"""Models, data and runs whose updates take several batches."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export  # noqa: E402
from support import export_models as models  # noqa: E402
from support.reference import binade, safetensors  # noqa: E402

STEPS, BATCHES = 4, 3
RULE = ["--lr", 0.1, "--set", "momentum=0.9"]
KINDS = {
    "mlp": (models.MLP, models.vectors),
    "gpt": (models.MiniGPT, models.tokens),
    "conv": (models.ConvNet, models.images),  # With running statistics.
}


class Files:
    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        make_model, make_batch = KINDS[kind]
        torch.manual_seed(0)
        self.net, example = make_model(), make_batch()
        self.model = folder / f"{kind}.onnx"
        export.export_onnx(self.net, example, self.model, loss=models.cross_entropy)
        draw = np.random.default_rng(0)
        self.batch = len(example["labels"])
        count = self.batch * BATCHES * STEPS
        self.data = {}
        for name, value in example.items():
            shape = (count, *value.shape[1:])
            if value.dtype.is_floating_point:
                self.data[name] = draw.standard_normal(shape, np.float32)
            else:
                self.data[name] = draw.integers(0, int(value.max()) + 1, shape)
        self.path = folder / "data.safetensors"
        safetensors.save(self.path, self.data)

    def train(self, out, *more, batches=BATCHES, steps=STEPS, begin="--out", status=0):
        process = binade(
            "train", self.model, "--data", self.path, "--order", "sequential",
            "--optimizer", "sgd", *RULE, "--steps", steps,
            "--accumulate", batches, *more, begin, out,
        )  # fmt: skip
        assert process.returncode == status, process.stderr
        return process

    def train_with_pytorch(self, clip=None):
        net = KINDS[self.kind][0]()
        net.load_state_dict(self.net.state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        parts = [torch.tensor(value).split(self.batch) for value in self.data.values()]
        losses, norms = [], []
        for index, (x, labels) in enumerate(zip(*parts)):
            loss = models.cross_entropy(net(x), labels) / BATCHES
            loss.backward()
            losses.append(loss.item())
            if (index + 1) % BATCHES:
                continue
            limit = clip or float("inf")
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), limit).item())
            optimizer.step()
            optimizer.zero_grad()
        sums = np.array(losses).reshape(-1, BATCHES).sum(1)
        return sums, norms, {k: v.numpy() for k, v in net.state_dict().items()}


def read_metrics(run):
    return [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
