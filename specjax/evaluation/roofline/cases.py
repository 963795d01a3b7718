"""One question to the roofline: models, device, load and acceptance."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from specjax.checkpoints.huggingface_config import config_from_dict
from specjax.drafters import shipped
from specjax.evaluation.roofline import trained_drafts
from specjax.models.config import DecoderConfig
from specjax.models.presets import PRESETS, preset
from specjax.theory import drafts, rounds, shapes
from specjax.theory.batch_simulation import Simulator
from specjax.theory.devices import Device
from specjax.theory.roofline import Setup
from specjax.theory.rounds import Drafter
from specjax.theory.shapes import ModelShape

LOADS = ("drains", "full")
SELF, LAYERS = "self:", "layers:"


@dataclasses.dataclass(frozen=True)
class Acceptance:
  """Conditional acceptance by position.

  Attributes:
    first: of position 1.
    ratio: of each position's to the one before; 1 is constant.
    recorded: rates of a run, in place of the two.
  """

  first: float = 0.75
  ratio: float = 0.85
  recorded: tuple[float, ...] | None = None

  def __post_init__(self):
    for value in (self.first, self.ratio, *(self.recorded or ())):
      if not 0 <= value <= 1:
        raise ValueError(f"acceptance must be in [0, 1], got {value:g}")
    if self.recorded is not None and not self.recorded:
      raise ValueError("recorded acceptance needs a position")

  def conditional(self, length: int) -> tuple[float, ...]:
    """Of positions 1 to `length`.

    Raises:
      ValueError: longer than what was recorded.
    """
    if self.recorded is None:
      return tuple(self.first * self.ratio**i for i in range(length))
    if length > len(self.recorded):
      raise ValueError(
        f"acceptance is recorded for {len(self.recorded)} positions,"
        f" not for {length}"
      )
    return self.recorded[:length]

  def longest(self, length: int) -> int:
    """The longest draft up to this length that rates are known for."""
    known = self.recorded
    return length if known is None else min(length, len(known))

  def describe(self) -> str:
    """In a few words."""
    if self.recorded is not None:
      return "recorded " + ", ".join(f"{r:.3f}" for r in self.recorded)
    if self.ratio == 1:
      return f"{self.first:g} at every position"
    return f"{self.first:g}, falling by {self.ratio:g} a position"


@dataclasses.dataclass(frozen=True)
class Case:
  """A target and a drafter on a device under a load.

  Attributes:
    draft: its name; see `drafter_of`.
    place: name of the device.
    batch: rows that run together.
    context: tokens of each row at the start; each is for `new_tokens` more.
    gamma: number of speculative tokens, 1 or more.
    load: "drains": rows start together and none follows; "full": a queue
      keeps every row running, at the mean context.
    memory_share: of the memory that weights and caches may take.
  """

  target: ModelShape
  drafter: Drafter
  draft: str
  device: Device
  place: str
  setup: Setup
  acceptance: Acceptance
  batch: int = 1
  context: int = 2048
  new_tokens: int = 256
  gamma: int = 4
  load: str = "drains"
  memory_share: float = 0.9

  def __post_init__(self):
    for name in ("batch", "context", "new_tokens", "gamma"):
      if getattr(self, name) < 1:
        value = getattr(self, name)
        raise ValueError(f"{name} must be at least 1, got {value}")
    if self.load not in LOADS:
      raise ValueError(f"load is drains or full, got {self.load!r}")

  @property
  def conditional(self) -> tuple[float, ...]:
    """Acceptance of each position of the draft."""
    return self.acceptance.conditional(self.gamma)

  def longest(self, length: int) -> int:
    """The longest draft up to this length that it can make and rates know."""
    most = self.drafter.longest
    return self.acceptance.longest(
      length if most is None else min(length, most)
    )

  @property
  def mean_context(self) -> float:
    """Tokens of a row in the cache, over its passes of plain decoding."""
    return self.context + (self.new_tokens - 1) / 2

  @property
  def simulator(self) -> Simulator:
    """The same for `batch_simulation` and `batch_expectation`."""
    return Simulator(
      self.target, self.drafter, self.device, self.setup, self.conditional
    )


def sizes_of(name: str) -> DecoderConfig:
  """Sizes of a published decoder, or of a config.json or its folder.

  Raises:
    ValueError: neither, or a family that is not known.
  """
  path = Path(name)
  if path.is_dir():
    path = path / "config.json"
  if not path.is_file():
    return preset(name.rpartition("/")[2])
  try:
    return config_from_dict(json.loads(path.read_text(encoding="utf-8")))
  except (OSError, ValueError) as error:
    raise ValueError(f"cannot read {path}: {error}") from error


def drafter_of(name: str, sizes: DecoderConfig) -> Drafter:
  """What drafts, by name.

  Args:
    name: "ngram" (no weights), "head" (one layer on the target's features),
      "self:N" (the target on N tokens of its cache), "layers:N" (its first N
      layers), a trained drafter's folder or a shipped one's name, or a
      decoder's, which drafts with a cache of its own.
    sizes: of the target.

  Raises:
    ValueError: none of these.
  """
  if name == "ngram":
    return rounds.lookup()
  if name == "head":
    return rounds.separate(shapes.head_of(sizes))
  if name.startswith(SELF):
    kept = _count(name, SELF, "self:TOKENS, as in self:512")
    return rounds.sparse_self(shapes.shape_of(sizes), kept)
  if name.startswith(LAYERS):
    kept = _count(name, LAYERS, "layers:N, as in layers:3")
    return drafts.first_layers(sizes, kept)
  if (folder := trained_drafts.find(name)) is not None:
    return trained_drafts.drafter_of(folder, sizes)
  if name.lower() not in PRESETS and not Path(name).exists():
    known = "ngram, head, self:TOKENS, layers:N, " + ", ".join(
      [*shipped.names(), *PRESETS, "a trained drafter's folder, a config.json"]
    )
    try:
      preset(name.rpartition("/")[2])
    except ValueError:
      raise ValueError(f"no drafter {name!r}: choose one of {known}") from None
  return rounds.separate(shapes.shape_of(sizes_of(name)))


def _count(name: str, prefix: str, wanted: str) -> int:
  kept = name.removeprefix(prefix)
  if not kept.isdecimal() or int(kept) < 1:
    raise ValueError(f"{name!r} must be {wanted}")
  return int(kept)


def check_drafters(names: Sequence[str], sizes: DecoderConfig) -> None:
  """Refuses names that are no drafters, or twice the same.

  Raises:
    ValueError: so.
  """
  if not names:
    raise ValueError("no drafter is named")
  for name in names:
    drafter_of(name, sizes)
    if names.count(name) > 1:
      raise ValueError(f"drafter {name!r} is named twice")
