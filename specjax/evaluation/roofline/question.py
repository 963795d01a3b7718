"""From settings by name to a case, and what it may be compared with."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from specjax.evaluation.roofline import cases, here, of_run
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
    recorded: conditional acceptance of a run's modes with the case's drafter.
    mode: whose acceptance the case has; None where it is not a run's.
    reached: setup of the devices whose peaks were not measured.
    measured: name of the device whose were; None without one.
  """

  target: str
  case: Case
  drafters: dict[str, Drafter]
  devices: dict[str, Device]
  recorded: dict[str, tuple[float, ...]]
  mode: str | None
  reached: Setup
  measured: str | None

  def with_drafter(self, name: str) -> Case:
    """The case with another drafter."""
    return dataclasses.replace(
      self.case, drafter=self.drafters[name], draft=name
    )


def ask(settings: Mapping[str, Any]) -> Question:
  """Of settings by name: the fields of configs/roofline.py.

  With `acceptance_from`, `target`, `drafters` and `gamma` may be None: they are
  then the run's own. One that is given must be the run's.

  Raises:
    ValueError: one that is not known or not possible.
  """
  settings = dict(settings)
  runs: dict[str, tuple[float, ...]] = {}
  acceptance, mode = _acceptance(settings), None
  if settings["acceptance_from"] is not None:
    one, runs = _of_run(settings)
    acceptance = dataclasses.replace(acceptance, recorded=one.rates)
    mode = one.mode.name
  sizes = cases.sizes_of(settings["target"])
  names = list(settings["drafters"])
  cases.check_drafters(names, sizes)
  drafters = {name: cases.drafter_of(name, sizes) for name in names}
  gamma = settings["gamma"]
  if acceptance.longest(gamma) < gamma:
    raise ValueError(
      f"acceptance is recorded for {acceptance.longest(gamma)} positions, not"
      f" for gamma {gamma}"
    )
  most = drafters[names[0]].longest
  if most is not None and gamma > most:
    raise ValueError(f"{names[0]} drafts {most} tokens at most, not {gamma}")
  place = settings["device"]
  device, setup, reached = stand_on(place, settings)
  measured = here.NAME if place == here.NAME else None
  known = {**({here.NAME: device} if measured else {}), **DEVICES}
  case = Case(
    target=shapes.shape_of(sizes),
    drafter=drafters[names[0]],
    draft=names[0],
    device=device,
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
    target=settings["target"],
    case=case,
    drafters=drafters,
    devices=known,
    recorded=runs,
    mode=mode,
    reached=reached,
    measured=measured,
  )


def stand_on(
  place: str, settings: Mapping[str, Any]
) -> tuple[Device, Setup, Setup]:
  """A device by name, how it runs, and how listed ones would.

  The machine at hand is measured, and reaches all of what was measured.

  Raises:
    ValueError: no such device, or one that cannot run so.
  """
  chips = settings["chips"]
  if chips < 1:
    raise ValueError(f"chips must be at least 1, got {chips}")
  measured = place == here.NAME
  device = here.measure() if measured else devices.device(place)
  if chips > 1 and not device.link:
    raise ValueError(f"{chips} chips need a device with links to others")
  reached = _setup(settings, measured)
  setup = reached
  if measured:
    setup = dataclasses.replace(
      reached, bandwidth_share=1.0, operations_share=1.0
    )
  return device, setup, reached


def _of_run(
  settings: dict[str, Any],
) -> tuple[of_run.Drafted, dict[str, tuple[float, ...]]]:
  """(the mode, rates of all with its drafter); completes the settings."""
  given = settings["target"]
  run = of_run.read(settings["acceptance_from"], settings["categories"], given)
  names = list(settings["drafters"] or [])
  if len(names) > 1:
    raise ValueError(
      f"an acceptance is of one drafter, not of {len(names)}: with"
      " --acceptance_from name one, or none for the run's own"
    )
  one = run.choose(settings["mode"], *names)
  draft = names[0] if names else one.draft
  if draft is None:
    raise ValueError(
      f"what {one.said} costs is not known here: say with --draft what it is"
    )
  settings["drafters"] = (draft,)
  settings["target"] = run.target_for(given, draft)
  if settings["gamma"] is None:
    settings["gamma"] = len(one.rates)
  rates = {
    other.mode.name: other.rates
    for other in run.modes
    if other.said == one.said
  }
  return one, rates


def _acceptance(settings: Mapping[str, Any]) -> Acceptance:
  shape = settings["shape"]
  if shape not in ("constant", "falling"):
    raise ValueError(f"shape is constant or falling, got {shape!r}")
  ratio = 1.0 if shape == "constant" else float(settings["ratio"])
  return Acceptance(float(settings["acceptance"]), ratio)


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
