"""Parts of a training's config that only the command knows."""

import dataclasses
import hashlib
from collections.abc import Collection
from pathlib import Path

from specjax.checkpoints.drafter_files import CONFIG, STORAGES
from specjax.training import data
from specjax.training.data import Labelling, Making
from specjax.training.whole_laws import FEATURE


@dataclasses.dataclass(frozen=True)
class Texts:
  """Where the conversations come from: one of three.

  Attributes:
    conversations: a file of them, JSONL or packed (.npz), taken as it is. A
      config may say "shipped", the target's own where there are any, or "made".
    prompt_file: JSONL of prompts, which the target answers.
    making: how the target makes them: where neither file is given it writes
      the queries itself, and how a draft answers for `on_policy`. None where
      nothing is made.
    held_out: share of prompts that are kept from training.
    max_tokens: answer tokens to train on at most, the first of the file; what
      is held out stays as it is. None is all.
    on_policy: share of the rows whose answers the drafter that training starts
      from wrote itself, to the training prompts (Zhou et al. 2023, DistillSpec,
      arXiv 2310.08461). The target labels them like any other text.
  """

  conversations: str | None = None
  prompt_file: str | None = None
  making: Making | None = None
  held_out: float = 0.05
  max_tokens: int | None = None
  on_policy: float = 0.0

  def __post_init__(self):
    if self.conversations is not None and self.prompt_file is not None:
      raise ValueError("data has conversations or a prompt_file, not both")
    if not 0 < self.held_out < 1:
      raise ValueError(f"held_out must be inside (0, 1), got {self.held_out}")
    if self.max_tokens is not None and self.max_tokens < 1:
      raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
    if not 0 <= self.on_policy <= 1:
      raise ValueError(f"on_policy must be in [0, 1], got {self.on_policy}")
    for path in (self.conversations, self.prompt_file):
      if path is not None and not Path(path).is_file():
        raise ValueError(f"there is no file {path}")


@dataclasses.dataclass(frozen=True)
class Labels:
  """What is asked of the target, and where the answers lie.

  Attributes:
    labelling: K, types, and taps to store beside those that the trainee reads.
    folder: a store that other trainings share, made where it is not there; it
      may hold more than is needed. None is one in the run's folder.
    whole: learn from the laws of all tokens, made of the stored feature
      "hidden" for each batch; K counts for what is held out alone.

  Raises:
    ValueError: it is a file, or a store that lacks what is needed.
  """

  labelling: Labelling = Labelling()
  folder: str | None = None
  whole: bool = False

  def needed(self, taps: Collection[str]) -> tuple[str, ...]:
    """Features that a store must have for a trainee that reads `taps`."""
    whole = (FEATURE,) if self.whole else ()
    return tuple(sorted({*taps, *whole}))

  def __post_init__(self):
    if self.folder is None:
      return
    path = Path(self.folder)
    if path.exists() and not path.is_dir():
      raise ValueError(f"{path} is no folder to keep labels in")
    if (path / data.MANIFEST).exists():
      stored = data.Store(path).settings
      wanted = dataclasses.asdict(self.labelling)
      size = stored["model"]["vocab_size"]
      wanted["top_k"] = min(wanted["top_k"], size)
      data.check_holds(path, stored, wanted)


@dataclasses.dataclass(frozen=True)
class Rows:
  """Sizes of a batch, and the devices that it is cut over.

  Attributes:
    batch, length: rows of a batch and tokens of a row; see `data.batches`.
    bucket: rows of like length come together, and a batch is as wide as a
      multiple of so many tokens.
    held_out: batches at most that are judged at every evaluation.
    prompts: learn the laws inside prompts too, not of answers alone; what is
      held out is answers in any case.
    data_devices, model_devices: sizes of the mesh.
  """

  batch: int = 8
  length: int = 384
  bucket: int = 64
  held_out: int = 8
  prompts: bool = False
  data_devices: int = 1
  model_devices: int = 1

  def __post_init__(self):
    for name, value in vars(self).items():
      if name != "prompts" and value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


@dataclasses.dataclass(frozen=True)
class Ends:
  """What a training starts from, and how its drafter is stored.

  Attributes:
    start: folder of a trained drafter of the same kind and sizes, whose weights
      and vocabulary are taken over; None starts as the kind does.
    storage: of the drafter's matrices, one of `drafter_files.STORAGES`.
    as_it_is: train nothing; measure the drafter of `start` for this target.
  """

  start: str | None = None
  storage: str = "float32"
  as_it_is: bool = False

  def __post_init__(self):
    if self.storage not in STORAGES:
      raise ValueError(
        f"storage must be one of {', '.join(STORAGES)}, got {self.storage!r}"
      )
    if self.start is not None and not (Path(self.start) / CONFIG).is_file():
      raise ValueError(f"{self.start} is no folder of a trained drafter")
    if self.as_it_is and self.start is None:
      raise ValueError(
        "as_it_is measures the drafter of start: give its folder"
      )


@dataclasses.dataclass(frozen=True)
class Tried:
  """What the trained drafter is tried on, all of it held out.

  Attributes:
    prompts: of the loop, at most.
    num_speculative_tokens: of the chain in the loop.
    texts: whose answers are forced through the drafter at most, against the
      target's whole laws; only those that were drawn at the trial's
      temperature are. 0 is off.
    conversations: a file of them, to be tried on instead of the training's.
  """

  prompts: int = 16
  num_speculative_tokens: int = 4
  texts: int = 0
  conversations: str | None = None

  def __post_init__(self):
    for name, least in (
      ("prompts", 1),
      ("num_speculative_tokens", 1),
      ("texts", 0),
    ):
      if (value := getattr(self, name)) < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    path = self.conversations
    if path is not None and not Path(path).is_file():
      raise ValueError(f"there is no file {path}")


def content_of(path: str | None) -> str | None:
  """Twelve digits that stand for what is in a file; None for no file."""
  if path is None:
    return None
  return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
