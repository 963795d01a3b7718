"""A drafter tried in the real loop: its figures are those of its rounds."""

import jax
import pytest

from specjax import metrics
from specjax.checkpoints.loaded import LoadedModel
from specjax.testing.nets import random_net, tiny_net
from specjax.training import evaluation
from specjax.training.draft_model import DraftTrainee
from specjax.training.draft_sizes import cut_config
from specjax.training.evaluation import Trial
from specjax.training.types import Frozen

NET = tiny_net()
TARGET = LoadedModel("tiny", NET, random_net(NET))
PROMPTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
TRIAL = Trial(temperatures=(1.0,), max_new_tokens=12, max_batch=3)


def test_a_draft_that_is_the_target_is_always_kept():
  trainee = DraftTrainee(
    cut_config(NET.config, 2, None), NET.config, layers=(0, 1), train_head=False
  )
  frozen = Frozen(TARGET.params)
  params = trainee.init(jax.random.key(0), frozen)
  draft, said = trainee.draft_params(params, frozen), []
  (found,) = evaluation.in_the_loop(
    TARGET, trainee.drafter(3), draft, PROMPTS, TRIAL, said.append
  )
  assert found["temperature"] == 1.0 and found["lossless"] and len(said) == 2
  assert found["new_tokens"] == found["alpha"]["positions"] == 36
  assert found["mean_acceptance_length"] == found["low"] == found["high"] == 4
  assert found["draft_acceptance_rate"] == 1
  assert found["alpha"]["alpha"] == pytest.approx(1, abs=1e-5)


def test_an_interval_is_over_prompts():
  def row(emitted, rounds):
    kept = (emitted // rounds,) * rounds
    return metrics.Stats(rounds, 8, 4, emitted, kept, (3, 1), rounds, {5: 4})

  found = evaluation._figures([row(8, 4), row(12, 4), row(10, 4)])
  assert found["mean_acceptance_length"] == 30 / 12
  assert found["low"] < 2.5 < found["high"]
  assert found["acceptance_per_position"] == [9 / 12, 3 / 12]


def test_a_trial_is_checked():
  with pytest.raises(ValueError, match="max_new_tokens"):
    Trial(max_new_tokens=0)
  with pytest.raises(ValueError, match="temperatures"):
    Trial(temperatures=())
