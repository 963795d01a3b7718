"""An acceptance goes with the cost of the drafter that it was recorded of."""

import json

import pytest

from configs import roofline as config
from specjax.checkpoints.drafter_files import CONFIG
from specjax.drafters import shipped
from specjax.evaluation import records
from specjax.evaluation.advice import candidates
from specjax.evaluation.records import Mode
from specjax.evaluation.roofline import cases, of_run, question, study
from specjax.models.presets import PRESETS
from specjax.theory import drafts, rounds, shapes

SMOL = PRESETS["smollm2-135m"]
NAME = "smollm2-135m:medusa"
ROUNDS = [(3, 3, 4, 4), (3, 0, 1, 4)] * 30
MEDUSA = {
  "kind": "medusa",
  "settings": {
    "hidden_size": 576,
    "vocab_size": 8192,
    "num_heads": 4,
    "num_layers": 1,
    "own_heads": False,
  },
  "target": "smollm2-135m",
  "target_sizes": [49152, 576],
}


def mode(drafter, length=3, **options):
  return Mode(
    f"{drafter} k={length}", drafter, "rejection", True, length, options=options
  )


LOOKUP, HEADS = mode("ngram"), mode("medusa", draft_model=NAME)


@pytest.fixture(autouse=True)
def medusa(tmp_path_factory, monkeypatch):
  """Heads shipped for the default model, of which only the settings exist."""
  root = tmp_path_factory.mktemp("shipped")
  folder = root / "smollm2-135m" / "medusa"
  folder.mkdir(parents=True)
  (folder / CONFIG).write_text(json.dumps(MEDUSA))
  monkeypatch.setattr(shipped, "FOLDER", root)
  return folder


@pytest.fixture
def run(build, tmp_path):
  """Writes a run of some modes; its folder."""

  def write(*modes, target="smollm2-135m", **fields):
    for one in modes:
      answer = build(one, "q", ROUNDS, environment={"model": target}, **fields)
      records.append(tmp_path / records.FILE, answer.to_json())
    return str(tmp_path)

  return write


def ask(folder, **changes):
  own = dict(target=None, drafters=None, gamma=None, acceptance_from=folder)
  return question.ask({**config.get_config().to_dict(), **own, **changes})


def test_a_run_brings_its_drafter_target_and_length(run):
  asked = ask(run(HEADS))
  assert (asked.target, asked.case.draft) == ("smollm2-135m", NAME)
  assert asked.case.target == shapes.shape_of(SMOL)
  assert asked.case.drafter == drafts.medusa(576, 8192, 4, own_heads=False)
  assert asked.case.gamma == 3 and asked.mode == "medusa k=3"
  assert asked.case.conditional == (0.5, 1.0, 1.0)
  assert list(asked.drafters) == [NAME] and list(asked.recorded) == [asked.mode]


def test_lookup_is_charged_as_lookup(run):
  asked = ask(run(LOOKUP))
  assert asked.case.drafter == rounds.lookup()
  other = ask(run(), target="qwen3-8b")
  assert other.case.target == shapes.shape_of(PRESETS["qwen3-8b"])


@pytest.mark.parametrize(
  "options, name",
  [
    ({"draft_layers": 4}, "layers:4"),
    ({"draft_model": "HuggingFaceTB/SmolLM2-360M-Instruct"}, "smollm2-360m"),
  ],
)
def test_models_that_draft(run, options, name):
  asked = ask(run(mode("model", **options)))
  wanted = cases.drafter_of(name, SMOL)
  assert asked.case.drafter == wanted
  again = ask(run(), drafters=(name,))
  assert again.case.drafter == wanted


def test_a_drafter_picks_its_mode(run, medusa):
  folder = run(LOOKUP, HEADS)
  assert ask(folder, drafters=("ngram",)).mode == "ngram k=3"
  assert ask(folder, drafters=(str(medusa),)).mode == "medusa k=3"
  assert ask(folder, mode="ngram k=3").case.draft == "ngram"


def test_a_drafter_that_is_not_known_is_what_it_is_said_to_be(run):
  folder = run(mode("package.module:Mine"))
  with pytest.raises(ValueError, match="package.module:Mine costs.*--draft"):
    ask(folder)
  assert ask(folder, drafters=("head",)).case.draft == "head"


@pytest.mark.parametrize(
  "modes, changes, error",
  [
    ([LOOKUP], dict(drafters=("head",)), "head drafted in no mode.*ngram k=3"),
    (
      [LOOKUP],
      dict(drafters=("qwen3-0.6b",), mode="ngram k=3"),
      "drafted by ngram: its acceptance does not go with.*qwen3-0.6b",
    ),
    ([HEADS], dict(drafters=("layers:3",)), "drafted in no mode"),
    ([HEADS], dict(target="qwen3-8b"), "does not go with the target qwen3-8b"),
    ([LOOKUP, HEADS], {}, "name a mode of the run: ngram k=3, medusa k=3"),
    ([LOOKUP], dict(mode="x"), "no 'x': name a mode of the run: ngram k=3"),
    ([LOOKUP], dict(drafters=("ngram", "head")), "of one drafter, not of 2"),
    ([LOOKUP], dict(gamma=4), "recorded for 3 positions"),
    ([LOOKUP], dict(categories=("chat",)), "class 'chat'; there are 'story'"),
  ],
)
def test_what_is_refused(run, modes, changes, error):
  with pytest.raises(ValueError, match=error) as caught:
    ask(run(*modes), **changes)
  assert "\n" not in str(caught.value)


def test_a_target_that_is_not_known(run):
  folder = run(LOOKUP, target="some/file.gguf")
  with pytest.raises(ValueError, match="sizes of some/file.gguf.*--target"):
    ask(folder)
  assert ask(folder, target="smollm2-360m").target == "smollm2-360m"


def test_only_the_classes_asked_for_count(run, build, tmp_path):
  run(LOOKUP)
  refused = [(3, 0, 1, 4)] * 40
  for name, begun in (("chat", False), ("story", True)):
    answer = build(
      LOOKUP,
      f"other {name}",
      refused,
      category=name,
      begun=begun,
      environment={"model": "smollm2-135m"},
    )
    records.append(tmp_path / records.FILE, answer.to_json())
  folder = str(tmp_path)
  every = ask(folder, gamma=1)
  assert every.case.conditional == (30 / 140,)
  assert ask(folder, gamma=1, categories=("story",)).case.conditional == (0.5,)
  assert ask(folder, gamma=1, categories=("chat",)).case.conditional == (0.0,)


def test_heads_draft_no_more_than_they_are():
  settings = config.get_config().to_dict()
  given = {**settings, "target": "smollm2-135m", "drafters": (NAME,)}
  with pytest.raises(ValueError, match="drafts 4 tokens at most, not 5"):
    question.ask({**given, "gamma": 5})
  assert question.ask(given).case.longest(9) == 4


def test_a_study_leaves_out_what_heads_cannot_draft():
  settings = config.get_config().to_dict()
  given = {"target": "smollm2-135m", "drafters": ("ngram", NAME), "gamma": 5}
  found = study.study(question.ask({**settings, **given}), (1,), (2048,), 5)
  curves = found["drafters"]
  assert curves[NAME]["batch"] == curves[NAME]["context"] == [None]
  assert [speedup is None for speedup in curves[NAME]["gamma"]] == 4 * [
    False
  ] + [True]
  assert None not in curves["ngram"]["gamma"]
  assert list(found["capacity"]) == ["ngram"]


def settings_for(folder, **changes):
  own = dict(target=None, candidates=None, acceptance_from=folder, gamma=1)
  return {**config.get_config().to_dict(), **own, **changes}


def advice(settings):
  settings = candidates.complete(settings)
  asked = question.ask(
    {**settings, "drafters": settings["candidates"], "acceptance_from": None}
  )
  return candidates.build(asked, settings, (), copies=False)


def test_advice_takes_the_drafters_of_the_run(run):
  found = advice(settings_for(run(LOOKUP, HEADS)))
  assert [one.name for one in found] == ["ngram", NAME]
  assert not any(one.assumed for one in found)
  assert found[1].case.acceptance.recorded == (0.5, 1.0, 1.0)
  assert found[0].case.target == shapes.shape_of(SMOL)


def test_advice_gives_a_models_acceptance_to_that_model_alone(run):
  folder = run(mode("model", draft_model="smollm2-360m"))
  names = ("smollm2-360m", "smollm2-1.7b")
  found = advice(settings_for(folder, candidates=names))
  assert [one.assumed for one in found] == [False, True]
  with pytest.raises(ValueError, match="no candidate of smollm2-1.7b drafted"):
    advice(settings_for(folder, candidates=names[1:]))
  with pytest.raises(ValueError, match="does not go with the target qwen3-8b"):
    advice(settings_for(folder, target="qwen3-8b"))


def test_names_of_one_drafter(medusa):
  assert of_run.same(NAME, str(medusa))
  assert of_run.same("Qwen/Qwen3-0.6B", "qwen3-0.6b")
  assert not of_run.same("layers:3", "layers:4")
  assert not of_run.same("ngram", "head")
