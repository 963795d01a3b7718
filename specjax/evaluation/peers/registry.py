"""Which peers there are, and what goes to them and comes back."""

import dataclasses
import difflib
import importlib.util
from typing import Any, Protocol

from specjax.evaluation import records


@dataclasses.dataclass(frozen=True)
class Kind:
  """One way in which another system decodes.

  Attributes:
    name: as it is asked for.
    system: "transformers", "llama.cpp" or "torch".
    drafter: "none", "ngram" (prompt lookup) or "model".
    module: whose `load(kind, settings)` gives a `Decoder`, in the child.
    packages: what must be importable.
    num_speculative_tokens: the largest draft where none is asked for.
  """

  name: str
  system: str
  drafter: str
  module: str
  packages: tuple[str, ...]
  num_speculative_tokens: int = 0


_HERE = __name__.rpartition(".")[0]
_HF, _CPP = f"{_HERE}.transformers_peer", f"{_HERE}.llama_cpp_peer"
_STATIC = f"{_HERE}.torch_static"
_TORCH = ("torch", "transformers")
KINDS = {
  kind.name: kind
  for kind in (
    Kind("transformers plain", "transformers", "none", _HF, _TORCH),
    Kind("transformers lookup", "transformers", "ngram", _HF, _TORCH, 10),
    Kind("transformers assisted", "transformers", "model", _HF, _TORCH, 5),
    Kind("llama.cpp plain", "llama.cpp", "none", _CPP, ("llama_cpp",)),
    Kind("llama.cpp lookup", "llama.cpp", "ngram", _CPP, ("llama_cpp",), 10),
    Kind("torch static", "torch", "none", _STATIC, ("torch",)),
  )
}
NAMES = tuple(KINDS)


@dataclasses.dataclass(frozen=True)
class Settings:
  """What a peer loads.

  Attributes:
    model: a name that `specjax.checkpoints.resolve` takes.
    dtype: of the weights, "float32" or "bfloat16"; llama.cpp keeps those of its
      file.
    threads: of the arithmetic.
    num_speculative_tokens: the largest draft; 0 for a peer that drafts nothing.
    draft_model: of "transformers assisted"; None is the target's own first
      `draft_layers` layers.
    draft_layers: None is five sixths of the target's.
    max_context: prompt and output together fit into so many tokens.
  """

  model: str
  dtype: str
  threads: int
  num_speculative_tokens: int
  draft_model: str | None
  draft_layers: int | None
  max_context: int


@dataclasses.dataclass(frozen=True)
class Request:
  """One prompt; temperature 0 is greedy, no filter is ever applied."""

  prompt_ids: tuple[int, ...]
  max_new_tokens: int
  temperature: float
  seed: int
  eos_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PeerAnswer:
  """What a peer made of a prompt.

  Attributes:
    token_ids: new ones, the one that ended the answer included.
    passes: target passes, that of the prompt not counted.
    prefill_s: reading the prompt but for its last token, in seconds; no new
      token comes of it, as in specjax.
    decode_s: all that follows: every new token falls into it.
    finish_reason: "eos" or "length".
    rounds: (drafted, accepted, emitted, width) of each pass, in order, as in
      `records.Answer`.
  """

  token_ids: tuple[int, ...]
  passes: int
  prefill_s: float
  decode_s: float
  finish_reason: str
  rounds: tuple[tuple[int, int, int, int], ...]

  @property
  def tokens_per_s(self) -> float:
    """Of decoding alone."""
    return len(self.token_ids) / self.decode_s

  @property
  def tokens_per_pass(self) -> float:
    """Emitted tokens a target pass."""
    return len(self.token_ids) / self.passes

  @classmethod
  def from_json(cls, entry: dict[str, Any]) -> "PeerAnswer":
    """Of what the child sent."""
    values = dict(entry)
    values["token_ids"] = tuple(entry["token_ids"])
    values["rounds"] = tuple(tuple(r) for r in entry["rounds"])
    return cls(**values)


class Decoder(Protocol):
  """A loaded peer, inside its process."""

  versions: dict[str, str]

  def decode(self, request: Request) -> PeerAnswer:
    """Raises ValueError for a prompt that does not fit."""
    ...


def kind(name: str) -> Kind:
  """The peer of a name.

  Raises:
    ValueError: there is none.
  """
  if name in KINDS:
    return KINDS[name]
  close = difflib.get_close_matches(name, KINDS, n=1)
  hint = f"did you mean {close[0]!r}?" if close else f"known: {list(NAMES)}"
  raise ValueError(f"unknown peer {name!r}: {hint}")


def available(name: str) -> str | None:
  """Why a peer cannot run here, or None where it can.

  Raises:
    ValueError: there is no such peer.
  """
  missing = [
    package
    for package in kind(name).packages
    if importlib.util.find_spec(package) is None
  ]
  if not missing:
    return None
  return f"{name} needs {' and '.join(missing)}: pip install specjax[compare]"


def mode(peer: Kind, temperature: float, settings: Settings) -> records.Mode:
  """How a peer's answers are recorded.

  Lookup compares with the target's own sample and an assistant's draws go
  through rejection sampling, so that both keep the target's law. llama.cpp
  keeps that of its file's 4-bit arithmetic, and says nothing of another.
  """
  options = {}
  if peer.drafter == "model":
    keys = ("draft_model", "draft_layers")
    options = {key: getattr(settings, key) for key in keys}
  return records.Mode(
    name=peer.name,
    drafter=peer.drafter,
    lossless=None if peer.system == "llama.cpp" else True,
    num_speculative_tokens=settings.num_speculative_tokens,
    temperature=temperature,
    system=peer.system,
    options=options,
  )
