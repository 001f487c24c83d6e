"""Schedule-free AdamW with z, x and y as tensors of their own."""

import numpy as np


class Published:
    """The reference implementation of facebookresearch/schedule_free, in f64."""

    def __init__(self, p, lr, beta1, beta2, eps, decay, warmup_steps, r, power):
        self.z, self.x, self.y = (p.astype(float) for _ in range(3))
        self.v, self.k, self.weight_sum, self.lr_max = 0.0, 0, 0.0, -1.0
        self.lr, self.beta1, self.beta2, self.eps, self.decay = (
            lr, beta1, beta2, eps, decay)  # fmt: skip
        self.warmup_steps, self.r, self.power = warmup_steps, r, power

    def step(self, g):
        k = self.k
        lr = self.lr * ((k + 1) / self.warmup_steps if k < self.warmup_steps else 1)
        self.lr_max = max(lr, self.lr_max)
        weight = (k + 1) ** self.r * self.lr_max**self.power
        self.weight_sum += weight
        c = weight / self.weight_sum if self.weight_sum else 0
        self.v = self.beta2 * self.v + (1 - self.beta2) * g * g
        denominator = np.sqrt(self.v / (1 - self.beta2 ** (k + 1))) + self.eps
        self.z = self.z - lr * self.decay * self.y - lr * g / denominator
        self.x = (1 - c) * self.x + c * self.z
        self.y = self.beta1 * self.x + (1 - self.beta1) * self.z
        self.k += 1
