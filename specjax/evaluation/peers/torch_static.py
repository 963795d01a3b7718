"""PyTorch compiled: one token's step over a preallocated cache.

After gpt-fast (pytorch-labs/gpt-fast): projections fused, caches of a fixed
shape written in place, the step under `torch.compile`. It attends to the part
of the cache in use, rounded up, with a program for each such length.
"""

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from specjax import checkpoints
from specjax.checkpoints.base import Checkpoint
from specjax.evaluation.peers import torch_weights
from specjax.evaluation.peers.registry import (
  Kind,
  PeerAnswer,
  Request,
  Settings,
)
from specjax.models import rope

_BUCKET = 256


def load(kind: Kind, settings: Settings) -> "StaticDecoder":
  """Loads the very weights that specjax would use; compiles at first use.

  Raises:
    ValueError: a model that cannot be read.
  """
  del kind
  torch.set_num_threads(settings.threads)
  checkpoint = checkpoints.load(settings.model, settings.dtype)
  return StaticDecoder(Net(checkpoint, settings.max_context))


class Layer(nn.Module):
  """One block; `prefix` names its tensors."""

  def __init__(self, tensors: dict[str, torch.Tensor], prefix: str):
    super().__init__()
    own = {
      name.removeprefix(prefix + "."): tensor
      for name, tensor in tensors.items()
      if name.startswith(prefix + ".")
    }
    qkv = [f"self_attn.{part}_proj" for part in "qkv"]
    biases = [own[f"{part}.bias"] for part in qkv if f"{part}.bias" in own]
    gate_up = [own[f"mlp.{part}_proj.weight"] for part in ("gate", "up")]
    for name, value in {
      "input_norm": own["input_layernorm.weight"],
      "post_norm": own["post_attention_layernorm.weight"],
      "qkv": torch.cat([own[f"{part}.weight"] for part in qkv]),
      "bias": torch.cat(biases) if biases else None,
      "q_norm": own.get("self_attn.q_norm.weight"),
      "k_norm": own.get("self_attn.k_norm.weight"),
      "out": own["self_attn.o_proj.weight"],
      "gate_up": torch.cat(gate_up),
      "down": own["mlp.down_proj.weight"],
    }.items():
      self.register_buffer(name, value)


class Net(nn.Module):
  """The decoder of one row: (tokens [S], positions [S], length) -> logits [V].

  Logits are those of the last token. K/V of the tokens are written at their
  positions; attention reads the first `length` of the cache.
  """

  def __init__(self, checkpoint: Checkpoint, capacity: int):
    super().__init__()
    self.config = config = checkpoint.config
    tensors = torch_weights.state(checkpoint, config.num_layers)
    self.register_buffer("embedding", tensors["model.embed_tokens.weight"])
    self.register_buffer("norm", tensors["model.norm.weight"])
    head = tensors.get("lm_head.weight", self.embedding)
    self.register_buffer("head", head)
    names = [f"model.layers.{i}" for i in range(config.num_layers)]
    self.layers = nn.ModuleList(Layer(tensors, name) for name in names)
    turns = torch.from_numpy(rope.frequencies(config))
    angles = torch.outer(torch.arange(capacity).float(), turns).repeat(1, 2)
    self.register_buffer("cos", angles.cos())
    self.register_buffer("sin", angles.sin())
    shape = (config.num_kv_heads, capacity, config.head_dim)
    self.capacity = capacity
    self.caches = [
      (self.embedding.new_zeros(shape), self.embedding.new_zeros(shape))
      for _ in self.layers
    ]

  def forward(
    self, tokens: torch.Tensor, positions: torch.Tensor, length: int
  ) -> torch.Tensor:
    x = F.embedding(tokens, self.embedding)
    mask = torch.arange(length) <= positions[:, None]
    turn = self.cos[positions], self.sin[positions]
    for layer, cache in zip(self.layers, self.caches, strict=True):
      x = x + self._attend(layer, cache, x, positions, turn, mask)
      gate_up = F.linear(self._norm(x, layer.post_norm), layer.gate_up)
      gate, up = gate_up.chunk(2, -1)
      x = x + F.linear(F.silu(gate) * up, layer.down)
    return F.linear(self._norm(x[-1], self.norm), self.head).float()

  def _attend(self, layer: Any, cache: Any, x: Any, at: Any, turn: Any, mask):
    config, (keys, values) = self.config, cache
    size, heads, kv = config.head_dim, config.num_heads, config.num_kv_heads
    h = F.linear(self._norm(x, layer.input_norm), layer.qkv, layer.bias)
    h = h.view(len(x), heads + 2 * kv, size).transpose(0, 1)
    q, k, v = h.split([heads, kv, kv])
    if layer.q_norm is not None:
      q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
    keys.index_copy_(1, at, _rotate(k, turn))
    values.index_copy_(1, at, v)
    length = mask.shape[1]
    out = F.scaled_dot_product_attention(
      _rotate(q, turn)[None],
      keys[None, :, :length],
      values[None, :, :length],
      attn_mask=mask,
      enable_gqa=True,
    )
    return F.linear(out[0].transpose(0, 1).flatten(1), layer.out)

  def _norm(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, scale.shape, scale, self.config.rms_norm_eps)


def _rotate(x: torch.Tensor, turn: Any) -> torch.Tensor:
  cos, sin = turn
  first, second = x.chunk(2, -1)
  turned = x * cos + torch.cat((-second, first), -1) * sin
  return turned.to(x.dtype)


class StaticDecoder:
  """A loop of compiled steps on the host."""

  def __init__(self, net: Net):
    self.versions = {"torch": torch.__version__}
    self._net, self._ready = net, set()
    # A position goes in as a tensor: a number would be compiled in.
    self._step = torch.compile(net, dynamic=False, fullgraph=True)

  @torch.inference_mode()
  def decode(self, request: Request) -> PeerAnswer:
    """See `PeerAnswer`; compiling new lengths is no part of its times."""
    prompt = torch.tensor(request.prompt_ids)
    first = len(prompt) - 1
    last = first + request.max_new_tokens - 1
    for position in (*range(first, last, _BUCKET), last):
      self._compile(self._length(position))
    draws = torch.Generator().manual_seed(request.seed)
    began = time.perf_counter()
    if first:
      places = torch.arange(first)
      self._net(prompt[:-1], places, self._length(first - 1))
    read = time.perf_counter()
    tokens, token = [], prompt[-1:]
    for position in range(first, last + 1):
      at, length = torch.tensor([position]), self._length(position)
      logits = self._step(token, at, length)
      token = _draw(logits, request.temperature, draws)
      tokens.append(int(token))
      if tokens[-1] in request.eos_ids:
        break
    done = time.perf_counter()
    return PeerAnswer(
      token_ids=tuple(tokens),
      passes=len(tokens),
      prefill_s=read - began,
      decode_s=done - read,
      finish_reason="eos" if tokens[-1] in request.eos_ids else "length",
      rounds=((0, 0, 1, 1),) * len(tokens),
    )

  def _length(self, position: int) -> int:
    """How much of the cache a token at a position attends to."""
    return min(-(-(position + 1) // _BUCKET) * _BUCKET, self._net.capacity)

  def _compile(self, length: int) -> None:
    if length not in self._ready:
      # What is written here the prompt writes over. One tensor given twice
      # would be compiled as that, and the real call compiled again.
      token, place = (torch.zeros(1, dtype=torch.long) for _ in range(2))
      self._step(token, place, length)
      self._ready.add(length)


def _draw(
  logits: torch.Tensor, temperature: float, draws: torch.Generator
) -> torch.Tensor:
  if not temperature:
    return logits.argmax(-1, keepdim=True)
  law = torch.softmax(logits / temperature, -1)
  return torch.multinomial(law, 1, generator=draws)
