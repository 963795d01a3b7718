"""Hugging Face transformers: plain, prompt lookup, assisted generation."""

import functools
import time
from typing import Any

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

from specjax import checkpoints
from specjax.evaluation.peers import torch_model
from specjax.evaluation.peers.registry import (
  Kind,
  PeerAnswer,
  Request,
  Settings,
)


def load(kind: Kind, settings: Settings) -> "TransformersDecoder":
  """Loads the very weights that specjax would use.

  Raises:
    ValueError: a model that cannot be read.
  """
  torch.set_num_threads(settings.threads)
  transformers.logging.set_verbosity_error()
  checkpoint = checkpoints.load(settings.model, settings.dtype)
  model = torch_model.build(checkpoint)
  options: dict[str, Any] = {}
  assistant = None
  if kind.drafter == "ngram":
    options["prompt_lookup_num_tokens"] = settings.num_speculative_tokens
  elif kind.drafter == "model":
    assistant = _assistant(checkpoint, settings)
  return TransformersDecoder(model, options, assistant)


def _assistant(checkpoint: checkpoints.Checkpoint, settings: Settings) -> Any:
  if settings.draft_model is not None:
    draft = checkpoints.load(settings.draft_model, settings.dtype)
    assistant = torch_model.build(draft, settings.draft_layers)
  else:
    layers = settings.draft_layers or checkpoint.config.num_layers * 5 // 6
    assistant = torch_model.build(checkpoint, layers)
  config = assistant.generation_config
  config.num_assistant_tokens = settings.num_speculative_tokens
  config.num_assistant_tokens_schedule = "constant"
  config.assistant_confidence_threshold = 0.0
  return assistant


class TransformersDecoder:
  """`model.generate`, continued from a cache that holds the prompt.

  The prompt but for its last token is read by a pass of its own, which is what
  `prefill_s` times, so that prefill means what it means in specjax.
  """

  def __init__(self, model: Any, options: dict[str, Any], assistant: Any):
    self.versions = {
      "transformers": transformers.__version__,
      "torch": torch.__version__,
    }
    self._model, self._options = model, options
    self._assistant = assistant
    self._watch = _Watch()
    model.register_forward_pre_hook(self._watch.before_pass, with_kwargs=True)
    model.prepare_inputs_for_generation = _continued(
      model.prepare_inputs_for_generation
    )

  @torch.inference_mode()
  def decode(self, request: Request) -> PeerAnswer:
    """See `PeerAnswer`."""
    ids = torch.tensor([request.prompt_ids])
    torch.manual_seed(request.seed)
    cache = transformers.DynamicCache(config=self._model.config)
    began = time.perf_counter()
    if ids.shape[1] > 1:
      self._model.model(input_ids=ids[:, :-1], cache=cache, use_cache=True)
    read = time.perf_counter()
    self._watch.reset()
    options = dict(self._options)
    if self._assistant is not None:
      options["assistant_model"] = self._assistant
    output = self._model.generate(
      ids,
      attention_mask=torch.ones_like(ids),
      cache=cache,
      generation_config=_generation(request),
      streamer=self._watch,
      **options,
    )
    done = time.perf_counter()
    tokens = tuple(output[0, ids.shape[1] :].tolist())
    return PeerAnswer(
      token_ids=tokens,
      passes=len(self._watch.widths),
      prefill_s=read - began,
      decode_s=done - read,
      finish_reason="eos" if tokens[-1] in request.eos_ids else "length",
      rounds=self._watch.rounds,
    )


def _generation(request: Request) -> transformers.GenerationConfig:
  law: dict[str, Any] = {"do_sample": False}
  if request.temperature:
    law = {
      "do_sample": True,
      "temperature": request.temperature,
      "top_k": 0,
      "top_p": 1.0,
    }
  return transformers.GenerationConfig(
    **law,
    max_new_tokens=request.max_new_tokens,
    eos_token_id=list(request.eos_ids) or None,
    # Named so that no warning is; nothing is ever padded.
    pad_token_id=0,
  )


class _Watch(BaseStreamer):
  """Sees the width of every target pass, and the tokens that came of it."""

  def __init__(self):
    self.reset()

  def reset(self) -> None:
    self.widths: list[int] = []
    self.emitted: list[int] = []

  def before_pass(self, module: Any, args: Any, kwargs: Any) -> None:
    self.widths.append(kwargs["input_ids"].shape[1])

  def put(self, value: torch.Tensor) -> None:
    if self.widths:  # the first call brings the prompt, before any pass
      self.emitted.append(value.numel())

  def end(self) -> None:
    pass

  @property
  def rounds(self) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(
      (width - 1, emitted - 1, emitted, width)
      for width, emitted in zip(self.widths, self.emitted, strict=True)
    )


def _continued(prepare: Any) -> Any:
  """Assisted generation would read what a given cache already holds again."""

  @functools.wraps(prepare)
  def prepare_inputs(input_ids, next_sequence_length=None, **kwargs):
    if next_sequence_length is None:
      held = kwargs["cache"].get_seq_length()
      next_sequence_length = input_ids.shape[1] - held
    return prepare(
      input_ids, next_sequence_length=next_sequence_length, **kwargs
    )

  return prepare_inputs
