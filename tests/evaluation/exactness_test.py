"""Exactness: the law enumerated, its statistics, verdicts on known pairs."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from specjax import sampling
from specjax.acceptance import BiasedResample, ExactMatch, Rejection
from specjax.drafters import NGram
from specjax.evaluation import exactness, records
from specjax.evaluation.exactness import laws, statistics
from specjax.testing import cases, nets, oracle, runs, tables
from specjax.types import Params, Slots
from tests.made_answers import make_answer

PROMPT = (2, 0, 1, 3, 0, 1)
RAW = oracle.Setting()
LOOKUP = NGram(2, 1, 3)


def enumerate_table(setting=RAW, prompt=PROMPT, length=3):
  model, target = cases.small_world()
  law_of = functools.partial(oracle.law_of, setting=setting)
  return exactness.enumerate_law(model, target, prompt, length, law_of)


@pytest.mark.parametrize("setting", [RAW, oracle.Setting(0.7, 2, 0.9)])
@pytest.mark.parametrize("prompt", [PROMPT, (3,)])
def test_the_law_of_a_table_is_the_oracle_s(setting, prompt):
  _, target = cases.small_world()
  found = enumerate_table(setting, prompt, 4)
  wanted = oracle.conditional_laws(np.asarray(target["table"]), setting)
  wanted = oracle.joint_law(wanted, prompt, 4)
  dense = np.zeros_like(wanted)
  dense[tuple(found.texts.T)] = found.probabilities
  np.testing.assert_allclose(dense, wanted, rtol=1e-9, atol=0)


def whole_pass(model, params, text):
  """Logits after every token of a text, in one pass without a cache."""
  tokens = jnp.asarray([text], jnp.int32)
  positions = jnp.arange(len(text))[None]
  mask = jnp.tril(jnp.ones((1, len(text), len(text)), bool))
  slots = Slots(tokens, positions, mask)
  cache = model.init_cache(1, 0)
  return np.asarray(jax.jit(model)(params, slots, cache).logits[0])


def test_the_law_of_a_net_is_that_of_a_pass_over_the_whole_text():
  model = nets.tiny_net(5)
  params = nets.random_net(model)
  law_of = functools.partial(oracle.law_of, setting=RAW)
  found = exactness.enumerate_law(model, params, PROMPT, 3, law_of)
  assert len(found.texts) == 5**3
  for i in range(0, 125, 31):
    text = found.texts[i].tolist()
    logits = whole_pass(model, params, [*PROMPT, *text])[len(PROMPT) - 1 : -1]
    wanted = [
      oracle.law_of(row, RAW)[token]
      for row, token in zip(logits, text, strict=True)
    ]
    assert found.probabilities[i] == pytest.approx(np.prod(wanted), rel=1e-4)


def test_samples_are_located_and_single_tokens_have_their_own_law():
  law = enumerate_table(oracle.Setting(1.0, 2))
  rng = np.random.default_rng(0)
  places = rng.integers(0, len(law.texts), 50)
  samples = law.texts[places]
  strange = np.asarray([[9, 9, 9]], samples.dtype)
  found = law.locate(np.concatenate([samples, strange]))
  assert found[:-1].tolist() == places.tolist() and found[-1] == laws.OUTSIDE
  second = law.at(1)
  for (token,), chance in zip(second.texts, second.probabilities, strict=True):
    of_it = law.probabilities[law.texts[:, 1] == token]
    assert chance == pytest.approx(of_it.sum())


def test_a_law_too_large_to_enumerate_is_refused(monkeypatch):
  monkeypatch.setattr(laws, "MAX_TEXTS", 60)
  with pytest.raises(ValueError, match="more than 60 texts of 3 tokens"):
    enumerate_table()


def test_total_variation_and_its_floor_in_closed_form():
  coin = np.asarray([0.5, 0.5])
  # n = 2: frequencies 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
  assert statistics.expected_total_variation(coin, 2) == pytest.approx(0.25)
  assert statistics.expected_total_variation(coin, 1) == pytest.approx(0.5)
  assert statistics.total_variation(np.asarray([3, 1]), 0, coin) == 0.25
  assert statistics.total_variation(np.asarray([1, 1]), 2, coin) == 0.5
  p = np.asarray([0.5, 0.3, 0.15, 0.05])
  drawn = np.random.default_rng(0).multinomial(200, p, 5000)
  seen = [statistics.total_variation(row, 0, p) for row in drawn]
  floor = statistics.expected_total_variation(p, 200)
  assert floor == pytest.approx(np.mean(seen), rel=0.02)


def test_chi_square_is_scipy_s_on_cells_pooled_to_five():
  p = np.asarray([0.6, 0.36, 0.02, 0.02])
  counts = np.asarray([50, 40, 6, 4])
  wanted = stats.chisquare([50, 40, 10], [60, 36, 4]).pvalue
  alone = statistics.chi_square(counts, 0, p)
  assert alone != pytest.approx(wanted)  # 4 is too few: a third cell joins
  assert alone == pytest.approx(stats.chisquare([50, 50], [60, 40]).pvalue)
  assert statistics.chi_square(2 * counts, 0, p) == pytest.approx(
    stats.chisquare([100, 80, 20], [120, 72, 8]).pvalue
  )
  assert statistics.chi_square(counts, 1, p) == 0.0
  assert statistics.chi_square(np.asarray([7]), 0, np.ones(1)) == 1.0


def test_p_values_of_an_exact_sampler_are_uniform():
  """A right program fails with probability 1e-6."""
  p = enumerate_table().probabilities
  drawn = np.random.default_rng(1).multinomial(1000, p, 1000)
  found = np.asarray([statistics.chi_square(row, 0, p) for row in drawn])
  assert statistics.uniformity(found) > 1e-6
  assert statistics.uniformity(found**2) < 1e-6
  assert statistics.uniformity(np.ones(100)) == 1.0


def test_distance_is_unbiased_by_chance_and_finds_what_is_there():
  p = enumerate_table().probabilities
  away = np.where(np.arange(len(p)) % 2, 1.3, 0.7) * p
  away /= away.sum()
  rng = np.random.default_rng(2)
  exact, biased = (
    [statistics.distance(rng.choice(len(p), 4000, p=law), p) for _ in range(99)]
    for law in (p, away)
  )
  assert abs(np.mean([d.estimate for d in exact])) < 0.005
  assert np.mean([d.low <= 0 <= d.high for d in exact]) > 0.85
  true = 0.5 * np.abs(away - p).sum()
  mean = np.mean([d.estimate for d in biased])
  assert 0.8 * true < mean < true + 0.005


def make_sampler(drafter=None, rule=None):
  model, target = cases.small_world()
  return exactness.Sampler(
    runs.make_engine(model, drafter, rule),
    Params(target),
    PROMPT,
    sampling.make_sampling(1, temperature=1.0),
    length=4,
    batch=1024,
  )


@functools.cache
def measured(rule, claimed):
  """Evidence of lookup with a rule on the table."""
  return exactness.measure(
    {
      exactness.TARGET: make_sampler(),
      exactness.SPECULATIVE: make_sampler(LOOKUP, rule),
      exactness.CONTROL: make_sampler(LOOKUP, exactness.Redrawn(rule)),
    },
    enumerate_table(length=4),
    claimed=claimed,
    samples=1024,
    seeds=4,
  )


@pytest.mark.parametrize("rule", [ExactMatch(), Rejection()])
def test_an_exact_rule_is_found_lossless_and_its_control_is_not(rule):
  found = measured(rule, True)
  sentence, ok = found.verdict
  assert ok and sentence.startswith("lossless"), sentence
  control = found.columns[exactness.CONTROL]
  assert control.rejected_seeds == 4 and control.faults
  made = found.columns[exactness.SPECULATIVE]
  assert made.rejected_seeds == 0 and made.accepted > 0
  assert made.distance.low < 0 < made.distance.high + 0.01
  assert found.sizes == (250, 1000, 4000, 4096)


def test_redrawn_has_the_law_of_its_closed_form():
  """Lookup proposes 3 after 0 1: it comes out with p + (1 - p) p."""
  p = enumerate_table(length=1).probabilities
  tokens = make_sampler(LOOKUP, exactness.Redrawn(ExactMatch())).draw(
    jax.random.key(5), 20000
  )
  wanted = (1 - p[3]) * p
  wanted[3] += p[3]
  counts = np.bincount(tokens.tokens[:, 0], minlength=4)
  assert statistics.chi_square(counts, 0, wanted) > 1e-6
  assert statistics.chi_square(counts, 0, p) < 1e-6


def test_a_lossy_rule_is_told_from_one_that_lies():
  lossy = measured(BiasedResample(), False)
  sentence, ok = lossy.verdict
  assert ok and sentence.startswith("not lossless, as its rule says: TV 0.")
  assert lossy.columns[exactness.SPECULATIVE].rejected_seeds == 4
  assert lossy.columns[exactness.SPECULATIVE].distance.low > 0.1
  sentence, ok = dataclasses.replace(lossy, claimed=True).verdict
  assert not ok and sentence.startswith("NOT lossless, though its rule says so")


def change(found, name, column=None, **fields):
  """Evidence with one column replaced, or with fields of it changed."""
  column = found.columns[name] if column is None else column
  column = dataclasses.replace(column, **fields)
  return dataclasses.replace(found, columns={**found.columns, name: column})


def test_without_power_there_is_no_verdict():
  """A control that passes, too few rounds, no drafts, a law that is wrong."""
  found = measured(ExactMatch(), True)
  columns = found.columns
  target, control = columns[exactness.TARGET], columns[exactness.CONTROL]
  made = exactness.SPECULATIVE
  for weak, reason in (
    (change(found, exactness.CONTROL, target), "rejected at 0 of 4 seeds only"),
    (change(found, exactness.CONTROL, rejected_seeds=3), "at 3 of 4 seeds"),
    (change(found, made, three_rounds=0.02), "only 2.0% of the samples took"),
    (change(found, made, drafted=0), "nothing was drafted"),
    (change(found, exactness.TARGET, control), "plain decoding itself is off"),
  ):
    sentence, ok = weak.verdict
    assert not ok and sentence.startswith("no verdict") and reason in sentence


def test_samples_that_the_law_rules_out_are_a_fault():
  column = measured(ExactMatch(), True).columns[exactness.SPECULATIVE]
  (fault,) = dataclasses.replace(column, outside=2).faults
  assert fault == "2 samples that the law rules out"


def test_too_few_seeds_are_refused():
  with pytest.raises(ValueError, match="seeds must be at least 2, got 1"):
    exactness.measure({}, enumerate_table(), claimed=True, samples=99, seeds=1)
  with pytest.raises(ValueError, match="at least 10 a seed, got 9"):
    exactness.measure({}, enumerate_table(), claimed=True, samples=9, seeds=2)


def test_a_sample_depends_on_its_key_alone():
  sampler = make_sampler(LOOKUP, Rejection())
  long, short = (sampler.draw(jax.random.key(1), n) for n in (1500, 100))
  assert (long.tokens[:100] == short.tokens).all()
  other = sampler.draw(jax.random.key(2), 100)
  assert (other.tokens != short.tokens).any()
  distinct = len(np.unique(long.tokens, axis=0))
  assert distinct > 100 and math.isclose(len(long.rounds), 1500)


TABLE = tables.TableModel(3, 1)
# After 0 the first two are tied but for 1e-4, after 1 nothing is.
TIES = {"table": np.asarray([[2.0, 1.9999, 0.0], [3, 1, 2], [0, 5, 4]], "f4")}


def test_a_near_tie_is_told_from_a_fault():
  classify = functools.partial(exactness.classify, TABLE, TIES)
  assert classify([1, 0], [0, 0, 1], [0, 0, 1]) is None
  near = classify([1], [0, 0, 0, 2], [0, 0, 1, 2])
  assert near is not None and near.kind == "near-tie" and near.position == 2
  assert near.gap == pytest.approx(1e-4, rel=0.01)
  assert (near.plain, near.other) == (0, 1)
  third = classify([1], [0, 0], [0, 2])  # the tie is of two others
  assert third is not None and third.kind == "fault" and third.gap == 2.0
  clear = classify([0, 1], [0], [2])
  assert clear is not None and clear.kind == "fault" and clear.position == 0
  ended = classify([1], [0, 0], [0])
  assert ended is not None and ended.kind == "fault" and ended.other is None


def test_near_ties_are_faults_where_they_are_many():
  tied = exactness.Pair("tied", [1], [0, 0], [0, 1])
  wrong = exactness.Pair("wrong", [1], [0], [1])
  same = exactness.Pair("same", [1], [0] * 900, [0] * 900)
  compare = functools.partial(exactness.compare, TABLE, TIES)
  one = compare([tied, same])
  assert (one.compared, one.equal, one.near_ties) == (2, 1, 1)
  assert one.tokens == 902 and one.faults == []
  (fault,) = compare([tied, tied, same]).faults
  assert fault.startswith("2 near-ties in 904 tokens")
  assert compare([tied, tied, *[same] * 5]).faults == []
  (fault,) = compare([wrong, same]).faults
  assert fault.startswith("wrong, token 1: 1 is not 0, 2 below")


def test_teacher_forcing_gives_the_logits_of_one_whole_pass():
  model = nets.tiny_net()
  params = nets.random_net(model)
  text = np.random.default_rng(3).integers(0, 17, 75).tolist()
  wanted = whole_pass(model, params, text)[-1]
  for prompt_length in (1, 40, 75):
    logits = exactness.near_ties.teacher_forced_logits(
      model, params, text, prompt_length
    )
    np.testing.assert_allclose(logits, wanted, atol=1e-4)


def answer(mode, token_ids, question="7", turn=0):
  return make_answer(
    mode, question, (), token_ids=tuple(token_ids), turn=turn, passes=1
  )


def test_records_are_paired_and_parted_conversations_end():
  plain = records.Mode("none")
  lookup = records.Mode("lookup", drafter="ngram")
  warm = records.Mode("warm", drafter="ngram", temperature=1.0)
  peer = records.Mode("peer", drafter="lookup", system="transformers")
  answers = [
    answer(plain, [0, 0]),
    answer(plain, [0, 0], turn=1),
    answer(plain, [0, 0], question="8"),
    answer(lookup, [2], turn=1),
    answer(lookup, [0, 1]),
    answer(lookup, [0, 0], question="8"),
    answer(lookup, [0], question="9"),
    answer(warm, [2]),
    answer(peer, [2]),
  ]
  found = exactness.compare_records(TABLE, TIES, answers, lambda answer: [1])
  assert list(found) == ["lookup"]
  got = found["lookup"]
  assert (got.compared, got.equal, got.near_ties, got.left_out) == (2, 1, 1, 1)
  assert got.differences[0][0] == "7, turn 1" and got.faults == []
