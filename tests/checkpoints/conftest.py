"""Tiny models written to disk in each format."""

import dataclasses
import json

import gguf
import numpy as np
import pytest
from gguf.quants import quantize
from safetensors.numpy import save_file

from specjax.checkpoints.base import shapes
from specjax.checkpoints.huggingface import tensor_name
from specjax.models.config import DecoderConfig

GGUF_NAMES = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight",
  "model.layers.": "blk.",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "input_layernorm": "attn_norm",
  "post_attention_layernorm": "ffn_norm",
}
FAMILIES = {
  "llama": {},
  "qwen2": {"qkv_bias": True},
  "qwen3": {"qk_norm": True},
}


@dataclasses.dataclass
class Tiny:
  """A random decoder: its config, its tensors by Hugging Face name."""

  family: str
  config: DecoderConfig
  tensors: dict[str, np.ndarray]

  def tree(self, transform=lambda value: value):
    """The parameter tree that a loader must give."""
    tree = {}
    for path in shapes(self.config):
      *parents, last = path.split("/")
      node = tree
      for parent in parents:
        node = node.setdefault(parent, {})
      node[last] = transform(self.tensors[tensor_name(path)])
    return tree

  def config_json(self, **changes):
    c = self.config
    return {
      "model_type": self.family,
      "vocab_size": c.vocab_size,
      "hidden_size": c.hidden_size,
      "intermediate_size": c.intermediate_size,
      "num_hidden_layers": c.num_layers,
      "num_attention_heads": c.num_heads,
      "num_key_value_heads": c.num_kv_heads,
      "head_dim": c.head_dim,
      "max_position_embeddings": c.max_positions,
      "rope_theta": c.rope_theta,
      "rms_norm_eps": c.rms_norm_eps,
      "tie_word_embeddings": c.tie_embeddings,
      "hidden_act": "silu",
    } | changes

  def write_folder(self, folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(self.config_json(**changes))
    (folder / "config.json").write_text(text)
    save_file(self.tensors, folder / "model.safetensors")
    return folder

  def write_gguf(self, path, kind="F32", extra=None, fields=None, raw=None):
    """Writes as llama.cpp's converter does, `kind` for matrices."""
    c = self.config
    writer = gguf.GGUFWriter(path, self.family)
    writer.add_context_length(c.max_positions)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_block_count(c.num_layers)
    writer.add_head_count(c.num_heads)
    writer.add_head_count_kv(c.num_kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_rope_freq_base(c.rope_theta)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    for key, value in (fields or {}).items():
      getattr(writer, f"add_{key}")(value)
    for name, value in (self.tensors | (extra or {})).items():
      if self.family == "llama" and "q_proj" in name:
        value = interleave(value, c.num_heads)
      if self.family == "llama" and "k_proj" in name:
        value = interleave(value, c.num_kv_heads)
      for old, new in GGUF_NAMES.items():
        name = name.replace(old, new)
      type_ = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
      if name in (raw or {}):
        type_, value = raw[name]
        writer.add_tensor(name, value, raw_dtype=type_)
      elif type_.name in ("F32", "F16"):
        dtype = np.float32 if type_.name == "F32" else np.float16
        writer.add_tensor(name, np.ascontiguousarray(value, dtype))
      else:
        packed = quantize(np.ascontiguousarray(value), type_)
        writer.add_tensor(name, packed, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleave(rows, num_heads):
  """The row order of llama.cpp's convert_hf_to_gguf.py, for Llama alone."""
  halves = rows.reshape(num_heads, 2, -1, *rows.shape[1:])
  return halves.swapaxes(1, 2).reshape(rows.shape)


@pytest.fixture(scope="session")
def make_tiny():
  def make(family="llama", **changes):
    config = DecoderConfig(
      **{
        "vocab_size": 48,
        "hidden_size": 256,
        "intermediate_size": 256,
        "num_layers": 2,
        "num_heads": 8,
        "num_kv_heads": 2,
        "head_dim": 32,
        "max_positions": 128,
        **FAMILIES[family],
        **changes,
      }
    )
    rng = np.random.default_rng(0)
    tensors = {
      tensor_name(path): rng.normal(size=shape).astype(np.float32)
      for path, shape in shapes(config).items()
    }
    return Tiny(family, config, tensors)

  return make
