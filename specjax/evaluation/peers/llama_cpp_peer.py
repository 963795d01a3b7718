"""llama.cpp through llama-cpp-python: plain and prompt lookup.

It runs the GGUF file as it is, in its 4-bit (or other) blocks and with a cache
in float16: a fraction of the bytes of float32 weights, and not the same
arithmetic.
"""

import itertools
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from llama_cpp import Llama, llama_cpp
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from specjax import checkpoints
from specjax.evaluation.peers.registry import (
  Kind,
  PeerAnswer,
  Request,
  Settings,
)


def load(kind: Kind, settings: Settings) -> "LlamaCppDecoder":
  """Loads the GGUF file of a model's name.

  Raises:
    ValueError: the model is no GGUF file.
  """
  path = checkpoints.resolve(settings.model).fetch()
  if path.suffix != ".gguf":
    raise ValueError(f"llama.cpp reads GGUF files, {settings.model} is none")
  draft = None
  if kind.drafter == "ngram":
    draft = LlamaPromptLookupDecoding(
      max_ngram_size=2, num_pred_tokens=settings.num_speculative_tokens
    )
  if _has_amx():
    _leave_amx_out()
  model = _Watched(
    model_path=str(path),
    n_ctx=settings.max_context,
    n_threads=settings.threads,
    n_threads_batch=settings.threads,
    draft_model=draft,
    # A draft sets this as well, but with room for one batch of logits only.
    logits_all=draft is not None,
    verbose=False,
  )
  return LlamaCppDecoder(model)


def _has_amx() -> bool:
  info = Path("/proc/cpuinfo")
  if platform.machine() != "x86_64" or not info.exists():
    return False
  return "amx_int8" in info.read_text()


def _leave_amx_out() -> None:
  """Loads weights as they lie in the file, what llama-cli calls --no-repack.

  The AMX kernels of llama.cpp die at their first product on some virtual
  machines that have AMX (ggml-org/llama.cpp#20824). `Llama` has no option.
  """
  defaults = llama_cpp.llama_model_default_params

  def plain():
    parameters = defaults()
    parameters.use_extra_bufts = False
    return parameters

  llama_cpp.llama_model_default_params = plain


class _Watched(Llama):
  """Sees the width of every pass."""

  def __init__(self, **options: Any):
    self.widths: list[int] = []
    super().__init__(**options)

  def eval(self, tokens: Sequence[int]) -> None:
    self.widths.append(len(tokens))
    super().eval(tokens)


class LlamaCppDecoder:
  """`Llama.generate`, after the prompt but for its last token was read."""

  def __init__(self, model: _Watched):
    self.versions = {
      "llama-cpp-python": metadata.version("llama-cpp-python"),
      "llama.cpp built for": _features(),
    }
    self._model = model

  def decode(self, request: Request) -> PeerAnswer:
    """See `PeerAnswer`."""
    model, prompt = self._model, list(request.prompt_ids)
    model.set_seed(request.seed)
    began = time.perf_counter()
    model.reset()  # else a prefix of the last prompt would be read for nothing
    if len(prompt) > 1:
      model.eval(prompt[:-1])
    read = time.perf_counter()
    model.widths.clear()
    stream = model.generate(
      prompt,
      temp=request.temperature,
      top_k=0,
      top_p=1.0,
      min_p=0.0,
      repeat_penalty=1.0,
    )
    tokens, passes = [], []
    for token in itertools.islice(stream, request.max_new_tokens):
      tokens.append(token)
      passes.append(len(model.widths))
      if token in request.eos_ids:
        break
    stream.close()
    done = time.perf_counter()
    emitted = [passes.count(n) for n in range(1, len(model.widths) + 1)]
    return PeerAnswer(
      token_ids=tuple(tokens),
      passes=len(model.widths),
      prefill_s=read - began,
      decode_s=done - read,
      finish_reason="eos" if tokens[-1] in request.eos_ids else "length",
      rounds=tuple(
        (width - 1, count - 1, count, width)
        for width, count in zip(model.widths, emitted, strict=True)
      ),
    )


def _features() -> str:
  """The instruction sets that the library was built for."""
  text = llama_cpp.llama_print_system_info().decode()
  flags = [part.partition("=") for part in text.partition(":")[2].split("|")]
  return " ".join(name.strip() for name, _, on in flags if on.strip() == "1")
