"""GGUF files (llama.cpp) of the Llama, Qwen2 and Qwen3 families."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from jaxtyping import Float, PyTree

from specjax.checkpoints import gguf_rope
from specjax.checkpoints.base import (
  CheckpointError,
  as_dtype,
  check_sizes,
  check_tensors,
  read_tree,
  shapes,
)
from specjax.checkpoints.gguf_header import GgufTensor, Header, read_header
from specjax.models.config import DecoderConfig

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_NAMES = {
  "embed/embedding": "token_embd.weight",
  "norm/scale": "output_norm.weight",
  "head/kernel": "output.weight",
  "input_norm/scale": "attn_norm.weight",
  "attention/q/kernel": "attn_q.weight",
  "attention/k/kernel": "attn_k.weight",
  "attention/v/kernel": "attn_v.weight",
  "attention/o/kernel": "attn_output.weight",
  "attention/q/bias": "attn_q.bias",
  "attention/k/bias": "attn_k.bias",
  "attention/v/bias": "attn_v.bias",
  "attention/q_norm/scale": "attn_q_norm.weight",
  "attention/k_norm/scale": "attn_k_norm.weight",
  "post_norm/scale": "ffn_norm.weight",
  "mlp/gate/kernel": "ffn_gate.weight",
  "mlp/up/kernel": "ffn_up.weight",
  "mlp/down/kernel": "ffn_down.weight",
}
_ROW_ELEMENTS = 4096


def read_gguf(
  path: str | os.PathLike[str], dtype: Any = "float32"
) -> tuple[DecoderConfig, PyTree, dict[str, Any]]:
  """Reads a GGUF file tensor by tensor.

  Returns:
    (config, params, metadata): params hold numpy arrays of `dtype`, rows of q
    and k in the half-split rotary order of Hugging Face.

  Raises:
    CheckpointError: an unsound file, an architecture or a rope scaling that is
      not supported, a tensor missing, unexpected or of the wrong shape.
  """
  path, target = Path(path), as_dtype(dtype)
  header = read_header(path)
  try:
    config = _config(header, str(target))
  except (TypeError, ValueError, OverflowError) as error:
    raise CheckpointError(f"{path}: {error}") from error
  check_sizes(config, len(header.tensors), path)
  wanted = shapes(config)
  names = {path_: _tensor_name(path_) for path_ in wanted}
  check_tensors(
    {name: tensor.shape for name, tensor in header.tensors.items()},
    {names[path_]: shape for path_, shape in wanted.items()},
    path,
    ignored=(gguf_rope.FACTORS,),
  )
  permuted = header.metadata["general.architecture"] == "llama"

  def read(name: str) -> np.ndarray:
    value = _values(header.tensors[name], target, f"{path}: {name}")
    if permuted and ".attn_q." in name:
      value = half_split(value, config.num_heads)
    if permuted and ".attn_k." in name:
      value = half_split(value, config.num_kv_heads)
    return np.require(value, requirements=["C", "O"])

  with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
    params = read_tree(names, read, pool.map)
  return config, params, header.metadata


def half_split(
  rows: Float[np.ndarray, "rows *in_"], num_heads: int
) -> Float[np.ndarray, "rows *in_"]:
  """Undoes llama.cpp's interleaving of the rows of each q or k head.

  llama.cpp stores row 2i + h of a head where Hugging Face has row
  h * head_dim / 2 + i (its convert_hf_to_gguf.py, LlamaModel.permute).
  """
  pairs = rows.reshape(num_heads, -1, 2, *rows.shape[1:])
  return pairs.swapaxes(1, 2).reshape(rows.shape)


def _tensor_name(path: str) -> str:
  prefix, _, rest = path.partition("/")
  if prefix.startswith("layers_"):
    return f"blk.{prefix.removeprefix('layers_')}.{_NAMES[rest]}"
  return _NAMES[path]


def _values(tensor: GgufTensor, dtype: np.dtype, what: str) -> np.ndarray:
  """Long rows make `dequantize` about five times faster."""
  block, num_bytes = GGML_QUANT_SIZES[tensor.type]
  blocks = tensor.data.size // num_bytes
  per_row = max(1, _ROW_ELEMENTS // block)
  while blocks % per_row:
    per_row -= 1
  rows = tensor.data.reshape(-1, per_row * num_bytes)
  try:
    # Scales that overflow float16 decode to inf, as in llama.cpp.
    with np.errstate(all="ignore"):
      values = dequantize(rows, tensor.type).reshape(tensor.shape)
      return values.astype(dtype, copy=False)
  except NotImplementedError:
    kind = GGMLQuantizationType(tensor.type).name
    raise CheckpointError(
      f"{what} has type {kind}, which cannot be dequantised"
    ) from None


def _config(header: Header, dtype: str) -> DecoderConfig:
  metadata = header.metadata
  arch = metadata.get("general.architecture")
  if arch not in _ARCHITECTURES:
    raise ValueError(
      f"architecture {arch!r} is not supported, only"
      f" {', '.join(_ARCHITECTURES)}"
    )

  def get(key: str, kind: type, default: Any = None) -> Any:
    value = metadata.get(f"{arch}.{key}", default)
    if isinstance(value, np.ndarray) and value.size and np.ptp(value) == 0:
      value = value[0].item()
    if type(value) is not kind:
      raise ValueError(f"{arch}.{key} must be one {kind.__name__}, got {value}")
    return value

  if get("expert_count", int, 0):
    raise ValueError("mixtures of experts are not supported")
  hidden, heads = get("embedding_length", int), get("attention.head_count", int)
  head_dim = get("attention.key_length", int, hidden // max(heads, 1))
  gguf_rope.check_plain(metadata, arch, head_dim)
  if get("attention.value_length", int, head_dim) != head_dim:
    raise ValueError("values and keys of different widths are not supported")
  embedding = header.tensors.get("token_embd.weight")
  if embedding is None or len(embedding.shape) != 2:
    raise ValueError("there is no token_embd.weight matrix")
  theta = get("rope.freq_base", float, 10000.0)
  freqs = header.tensors.get(gguf_rope.FACTORS)
  return DecoderConfig(
    vocab_size=embedding.shape[0],
    hidden_size=hidden,
    intermediate_size=get("feed_forward_length", int),
    num_layers=get("block_count", int),
    num_heads=heads,
    num_kv_heads=get("attention.head_count_kv", int, heads),
    head_dim=head_dim,
    max_positions=get("context_length", int),
    rope_theta=theta,
    rope_scaling=None
    if freqs is None
    else gguf_rope.recover_llama3(freqs, head_dim, theta),
    rms_norm_eps=float(
      np.float32(get("attention.layer_norm_rms_epsilon", float)).astype(str)
    ),
    qkv_bias="blk.0.attn_q.bias" in header.tensors,
    qk_norm="blk.0.attn_q_norm.weight" in header.tensors,
    tie_embeddings="output.weight" not in header.tensors,
    dtype=dtype,
  )
