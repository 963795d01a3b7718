"""A store that several trainings share, each with its own texts and needs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specjax.checkpoints.loaded import LoadedModel
from specjax.training.data.conversations import Conversation
from specjax.training.data.identity import same_model
from specjax.training.data.labels import Labelling, label
from specjax.training.data.store import MANIFEST, Store, digest_of


def cover(
  target: LoadedModel,
  conversations: Sequence[Conversation],
  path: Path,
  labelling: Labelling,
  say: Callable[[str], None] = lambda line: None,
) -> Store:
  """Labels of texts, in a store that may hold more than is asked for.

  One that is there may have a larger K, more taps and other texts. What it
  lacks of these texts is labelled into it, with its own settings.

  Args:
    target, conversations, path, say: as for `label`.
    labelling: what is needed; the settings of a store that is made.

  Returns:
    the store with these texts alone, in their order.

  Raises:
    ValueError: a store of another model, of other types, or without what is
      needed; and as `label`.
  """
  wanted = labelling.settings(target)
  digests = [digest_of(text) for text in conversations]
  if (path / MANIFEST).exists():
    store = Store(path)
    check_holds(path, store.settings, wanted)
    if {entry.digest for entry in store.entries}.issuperset(digests):
      say(f"all {len(set(digests))} texts are labelled in {path}")
      return store.only(digests)
    labelling = dataclasses.replace(
      labelling,
      top_k=store.settings["top_k"],
      taps=tuple(store.settings["taps"]),
    )
    # One model may go by several names; the store keeps its own.
    name = store.settings["model"]["name"]
    target = dataclasses.replace(target, name=name)
  label(target, conversations, path, labelling, say)
  return Store(path).only(digests)


def check_holds(
  path: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
  """Refuses a store that lacks something.

  Args:
    stored: its settings.
    wanted: the same of what is needed; what is left out is not looked at.

  Raises:
    ValueError: with what it lacks, in one line.
  """
  if "model" in wanted and not same_model(stored["model"], wanted["model"]):
    ours, theirs = _named(wanted["model"]), _named(stored["model"])
    raise ValueError(f"{path} has labels of {theirs}, {ours} is wanted")
  for name in ("log_probs_dtype", "features_dtype"):
    if stored[name] != wanted[name]:
      raise ValueError(
        f"{path} has {name} {stored[name]}, {wanted[name]} is wanted"
      )
  if stored["top_k"] < wanted["top_k"]:
    raise ValueError(
      f"{path} has the {stored['top_k']} likeliest tokens of a law,"
      f" {wanted['top_k']} are wanted: label into another folder"
    )
  if missing := sorted(set(wanted.get("taps", ())) - set(stored["taps"])):
    raise ValueError(
      f"{path} has no feature {missing[0]!r}, only"
      f" {', '.join(stored['taps']) or 'laws'}: label into another folder, with"
      " all taps that are needed"
    )


def _named(model: Mapping[str, Any]) -> str:
  return f"{model['name']} ({model['dtype']}, {model['sha256']})"
