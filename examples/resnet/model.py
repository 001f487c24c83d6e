"""A small ResNet for images of 8 x 8 (He et al., 2016): a stem, three stages of two
convolutions each with batch normalization, the last two of half the size and twice the
channels, a mean over the image, a linear layer. 78 thousand parameters.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 32


def make_convolution(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = make_convolution(inputs, outputs, stride)
        self.second = make_convolution(outputs, outputs, 1)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(
            inputs, outputs, 1, stride, bias=False
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.first(x)))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = make_convolution(1, 16, 1)
        self.stages = nn.Sequential(
            Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
        )
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stages(F.relu(self.stem(images)))
        return self.head(x.mean((2, 3)))


def make_model() -> nn.Module:
    return ResNet()


def make_batch() -> dict[str, Tensor]:
    return {
        "images": torch.zeros(BATCH, 1, 8, 8),
        "labels": torch.zeros(BATCH, dtype=torch.int64),
    }


def cross_entropy(prediction: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(prediction, labels)
