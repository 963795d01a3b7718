"""A checkpoint's weights as torch tensors."""

from typing import Any

import numpy as np
import torch

from specjax.checkpoints.base import Checkpoint, shapes
from specjax.checkpoints.huggingface import tensor_name


def state(checkpoint: Checkpoint, num_layers: int) -> dict[str, torch.Tensor]:
  """Tensors by the names of the Hugging Face layout, of the first layers.

  They share the memory of the checkpoint's arrays.
  """
  tensors = {}
  for path in shapes(checkpoint.config):
    first = path.partition("/")[0].removeprefix("layers_")
    if first.isdigit() and int(first) >= num_layers:
      continue
    leaf: Any = checkpoint.params
    for key in path.split("/"):
      leaf = leaf[key]
    tensors[tensor_name(path)] = _tensor(leaf)
  return tensors


def _tensor(array: np.ndarray) -> torch.Tensor:
  if array.dtype == np.float32:
    return torch.from_numpy(array)
  # numpy's bfloat16 is an extension type that torch does not know.
  return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
