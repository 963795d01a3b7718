"""What a trained drafter costs, from its drafter.json; no weight is read."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from specjax.checkpoints import published
from specjax.checkpoints.base import in_words, read_json
from specjax.checkpoints.drafter_files import CONFIG
from specjax.drafters import shipped, trained
from specjax.models.config import DecoderConfig
from specjax.models.eagle_config import EagleConfig
from specjax.models.heads import Blockwise, Medusa
from specjax.theory import drafts
from specjax.theory.rounds import Drafter

# (settings of the file, the target) -> what it costs.
Cost = Callable[[Mapping[str, Any], DecoderConfig], Drafter]


def find(name: str) -> Path | None:
  """The folder that a name stands for; None where it is no trained drafter's.

  Args:
    name: a folder, that of its training, or a shipped drafter's name.

  Raises:
    ValueError: a drafter in a layout of another tool.
  """
  folder = shipped.find(name) or Path(name).expanduser()
  for one in (folder / trained.TRAINED, folder):
    if (one / CONFIG).is_file():
      return one.resolve()
  if published.find_format(folder) is not None:
    raise ValueError(
      f"{name} is a published drafter, whose cost is not read here: make a"
      " folder of ours, python -m experiments.export_drafter --from"
    )
  return None


def drafter_of(folder: Path, target: DecoderConfig) -> Drafter:
  """Of a folder that `find` found.

  Raises:
    ValueError: a drafter for a target of other sizes, a kind that is not known,
      settings that are not whole.
  """
  raw = read_json(folder / CONFIG)
  try:
    kind, settings = raw["kind"], raw["settings"]
    vocab, width = raw["target_sizes"]
    if (vocab, width) != (target.vocab_size, target.hidden_size):
      raise ValueError(
        f"it drafts for {raw['target']}, of {vocab} tokens and width {width},"
        f" not for {target.vocab_size} and {target.hidden_size}"
      )
    if kind not in _KINDS:
      raise ValueError(f"it holds a {kind!r}; known are {', '.join(_KINDS)}")
    return _KINDS[kind](settings, target)
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(f"{folder / CONFIG}: {in_words(error)}") from error


def _draft_model(settings: Mapping[str, Any], _: DecoderConfig) -> Drafter:
  return drafts.draft_model(
    DecoderConfig.from_json(settings["config"]),
    shared_embedding=settings["share_embedding"],
    shared_head=not settings["train_head"],
    shared_layers=settings.get("share_layers", 0),
  )


def _eagle(settings: Mapping[str, Any], _: DecoderConfig) -> Drafter:
  config = EagleConfig.from_json(settings)
  return drafts.eagle(
    config.layer,
    version=config.version,
    num_features=len(config.taps),
    head_size=config.draft_vocab_size,
    fc_norm=config.fc_norm,
    shared_head=not config.own_head,
  )


def _heads(net: type[Medusa | Blockwise], cost: Callable[..., Drafter]) -> Cost:
  """Of heads whose fields `cost` takes by the same names, but for one."""

  def drafter(settings: Mapping[str, Any], target: DecoderConfig) -> Drafter:
    sizes = dataclasses.asdict(net(**settings))
    rows = sizes.pop("vocab_size")
    shared = rows == target.vocab_size
    return cost(head_size=rows, shared_head=shared, **sizes)

  return drafter


_KINDS: dict[str, Cost] = {
  "draft_model": _draft_model,
  "medusa": _heads(Medusa, drafts.medusa),
  "blockwise": _heads(Blockwise, drafts.blockwise),
  "eagle1": _eagle,
  "eagle3": _eagle,
}
