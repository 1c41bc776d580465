"""The state of a training run in one safetensors file, written beside and then moved into place."""

import os
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from acctax.errors import ConfigError
from acctax.train.heads import Head

MOMENTS = ("exp_avg", "exp_avg_sq")


def save_state(path: Path, identity: str, head: Head, optimizer: torch.optim.AdamW, spent) -> None:
    tensors = {}
    for name, parameter in head.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach()
        moments = optimizer.state.get(parameter, {})
        tensors |= {f"{moment}.{name}": moments[moment] for moment in MOMENTS if moments}
    said = {"identity": identity, **{name: str(value) for name, value in vars(spent).items()}}
    staging = path.with_suffix(".new")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, staging, metadata=said)
    os.replace(staging, path)


def load_state(path: Path, identity: str, head: Head, optimizer: torch.optim.AdamW, spent) -> None:
    """Where there is one. Raises ConfigError for the state of a run with other settings."""
    if not path.is_file():
        return
    with safe_open(path, framework="pt") as file:
        said = file.metadata()
        if said["identity"] != identity:
            raise ConfigError("out", path.parent, "holds a run of other settings: choose another folder, or remove it")
        for name in vars(spent):
            setattr(spent, name, type(getattr(spent, name))(said[name]))
        with torch.no_grad():
            for name, parameter in head.named_parameters():
                parameter.copy_(file.get_tensor(f"weight.{name}"))
                if spent.steps:
                    moments = {moment: file.get_tensor(f"{moment}.{name}") for moment in MOMENTS}
                    optimizer.state[parameter] = {"step": torch.tensor(float(spent.steps)), **moments}
