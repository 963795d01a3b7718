"""From settings by name to a case, and what it may be compared with."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specjax.evaluation.roofline import cases, here, recorded
from specjax.evaluation.roofline.cases import Acceptance, Case
from specjax.theory import devices, shapes
from specjax.theory.devices import DEVICES, Device
from specjax.theory.roofline import Setup
from specjax.theory.rounds import Drafter


@dataclasses.dataclass(frozen=True)
class Question:
  """A case, and the other drafters and devices that it may be asked of.

  Attributes:
    target: its name.
    case: with the first drafter.
    drafters, devices: by name.
    recorded: conditional acceptance of runs, by mode.
    reached: setup of the devices whose peaks were not measured.
    measured: name of the device whose were; None without one.
  """

  target: str
  case: Case
  drafters: dict[str, Drafter]
  devices: dict[str, Device]
  recorded: dict[str, tuple[float, ...]]
  reached: Setup
  measured: str | None

  def with_drafter(self, name: str) -> Case:
    """The case with another drafter."""
    return dataclasses.replace(
      self.case, drafter=self.drafters[name], draft=name
    )


def ask(settings: Mapping[str, Any]) -> Question:
  """Of settings by name: the fields of configs/roofline.py.

  Raises:
    ValueError: one that is not known or not possible.
  """
  sizes = cases.sizes_of(settings["target"])
  names = list(settings["drafters"])
  cases.check_drafters(names, sizes)
  drafters = {name: cases.drafter_of(name, sizes) for name in names}
  chips = settings["chips"]
  if chips < 1:
    raise ValueError(f"chips must be at least 1, got {chips}")
  runs: dict[str, tuple[float, ...]] = {}
  acceptance = _acceptance(settings)
  if settings["acceptance_from"] is not None:
    runs = recorded.read(Path(settings["acceptance_from"]))
    rates = _choose(runs, settings["mode"])
    acceptance = dataclasses.replace(acceptance, recorded=rates)
  gamma = settings["gamma"]
  if acceptance.longest(gamma) < gamma:
    raise ValueError(
      f"acceptance is recorded for {acceptance.longest(gamma)} positions, not"
      f" for gamma {gamma}"
    )
  place = settings["device"]
  known = dict(DEVICES)
  measured = here.NAME if place == here.NAME else None
  if measured:
    known = {here.NAME: here.measure(), **known}
  elif place not in known:
    devices.device(place)  # says what there is
  if chips > 1 and not known[place].link:
    raise ValueError(f"{chips} chips need a device with links to others")
  reached = _setup(settings, bool(measured))
  setup = reached
  if measured:
    setup = dataclasses.replace(
      reached, bandwidth_share=1.0, operations_share=1.0
    )
  case = Case(
    target=shapes.shape_of(sizes),
    drafter=drafters[names[0]],
    draft=names[0],
    device=known[place],
    place=place,
    setup=setup,
    acceptance=acceptance,
    batch=settings["concurrency"],
    context=settings["context"],
    new_tokens=settings["new_tokens"],
    gamma=gamma,
    load=settings["load"],
    memory_share=float(settings["memory_share"]),
  )
  return Question(
    settings["target"], case, drafters, known, runs, reached, measured
  )


def _acceptance(settings: Mapping[str, Any]) -> Acceptance:
  shape = settings["shape"]
  if shape not in ("constant", "falling"):
    raise ValueError(f"shape is constant or falling, got {shape!r}")
  ratio = 1.0 if shape == "constant" else float(settings["ratio"])
  return Acceptance(float(settings["acceptance"]), ratio)


def _choose(
  runs: Mapping[str, tuple[float, ...]], mode: str | None
) -> tuple[float, ...]:
  """Rates of the mode named, or of the only one."""
  if mode is None and len(runs) == 1:
    return next(iter(runs.values()))
  if mode not in runs:
    asked = "name a" if mode is None else f"no {mode!r}: name a"
    raise ValueError(f"{asked} mode of the run: {', '.join(runs)}")
  return runs[mode]


def _setup(settings: Mapping[str, Any], measured: bool) -> Setup:
  bits = here.weight_bits() if measured else 16

  def given(name: str) -> float | int:
    value = settings[name]
    value = bits if value is None else value
    if not 0 < value <= 64:
      raise ValueError(f"{name} must be in (0, 64], got {value:g}")
    return value

  shares = {}
  for name in ("bandwidth_share", "operations_share", "memory_share"):
    shares[name] = float(settings[name])
    if not 0 < shares[name] <= 1:
      raise ValueError(f"{name} must be in (0, 1], got {shares[name]:g}")
  return Setup(
    weight_bits=given("weight_bits"),
    cache_bits=given("cache_bits"),
    ways=settings["chips"],
    bandwidth_share=shares["bandwidth_share"],
    operations_share=shares["operations_share"],
    fixed_seconds=float(settings["fixed_seconds"]),
    hop_seconds=float(settings["hop_seconds"]),
  )
