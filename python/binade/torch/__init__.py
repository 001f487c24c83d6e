"""Binade for PyTorch: compiled steps from modules, and optimizers and statistics for
PyTorch loops."""

from binade.torch.capturing import capture, load_parameters
from binade.torch.distributed.batches import Batches
from binade.torch.distributed.checkpoints import load_checkpoint, save_checkpoint
from binade.torch.distributed.runs import train
from binade.torch.distributed.step import DistributedStep, distribute
from binade.torch.exchange import set_all_gather_format, set_reduce_scatter_format
from binade.torch.modules import StableEmbedding
from binade.torch.monitoring import Monitor, monitor
from binade.torch.optimizer import Optimizer
from binade.torch.rules import (
    LAMB,
    LARS,
    SGD,
    Adafactor,
    Adagrad,
    Adam,
    AdamMini,
    AdamW,
    AdEMAMix,
    Lion,
    Muon,
    RMSprop,
    ScheduleFreeAdamW,
    Signum,
    Tiger,
    TigerSGD,
)
from binade.torch.run_states import load_state, save_state

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "AdEMAMix",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamMini",
    "AdamW",
    "Batches",
    "DistributedStep",
    "Lion",
    "Monitor",
    "Muon",
    "Optimizer",
    "RMSprop",
    "ScheduleFreeAdamW",
    "Signum",
    "StableEmbedding",
    "Tiger",
    "TigerSGD",
    "capture",
    "distribute",
    "load_checkpoint",
    "load_parameters",
    "load_state",
    "monitor",
    "save_checkpoint",
    "save_state",
    "set_all_gather_format",
    "set_reduce_scatter_format",
    "train",
]
