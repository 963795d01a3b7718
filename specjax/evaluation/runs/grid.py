"""From lists of drafters, rules and settings to the modes of a run."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import PyTree

from specjax import acceptance
from specjax.api.pairing import default_rule
from specjax.api.settings import Sampling
from specjax.checkpoints.loaded import LoadedModel
from specjax.drafters import DrafterSettings, registry
from specjax.drafters.registry import Draft
from specjax.drafters.settings import parse
from specjax.evaluation.records import PLAIN, Mode
from specjax.types import Drafter, Params, Rule

_DRAFT = ("draft_model", "draft_layers")
_FILTERS = ("top_k", "top_p", "min_p")


@dataclasses.dataclass(frozen=True)
class Grid:
  """What is crossed: every drafter with every rule, length and temperature.

  Attributes:
    drafters: names or import paths, each with settings of its own that stand
      in place of the grid's: "model num_speculative_tokens=5 temperature=0".
    rules: names; empty is each drafter's default rule.
    num_speculative_tokens: lengths of drafts; empty is each drafter's default.
    temperatures: 0 is greedy.
    top_k, top_p, min_p: of every law.
    lenience: of the rule lossy_lenience.
    draft_model, draft_layers: of the drafters that run a model.
    target: its name; a drafter without a draft takes what is shipped for it.
  """

  drafters: tuple[str, ...] = ()
  rules: tuple[str, ...] = ()
  num_speculative_tokens: tuple[int, ...] = ()
  temperatures: tuple[float, ...] = (0.0,)
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  lenience: float | None = None
  draft_model: str | None = None
  draft_layers: int | None = None
  target: str = ""


@dataclasses.dataclass(frozen=True)
class Cell:
  """One mode as it was asked for; sound as far as is known without a model.

  Attributes:
    drafter: name or import path.
    settings: of the drafter.
    rule: its name; None is the drafter's default.
    lenience: of that rule.
    sampling: the law.
    told: settings that this drafter was given beside the grid's, which its
      name shows.
  """

  drafter: str = PLAIN
  settings: DrafterSettings = DrafterSettings()
  rule: str | None = None
  lenience: float | None = None
  sampling: Sampling = Sampling()
  told: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Method:
  """A mode ready to run: what `api.stream` takes of it."""

  mode: Mode
  drafter: Drafter
  draft: PyTree
  rule: Rule
  sampling: Sampling


def expand(grid: Grid) -> tuple[Cell, ...]:
  """The cells, by law; plain decoding of each law comes first.

  Raises:
    ValueError: a name, a setting or a number that is refused, in one line.
  """
  cells: dict[Cell, None] = {}
  for temperature in grid.temperatures or (0.0,):
    sampling = _sampling(grid, temperature)
    found = [
      cell
      for text in grid.drafters
      for cell in _cells(text, grid, temperature, sampling)
    ]
    cells[Cell(sampling=sampling)] = None
    cells.update(dict.fromkeys(found))
  for cell in cells:
    registry.check(cell.drafter, cell.settings, grid.target)
    if cell.rule is not None:
      _rule(cell.rule, cell.lenience)
  return tuple(cells)


def resolve(cells: Sequence[Cell], target: LoadedModel) -> tuple[Method, ...]:
  """The methods of cells; a draft that several share is loaded once.

  Raises:
    ValueError: a draft that does not fit the target, a rule that cannot judge
      a drafter, two modes of one name.
  """
  loaded: dict[Any, Draft] = {}
  methods = [_method(cell, target, loaded) for cell in cells]
  names = [method.mode.name for method in methods]
  for name in names:
    if names.count(name) > 1:
      raise ValueError(f"two modes are called {name!r}: give only one of them")
  return tuple(methods)


def _sampling(grid: Grid, temperature: float) -> Sampling:
  return Sampling(temperature, grid.top_k, grid.top_p, grid.min_p)


def _cells(text: str, grid: Grid, temperature: float, sampling: Sampling):
  """Cells of one drafter at one temperature, none where it wants another."""
  name, own = parse(text)
  if own.pop("temperature", temperature) != temperature or name == PLAIN:
    return
  told = tuple(f"{key}={value}" for key, value in own.items())
  told = tuple(t for t in told if not t.startswith(("num_spec", "rule=")))
  rules = [own.pop("rule")] if "rule" in own else list(grid.rules) or [None]
  lenience = own.pop("lenience", grid.lenience)
  settings = dict(own)
  if registry.takes_draft(name):
    if not any(key in own for key in _DRAFT):
      settings |= {key: getattr(grid, key) for key in _DRAFT}
  lengths = [own.get("num_speculative_tokens")]
  if lengths == [None]:
    lengths = list(grid.num_speculative_tokens) or lengths
  for rule, length in itertools.product(rules, lengths):
    settings["num_speculative_tokens"] = length
    lenient = rule == acceptance.LossyLenience.name
    yield Cell(
      drafter=name,
      settings=registry.completed(
        name, DrafterSettings.of(**settings), grid.target
      ),
      rule=rule,
      lenience=lenience if lenient else None,
      sampling=sampling,
      told=told,
    )


def _rule(name: str, lenience: float | None) -> Rule:
  settings = {} if lenience is None else {"lenience": lenience}
  return acceptance.make_rule(name, **settings)


def _method(cell: Cell, target: LoadedModel, loaded: dict) -> Method:
  drafter, draft = registry.resolve(cell.drafter, cell.settings, target, loaded)
  weights = None if draft is None else draft.params
  if cell.rule is None:
    params = Params(target.params, weights)
    rule = default_rule(target.model, drafter, params)
  else:
    rule = _rule(cell.rule, cell.lenience)
  acceptance.check_pair(drafter, rule)
  given = cell.settings.given() | {"lenience": cell.lenience}
  given.pop("num_speculative_tokens", None)
  law: dict[str, Any] = dataclasses.asdict(cell.sampling)
  mode = Mode(
    name=_name(cell, drafter),
    drafter=cell.drafter,
    rule=rule.name,
    lossless=acceptance.is_lossless(drafter, rule),
    num_speculative_tokens=drafter.max_depth,
    options={k: v for k, v in given.items() if v is not None},
    **law,
  )
  return Method(mode, drafter, weights, rule, cell.sampling)


def _name(cell: Cell, drafter: Drafter) -> str:
  """Short, unique in a run, the same in every run of the same mode."""
  parts = [cell.drafter.rpartition(":")[2]]
  if drafter.max_depth:
    parts.append(f"k={drafter.max_depth}")
  if drafter.num_nodes > drafter.max_depth:
    parts.append(f"n={drafter.num_nodes}")
  parts += cell.told
  if cell.rule is not None:
    parts.append(cell.rule)
  return " ".join(parts) + law_name(dataclasses.asdict(cell.sampling))


def law_name(law: Mapping[str, Any]) -> str:
  """ " T=0.8 top_p=0.9"; nothing for greedy."""
  if not law["temperature"]:
    return ""
  off = dataclasses.asdict(Sampling())
  filters = [f" {n}={law[n]:g}" for n in _FILTERS if law[n] != off[n]]
  return f" T={law['temperature']:g}" + "".join(filters)
