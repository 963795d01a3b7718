"""A target fine-tuned on a text: it loads, it learnt, the rest stayed."""

import json

import jax
import numpy as np
import pytest

from experiments import finetune
from specjax.checkpoints.loaded import load_model
from specjax.training import trainer

ARGS = (
  "--dtype=float32",
  "--learning_rate=0.01",
  "--warmup_steps=0",
  "--steps=4",
  "--evaluate_every=2",
  "--batch_size=4",
  "--micro_batches=1",
  "--window=24",
  "--held_out=0.2",
  "--windows=8",
  "--seed=0",
  "--json",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  file = tmp_path_factory.mktemp("corpus") / "text.txt"
  rng = np.random.default_rng(0)
  words = rng.choice(["lamp ", "rock ", "sea ", "fog "], 200)
  file.write_text("".join(words))
  return str(file)


def _changed(a, b):
  """Top-level names of what differs."""
  same = jax.tree.map(lambda x, y: bool((x == y).all()), a, b)
  return {n for n, part in same.items() if not all(jax.tree.leaves(part))}


@pytest.mark.parametrize(
  "extra, changed",
  [
    ((), {"embed", "layers_0", "layers_1", "norm"}),
    (("--last_layers=1",), {"layers_1", "norm"}),
  ],
  ids=["whole", "last_layers"],
)
def test_a_model_learns_a_text(
  run, tiny, corpus, tmp_path, monkeypatch, extra, changed
):
  out = tmp_path / "out"
  argv = (f"--model={tiny}", f"--corpus={corpus}", f"--output={out}", *ARGS)
  got = run(finetune.main, *argv, *extra)
  assert got.status == 0, got.err
  (summary,) = got.records
  assert summary == json.loads((out / "summary.json").read_text())
  assert summary["held_out_loss"] < summary["held_out_loss_before"]
  assert summary["probability"] > summary["probability_before"]
  assert summary["steps"] == 4 and summary["best_step"] in (2, 4)
  tuned, base = load_model(str(out / "model"), "float32"), load_model(tiny)
  assert tuned.model == base.model
  assert _changed(tuned.params, base.params) == changed
  assert tuned.tokenizer.encode("sea") == base.tokenizer.encode("sea")
  assert tuned.tokenizer.eos_ids == base.tokenizer.eos_ids
  # What is finished is not done again; other settings are refused.
  monkeypatch.setattr(trainer.Trainer, "run", None)
  assert run(finetune.main, *argv, *extra).records == got.records
  other = run(finetune.main, *argv, *extra, "--seed=1")
  assert other.status == 1 and "seed" in other.err


@pytest.mark.parametrize(
  "argv, fault",
  [
    (("--output=O",), "give --corpus or --texts"),
    (("--corpus=C",), "give --output"),
    (("--output=O", "--corpus=/nowhere"), "no file /nowhere"),
    (("--output=O", "--texts=/nowhere"), "no file /nowhere"),
    (("--output=O", "--corpus=C", "--texts=C"), "one of them"),
    (("--output=O", "--corpus=C", "--steps=0"), "steps must be"),
    (("--output=O", "--corpus=C", "--batch_size=0"), "batch must be"),
    (("--output=O", "--corpus=C", "--window=0"), "length must be"),
    (("--output=O", "--corpus=C", "--held_out=1"), "held_out must be"),
    (("--output=O", "--corpus=C", "--windows=0"), "windows must be"),
    (("--output=O", "--corpus=C", "--last_layers=0"), "last_layers must be"),
    (("--output=O", "--corpus=C", "--micro_batches=3"), "does not divide"),
  ],
)
def test_bad_input_is_one_line(run, tiny, corpus, tmp_path, argv, fault):
  argv = [
    a.replace("=O", f"={tmp_path}").replace("=C", f"={corpus}") for a in argv
  ]
  defaults = [f"--model={tiny}", "--batch_size=4", "--window=24", "--seed=0"]
  got = run(finetune.main, *defaults, *argv)
  assert got.status == 1 and got.out == ""
  (line,) = got.err.splitlines()
  assert line.startswith("error: ") and fault in line
