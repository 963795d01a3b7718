"""Faults that decoders really had, planted one at a time: each is caught.

Every fault lives in a rule or a drafter of its own, so that no compiled program
is shared with the sound ones.
"""

import dataclasses
import types
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from specjax import decoding, passes, sampling
from specjax.acceptance import BiasedResample, LossyLenience, Rejection
from specjax.drafters import DraftModel
from specjax.models import cache as kv_cache
from specjax.sampling import Purpose, round_uniform
from specjax.testing import model_case, run_battery
from specjax.types import Sampling, Streams, Verdict

pytestmark = pytest.mark.runs_long  # laws of 131,072 rows


@dataclasses.dataclass(frozen=True)
class Faulty:
  """Token-wise rejection of a chain, with one fault."""

  fault: str
  supports = frozenset({"chain"})
  lossless_for = frozenset({"chain"})

  @property
  def name(self):
    return self.fault

  def __call__(self, proposal, p, keys: Streams) -> Verdict:
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape
    drafted = nodes.tokens
    index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    q_row = jnp.broadcast_to(proposal.q_row, (batch, proposal.q_row.shape[1]))
    q_row = q_row[:, :size]
    u = self._numbers(keys, Purpose.ACCEPT, index)
    q_drafted = sampling.prob(proposal.q, q_row, drafted)
    p_drafted = sampling.prob(p, index, drafted)
    kept = (u * q_drafted < p_drafted) & (index < nodes.count[:, None])
    accepted = jnp.cumprod(kept.astype(jnp.int32), 1).sum(1)
    p_n = sampling.dense(p, accepted)
    weights = p_n
    if size:
      refused = jnp.minimum(accepted, size - 1)
      q_n = sampling.dense(proposal.q, refused)
      weights = jnp.maximum(p_n - q_n, 0.0)
      if self.fault == "softmax of the residual":
        weights = jax.nn.softmax(weights, -1)
      if self.fault == "the next row's residual":
        after = jnp.minimum(accepted + 1, size)
        weights = jnp.maximum(sampling.dense(p, after) - q_n, 0.0)
      use = (accepted < nodes.count) & (weights.sum(-1) > 0.0)
      weights = jnp.where(use[:, None], weights, p_n)
    u = self._numbers(keys, Purpose.RECOVER, accepted[:, None])
    slots = jnp.minimum(jnp.arange(size + 1)[None], accepted[:, None])
    return Verdict(
      slots=slots.astype(jnp.int32),
      accepted=accepted,
      next_token=sampling.inverse_cdf(weights, u[:, 0]),
    )

  def _numbers(self, keys, purpose, node):
    if self.fault == "recovery shares the accept numbers":
      node = jnp.minimum(node, 2)
      return round_uniform(keys, Purpose.ACCEPT, node)
    if self.fault == "accept shares the draft numbers":
      shared = Purpose.DRAFT if purpose == Purpose.ACCEPT else purpose
      return round_uniform(keys, shared, node)
    if self.fault == "numbers of a node alone":
      same = jnp.zeros_like(keys.round_start)
      return round_uniform(Streams(keys.row, same), purpose, node)
    if self.fault == "numbers of a position alone":
      # The number that drew the round's extra token is the one that judges the
      # next round's first node.
      position = keys.round_start[:, None] + node
      position += purpose == Purpose.RECOVER
      same = jnp.zeros_like(keys.round_start)
      return round_uniform(Streams(keys.row, same), Purpose.ACCEPT, position)
    return round_uniform(keys, purpose, node)


def failures(case, *checks):
  """Names of the checks that failed, and what they said."""
  results = run_battery(case, checks)
  errors = [r.detail for r in results if "Traceback" in r.detail]
  assert not errors, errors[0]
  return {r.name: r.detail for r in results if r.passed is False}


LAW = ("joint", "by_offset")


def test_the_copied_rule_is_sound_without_a_fault():
  assert not failures(model_case(Faulty("none")), *LAW)


@pytest.mark.parametrize(
  "fault",
  [
    "softmax of the residual",
    "the next row's residual",
    "recovery shares the accept numbers",
    "accept shares the draft numbers",
    "numbers of a node alone",
  ],
)
def test_wrong_laws_are_caught_at_offsets_and_jointly(fault):
  assert set(failures(model_case(Faulty(fault)), *LAW)) == set(LAW)


def test_numbers_of_a_position_alone_are_caught_over_several_rounds():
  case = model_case(Faulty("numbers of a position alone"))
  assert "joint" in failures(case, *LAW)


@pytest.mark.parametrize("rule", [BiasedResample(), LossyLenience(0.5)])
def test_a_lossy_rule_that_claims_to_be_lossless_is_caught(rule):
  assert not failures(model_case(rule), *LAW)
  case = model_case(rule, lossless=True)
  assert set(failures(case, *LAW)) == set(LAW)


@dataclasses.dataclass(frozen=True)
class RawQ(DraftModel):
  """Draws from filtered laws and reports the unfiltered ones."""

  def propose(self, params, state, rows, budget, keys):
    proposal, state = super().propose(params, state, rows, budget, keys)
    t = rows.sampling.temperature[:, None, None]
    t = jnp.where(t > 0, t, 1.0)
    ones = jnp.ones_like(rows.sampling.temperature)
    raw = Sampling(
      temperature=ones,
      top_k=rows.sampling.top_k,
      top_p=ones,
      min_p=ones,
      uses=frozenset({"temperature"}),
    )
    law = sampling.make_law(proposal.q.scaled * t, raw)
    return dataclasses.replace(proposal, q=law), state


def test_a_q_that_was_not_drawn_from_is_caught():
  case = model_case(Rejection(), make=RawQ)
  assert set(failures(case, *LAW)) == set(LAW)


@dataclasses.dataclass(frozen=True)
class OneShort(DraftModel):
  """Forgets to feed the last drafted token where all were kept."""

  def observe(self, params, state, seen):
    after = super().observe(params, state, seen)
    if seen.slots is None:
      return after
    whole = (seen.count == seen.nodes.count + 1) & (seen.nodes.count > 0)
    length = after.cache.length + whole
    return dataclasses.replace(
      after, cache=dataclasses.replace(after.cache, length=length)
    )


def test_a_draft_cache_one_short_is_caught_though_the_law_holds():
  case = model_case(Rejection(), make=OneShort)
  assert set(failures(case, "fewest_rounds", "by_offset")) == {"fewest_rounds"}


@pytest.fixture
def planted(monkeypatch):
  """Patches the loop itself, and forgets the programs compiled meanwhile."""
  yield monkeypatch
  monkeypatch.undo()
  decoding.decode.clear_cache()


def _stand_in(module, **changes) -> Any:
  """A module with some of its names changed."""
  return types.SimpleNamespace(**(vars(module) | changes))


def test_a_cache_that_keeps_a_refused_token_is_caught(planted):
  def commit(cache, fresh, slots, count):
    return kv_cache.commit(cache, fresh, slots, count + (count > 0))

  case = model_case(Faulty("one too many committed"))
  planted.setattr(decoding, "kv_cache", _stand_in(kv_cache, commit=commit))
  caught = failures(case, "greedy_tables", "limits", "by_offset")
  assert set(caught) == {"greedy_tables", "limits", "by_offset"}


def test_ties_broken_otherwise_in_a_wide_pass_are_caught(planted):
  def make_law(logits, sampling_):
    if logits.shape[1] > 1:
      token = jax.lax.broadcasted_iota(jnp.float32, logits.shape, 2)
      logits = logits + 1e-3 * token
    return sampling.make_law(logits, sampling_)

  case = model_case(Faulty("last of a tie"))
  planted.setattr(passes, "sampling", _stand_in(sampling, make_law=make_law))
  assert set(failures(case, "greedy_tables")) == {"greedy_tables"}


def test_rows_that_are_done_and_counted_are_caught(planted):
  sound = decoding.decode_round

  def decode_round(engine, params, rows):
    after = sound(engine, params, rows)
    return dataclasses.replace(after, rounds=rows.rounds + 1)

  case = model_case(Faulty("done rows counted"))
  planted.setattr(decoding, "decode_round", decode_round)
  caught = failures(case, "done_rows", "ragged_tables")
  assert set(caught) == {"done_rows", "ragged_tables"}
