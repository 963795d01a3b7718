"""EAGLE in the loop: the battery, its state, and who gets no proposal."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import decoding, passes, sampling
from specjax.acceptance import ExactMatch, Rejection
from specjax.drafters import Eagle
from specjax.models.decoder import Transformer
from specjax.testing import (
  CHECKS,
  NotApplicable,
  Recital,
  check_case,
  check_identity,
  eagle_case,
  eagle_drafter,
  eagle_weights,
  nets,
  runs,
)
from specjax.types import DRAFTED, Params, Streams

# Checks that run no drafter of the case, and one that takes a minute and finds
# what the tests of the state below find.
ELSEWHERE = ("greedy_nets_every_offset", "exact_nets", "streams", "without_jit")
# Where the tokens are plain decoding's, their law is.
FEW = ("exact_tables", "limits")
THIRD, FIRST = (
  eagle_case(Rejection(), 3, True),
  eagle_case(ExactMatch(), 1, True),
)
LAW = ("joint", "by_offset", "coverage", "edges")  # of very many rows
CASES = [(THIRD, check) for check in CHECKS if check not in (*ELSEWHERE, *LAW)]
CASES += [pytest.param(THIRD, x, marks=pytest.mark.runs_long) for x in LAW]
CASES += [(FIRST, check) for check in FEW]
NOT_APPLICABLE = ("exact_tables", "fewest_rounds")  # to rejection


@dataclasses.dataclass(frozen=True)
class Recited(Eagle):
  """Proposes what it is told, wrong at an offset in turn; observes as EAGLE."""

  def propose(self, params, state, rows, budget, keys):
    return Recital(self.num_speculative_tokens).propose(
      Params(None, {"text": params.target["text"]}), (), rows, budget, keys
    )[0], state


@dataclasses.dataclass(frozen=True)
class Telling(Transformer):
  """A net whose weights carry a text along."""

  def __call__(self, params, *inputs, **options):
    return super().__call__(params["net"], *inputs, **options)


@pytest.fixture(scope="module")
def net():
  model = nets.tiny_net()
  return model, nets.random_net(model)


def live(cache):
  size = cache.layers[0][0].shape[2]
  return np.arange(size)[None] < np.asarray(cache.length)[:, None]


def test_state_of_the_rounds_is_that_of_the_text(net):
  """Whatever was kept and refused, and where a row did not draft at all."""
  model, target = net
  drafter = eagle_drafter(model, 8, 3, False)
  draft = eagle_weights(model, target, 3, False)
  prompts, options = check_identity.net_requests(model.vocab_size)
  options["max_draft"] = [8, 8, 8, 0, 1, 2, 3, 4] * 2
  text = runs.run(
    runs.make_engine(model),
    Params(target),
    prompts,
    new=options["new"],
    size=96,
  ).tokens
  telling = Telling(model.config)
  recited = Recited(drafter.config, 8)
  params = Params({"net": target, "text": text}, draft)
  engine = runs.make_engine(telling, recited, ExactMatch())
  rows = runs.start(engine, params, prompts, **options)
  rows = runs.advance(engine, params, rows)
  check_identity.assert_every_offset(
    runs.to_host(rows), recited, (8,), "recited"
  )
  got, length = rows.draft, np.asarray(rows.length)
  assert (length == np.asarray([len(p) + 72 for p in prompts])).all()

  engine = runs.make_engine(model, drafter)
  whole = [text[i, :n].tolist() for i, n in enumerate(length)]
  rows = runs.start(engine, Params(target, draft), whole, new=0, size=96)
  rows = dataclasses.replace(rows, active=jnp.ones_like(rows.active))
  rows = decoding.prefill(engine, Params(target, draft), rows, chunk=32)
  wanted = rows.draft
  np.testing.assert_array_equal(got.cache.length, wanted.cache.length)
  np.testing.assert_allclose(got.hidden, wanted.hidden, rtol=1e-4, atol=1e-4)
  seen = live(wanted.cache)[:, None, :, None]
  for ours, theirs in zip(
    got.cache.layers[0], wanted.cache.layers[0], strict=True
  ):
    np.testing.assert_allclose(ours * seen, theirs * seen, rtol=1e-4, atol=1e-4)


PROPOSE = jax.jit(passes.propose, static_argnums=0)


def first_proposal(model, drafter, target, draft, prompts, **options):
  engine = runs.make_engine(model, drafter)
  params = Params(target, draft)
  rows = runs.start(engine, params, prompts, size=24, new=9, **options)
  keys = Streams(rows.key, rows.length)
  return PROPOSE(engine, params, rows, keys)[0]


def test_nodes_are_of_the_draft_vocabulary(net):
  model, target = net
  drafter = eagle_drafter(model, 4, 3, True)
  draft = eagle_weights(model, target, 3, True)
  prompts = [[1 + i % 7, 3, 5] for i in range(64)]
  hot = runs.Setting(temperature=2.0)
  proposal = first_proposal(
    model, drafter, target, draft, prompts, settings=hot
  )
  tokens = np.asarray(proposal.nodes.tokens)
  assert set(np.unique(tokens)) <= set(np.asarray(draft.token_ids).tolist())
  assert len(np.unique(tokens)) > 3
  q = np.asarray(sampling.dense(proposal.q))
  np.testing.assert_allclose(q.sum(-1), 1.0, rtol=1e-5)
  says = np.isin(np.arange(model.vocab_size), np.asarray(draft.token_ids))
  assert (q[..., says] > 0).all() and (q[..., ~says] == 0).all()


def test_a_row_without_features_or_room_proposes_nothing(net):
  model, target = net
  drafter = eagle_drafter(model, 3, 3, False)
  draft = eagle_weights(model, target, 3, False)
  layer = dataclasses.replace(drafter.config.layer, max_positions=8)
  short = dataclasses.replace(drafter.config, layer=layer)
  drafter = dataclasses.replace(drafter, config=short)
  prompts = [[1], [1, 2], [1] * 8, [1] * 9, [1] * 10, [1, 2, 3]]
  budgets = [3, 3, 3, 3, 3, 0]
  proposal = first_proposal(
    model, drafter, target, draft, prompts, max_draft=budgets
  )
  # The last node fed of a text of n tokens stands at n - 2 + nodes - 1.
  assert proposal.nodes.count.tolist() == [0, 3, 2, 1, 0, 0]


def test_a_prompt_of_one_token_drafts_from_its_second_round_on(net):
  model, target = net
  params = Params(target, eagle_weights(model, target, 3, False))
  engine = runs.make_engine(model, eagle_drafter(model, 3, 3, False))
  rows = runs.run(engine, params, [[1], [2, 3]], new=6, size=24)
  assert rows.history[0, 0, DRAFTED] == 0 and rows.history[0, 1, DRAFTED] == 3
  assert rows.history[1, 0, DRAFTED] == 3


def test_without_weights_it_says_so(net):
  model, target = net
  with pytest.raises(ValueError, match="trained weights"):
    eagle_drafter(model, 3, 3, False).init(Params(target), 1, 8)


@pytest.mark.parametrize(
  ("case", "check"), CASES, ids=lambda x: getattr(x, "name", x)
)
def test_battery(case, check):
  try:
    check_case(case, check)
  except NotApplicable as reason:
    assert check in NOT_APPLICABLE, str(reason)
  else:
    assert case.is_exact_match or check not in NOT_APPLICABLE
