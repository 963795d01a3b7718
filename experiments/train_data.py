"""What a training learns from: conversations, and labels of them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from experiments import setup
from experiments.train_settings import Settings
from specjax.checkpoints.drafter_files import DrafterFile
from specjax.checkpoints.loaded import LoadedModel
from specjax.evaluation.runs import environment
from specjax.training import data
from specjax.training.data import Batches, Conversation, Labelling, Store
from specjax.training.draft_model import DraftTrainee
from specjax.training.types import Frozen, Trainee
from specjax.training.whole_laws import WholeLaws


@dataclasses.dataclass(frozen=True, eq=False)
class Material:
  """Labelled texts.

  Attributes:
    texts: all conversations.
    stores: labels of those that are trained on or held out, and of those that
      the draft answered, if it did.
    on_policy: share of the rows that come from the second store.
    top_k, taps: what batches take of them.
    whole: weights of the target, where training has whole laws; else None.
    available: answer tokens on the training side of `texts`.
    used, drafted: of the training side, in each store.
  """

  texts: Sequence[Conversation]
  stores: tuple[Store, ...]
  on_policy: float
  top_k: int
  taps: tuple[str, ...]
  whole: PyTree
  available: int
  used: int
  drafted: int

  def train(self, settings: Settings) -> Batches | WholeLaws:
    """Of every step."""
    shares = None
    if len(self.stores) > 1:
      shares = (1 - self.on_policy, self.on_policy)
    taps = settings.labels.needed(self.taps)
    drawn = self._draw(settings, self.stores, "train", shares, taps)
    if self.whole is None:
      return drawn
    return WholeLaws(drawn, self.whole, self.taps)

  def held_out(self, settings: Settings) -> Batches:
    """Texts of the target's alone, whatever it is trained on."""
    ours = self.stores[:1]
    return self._draw(settings, ours, "held_out", None, self.taps)

  def _draw(self, settings: Settings, stores, side, shares, taps) -> Batches:
    return Batches(
      stores,
      batch=settings.rows.batch,
      length=settings.rows.length,
      seed=settings.plan.seed,
      proportions=shares,
      side=side,
      held_out=settings.texts.held_out,
      top_k=self.top_k,
      taps=taps,
      bucket=settings.rows.bucket,
      prompts=settings.rows.prompts and side == "train",
    )

  def figures(self) -> dict[str, Any]:
    """For the summary."""
    return {
      "conversations": len(self.texts),
      "answer_tokens_available": self.available,
      "answer_tokens": self.used,
      "drafted_tokens": self.drafted,
    }


def prepare(
  settings: Settings,
  trainee: Trainee,
  start: DrafterFile | None,
  target: LoadedModel,
  path: Path,
) -> Material:
  """Makes what the folder lacks.

  Args:
    start: whose weights training starts from, and who writes the answers of
      `on_policy`.
    path: of the run's folder.

  Raises:
    ValueError: in one line, from the stages.
  """
  held_out = settings.texts.held_out
  texts = conversations(settings, target, path)
  chosen = data.first_tokens(texts, held_out, settings.texts.max_tokens)
  asked = settings.labels.labelling
  taps = settings.labels.needed({*trainee.taps, *asked.taps})
  labelling = dataclasses.replace(asked, taps=taps)
  setup.report("labels: one pass of the target over every text")
  stores = [_cover(settings, target, chosen, labelling, path)]
  drafted = []
  if settings.texts.on_policy:
    assert isinstance(trainee, DraftTrainee) and start is not None
    drafted = _answered_by_draft(settings, trainee, start, target, chosen, path)
    stores.append(_cover(settings, target, drafted, labelling, path))
  return Material(
    texts=texts,
    stores=tuple(stores),
    on_policy=settings.texts.on_policy,
    top_k=min(asked.top_k, stores[0].vocab_size),
    taps=trainee.taps,
    whole=target.params if settings.labels.whole else None,
    available=data.answer_tokens(
      data.first_tokens(texts, held_out, None), held_out
    ),
    used=data.answer_tokens(chosen, held_out),
    drafted=data.answer_tokens(drafted, held_out),
  )


def conversations(
  settings: Settings, target: LoadedModel, path: Path
) -> list[Conversation]:
  """Those of a file, or those that the target makes."""
  texts = settings.texts
  if texts.conversations is not None:
    found = read(texts.conversations)
    setup.report(f"data: {len(found)} conversations of {texts.conversations}")
    return found
  file, making = path / "conversations.jsonl", texts.making
  assert making is not None
  if texts.prompt_file is None:
    setup.report("data: the target writes queries and answers them")
    data.make_synthetic(target, file, making, say=setup.report)
  else:
    setup.report(f"data: the target answers the prompts of {texts.prompt_file}")
    assert target.tokenizer is not None
    prompts = data.read_prompts(texts.prompt_file, target.tokenizer)
    data.answer_prompts(target, file, prompts, making, say=setup.report)
  return data.read_conversations(file)


def read(file: str) -> list[Conversation]:
  """Conversations of a file, JSONL or packed."""
  given = Path(file)
  if given.suffix == ".npz":
    return data.unpack(given)
  return data.read_conversations(given)


def _folder(settings: Settings, path: Path) -> Path:
  """Where labels lie."""
  shared = settings.labels.folder
  return path / "labels" if shared is None else Path(shared)


def _cover(
  settings: Settings,
  target: LoadedModel,
  texts: Sequence[Conversation],
  labelling: Labelling,
  path: Path,
) -> Store:
  folder = _folder(settings, path)
  return data.cover(target, texts, folder, labelling, setup.report)


def _answered_by_draft(
  settings: Settings,
  trainee: DraftTrainee,
  start: DrafterFile,
  target: LoadedModel,
  texts: Sequence[Conversation],
  path: Path,
) -> list[Conversation]:
  """The training prompts, answered by the draft that training starts from.

  The file lies beside the labels, and is named by all that decides what is in
  it: trainings that share a store share it too.
  """
  share, making = settings.texts.held_out, settings.texts.making
  assert making is not None
  train = [t for t in texts if not data.is_held_out(t.prompt_id, share)]
  prompts = data.stored_prompts(train)
  draft = _writer(trainee, start, target)
  making = dataclasses.replace(making, count=len(prompts))
  decides = {
    "model": data.identify(draft),
    "prompts": [p.token_ids for p in prompts],
    **making.settings(),
  }
  name = f"drafted-{environment.config_hash(decides)}.jsonl"
  file = _folder(settings, path) / name
  setup.report(f"data: the draft answers {len(prompts)} prompts itself")
  data.answer_prompts(
    draft, file, prompts, making, source="draft", say=setup.report
  )
  return data.read_conversations(file)


def _writer(
  trainee: DraftTrainee, start: DrafterFile, target: LoadedModel
) -> LoadedModel:
  """The draft of a file as a model that writes alone."""
  ids = None if start.token_ids is None else jnp.asarray(start.token_ids)
  params = jax.tree.map(jnp.asarray, start.params)
  return LoadedModel(
    name="draft",
    model=trainee.drafter(1).model,
    params=trainee.draft_params(params, Frozen(target.params, ids)),
    tokenizer=target.tokenizer,
    dtype=target.dtype,
  )
