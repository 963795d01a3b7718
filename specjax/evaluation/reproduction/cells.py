"""What a reproduced paper consists of: cells, figures, and how to make them."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

Group = Literal["formula", "sampler", "trained"]
Verdict = Literal["agrees", "differs", "no published cell"]
GROUPS: tuple[Group, ...] = ("formula", "sampler", "trained")
VERDICTS: tuple[Verdict, ...] = ("agrees", "differs", "no published cell")
Curves = Mapping[str, tuple[Sequence[float | int], Sequence[float | int]]]

# A printed 1.53 and our 1.535 agree although 1.535 - 1.53 > 0.005 in floats.
_FLOAT_SLACK = 1e-9


def half_unit(decimals: int) -> float:
  """Half a unit of the last of so many printed decimals."""
  return 0.5 * 10.0**-decimals


@dataclasses.dataclass(frozen=True)
class Cell:
  """One published number and ours.

  Attributes:
    place: where it is printed, "table 1, alpha 0.6, gamma 2: speed".
    group: what ours comes from: a closed form (or enumeration, or numpy), a
      compiled sampler of the library, or a model trained here.
    ours: computed here.
    published: as printed; None where the document describes the figure and
      prints no number.
    tolerance: largest difference that agrees, in the number's unit; half a unit
      of the last printed digit unless the note says otherwise.
    relative: the tolerance is a share of the published number.
    note: how ours was made, or why it differs.
  """

  place: str
  group: Group
  ours: float
  published: float | None
  tolerance: float
  relative: bool = False
  note: str = ""

  @property
  def difference(self) -> float | None:
    """Ours less the published number."""
    return None if self.published is None else self.ours - self.published

  @property
  def allowed(self) -> float | None:
    """The tolerance in the number's unit."""
    if self.published is None:
      return None
    return self.tolerance * (abs(self.published) if self.relative else 1.0)

  @property
  def agrees(self) -> bool | None:
    """Whether the difference is within the tolerance; NaN never is."""
    if self.difference is None or self.allowed is None:
      return None
    return abs(self.difference) <= self.allowed + _FLOAT_SLACK

  @property
  def verdict(self) -> Verdict:
    if self.agrees is None:
      return "no published cell"
    return "agrees" if self.agrees else "differs"


@dataclasses.dataclass(frozen=True)
class Figure:
  """Curves of ours, with points printed in the paper where there are any.

  Attributes:
    curves: label -> (x, y).
    published: label -> (x, y), drawn as points.
  """

  title: str
  xlabel: str
  ylabel: str
  curves: Curves
  published: Curves = dataclasses.field(default_factory=dict)
  logx: bool = False


def _say_nothing(line: str) -> None:
  del line


@dataclasses.dataclass(frozen=True)
class Settings:
  """How cells are made.

  Attributes:
    quick: smaller samples where a cell is sampled; its note says how large.
    text_file: text of the trained group; None is text that every Python
      installation carries.
    say: called with a line of progress.
    seed: of what is sampled or trained here.
  """

  quick: bool = False
  text_file: str | None = None
  say: Callable[[str], None] = _say_nothing
  seed: int = 0


def no_figures(settings: Settings) -> Iterable[Figure]:
  """A paper without figures."""
  del settings
  return ()


@dataclasses.dataclass(frozen=True)
class Paper:
  """A document whose numbers are made again.

  Attributes:
    name: the value of --paper.
    title: as printed.
    source: arXiv number, or what kind of document it is.
    cells: computed when called.
    figures: the same.
  """

  name: str
  title: str
  source: str
  cells: Callable[[Settings], Iterable[Cell]]
  figures: Callable[[Settings], Iterable[Figure]] = no_figures
