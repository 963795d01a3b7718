"""What a trained drafter costs, from its drafter.json; no weight is read."""

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
    _decoder(settings["config"]),
    shared_embedding=settings["share_embedding"],
    shared_head=not settings["train_head"],
    shared_layers=settings.get("share_layers", 0),
  )


def _eagle(settings: Mapping[str, Any], _: DecoderConfig) -> Drafter:
  own = dict(settings)
  layer, taps = _decoder(own.pop("layer")), tuple(own.pop("taps"))
  config = EagleConfig(layer, taps, **own)
  return drafts.eagle(
    config.layer,
    version=config.version,
    num_features=len(config.taps),
    head_size=config.draft_vocab_size,
    fc_norm=config.fc_norm,
  )


def _medusa(settings: Mapping[str, Any], target: DecoderConfig) -> Drafter:
  net = Medusa(**settings)
  return drafts.medusa(
    net.hidden_size,
    net.vocab_size,
    net.num_heads,
    num_layers=net.num_layers,
    own_heads=net.own_heads,
    shared_head=net.vocab_size == target.vocab_size,
  )


def _blockwise(settings: Mapping[str, Any], target: DecoderConfig) -> Drafter:
  net = Blockwise(**settings)
  return drafts.blockwise(
    net.hidden_size,
    net.vocab_size,
    net.num_heads,
    inner_size=net.inner_size,
    shared_head=net.vocab_size == target.vocab_size,
  )


def _decoder(fields: Mapping[str, Any]) -> DecoderConfig:
  """Its sizes; what turns positions costs nothing."""
  sizes = dict(fields)
  sizes.pop("rope_scaling", None)
  return DecoderConfig(**sizes)


_KINDS: dict[str, Callable[[Mapping[str, Any], DecoderConfig], Drafter]] = {
  "draft_model": _draft_model,
  "medusa": _medusa,
  "blockwise": _blockwise,
  "eagle1": _eagle,
  "eagle3": _eagle,
}
