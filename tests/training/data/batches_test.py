"""Batches: each law once an epoch, the same whenever they are asked for."""

import collections

import jax
import numpy as np
import pytest

from specjax.training.data import (
  Batches,
  Labelling,
  Store,
  count_answers,
  coverage,
  frequent_tokens,
  is_held_out,
  label,
)

HELD_OUT = 0.5


@pytest.fixture(scope="module")
def store(net, texts, tmp_path_factory):
  path = tmp_path_factory.mktemp("store")
  labelling = Labelling(5, ("hidden",), "float32", "float32", 96)
  label(net, texts, path, labelling)
  return Store(path)


def _batches(*stores, **options):
  given = dict(batch=4, length=8, side="all", held_out=HELD_OUT) | options
  return Batches(stores, **given)


def _laws(batches):
  """How often each learnt (token, next token, likeliest token, tail) comes."""
  seen = collections.Counter()
  for batch in batches:
    for row, at in np.argwhere(np.asarray(batch.mask)):
      seen[
        int(batch.tokens[row, at]),
        int(batch.tokens[row, at + 1]),
        int(batch.teacher.ids[row, at, 0]),
        float(batch.teacher.log_tail[row, at]),
      ] += 1
  return seen


def _stored(store, indices):
  seen = collections.Counter()
  for i in indices:
    span = store.read(i)
    for at in np.flatnonzero(span.mask):
      seen[
        int(span.tokens[at]),
        int(span.tokens[at + 1]),
        int(span.top_ids[at, 0]),
        float(span.log_tail[at]),
      ] += 1
  return seen


@pytest.mark.parametrize("length", [2, 8, 40])
def test_every_law_is_in_one_window(store, length):
  batches = _batches(store, length=length)
  everything = _stored(store, range(len(store)))
  assert _laws(batches.once()) == everything
  assert batches.answered == sum(everything.values())


def test_an_epoch_is_a_permutation_and_epochs_differ(store):
  batches = _batches(store, batch=1)
  n = batches.windows
  epochs = [[batches(s) for s in range(e * n, e * n + n)] for e in (0, 1)]
  everything = _stored(store, range(len(store)))
  assert _laws(epochs[0]) == _laws(epochs[1]) == everything
  order = [[b.tokens.tolist() for b in epoch] for epoch in epochs]
  assert order[0] != order[1]


def test_a_step_is_the_same_whatever_came_before(store):
  a, b = _batches(store), _batches(store)
  for step in range(5):
    a(step)
  for step in (4, 0, 3):
    pairs = zip(jax.tree.leaves(a(step)), jax.tree.leaves(b(step)), strict=True)
    assert all((x == y).all() for x, y in pairs)
  other = _batches(store, seed=1)
  assert any((other(s).tokens != a(s).tokens).any() for s in range(3))


def test_padding_is_never_learnt_and_holds_a_law_that_sums_to_one(store):
  batches = _batches(store)
  used = 0
  for batch in batches.once():
    assert batch.tokens.shape == (4, 8)
    assert not batch.mask[:, -1].any()
    mass = np.exp(batch.teacher.log_probs).sum(-1)
    mass += np.exp(batch.teacher.log_tail)
    np.testing.assert_allclose(mass, 1, atol=1e-5)
    padded = np.asarray(batch.teacher.log_tail) == 0
    assert not (padded & np.asarray(batch.mask)).any()
    np.testing.assert_array_equal(batch.features["hidden"][padded], 0)
    used += (~padded).sum()
  assert used == round((1 - batches.padding) * batches.windows * 8)


def test_fewer_tokens_of_a_law_keep_its_mass(store):
  for few, all_of_it in zip(
    _batches(store, top_k=2).once(), _batches(store).once(), strict=True
  ):
    short, long = few.teacher, all_of_it.teacher
    np.testing.assert_array_equal(short.ids, long.ids[..., :2])
    rest = np.exp(long.log_probs[..., 2:]).sum(-1) + np.exp(long.log_tail)
    np.testing.assert_allclose(np.exp(short.log_tail), rest, atol=1e-6)


def test_sides_share_no_prompt_and_lose_no_text(store):
  train, held = store.side("train", HELD_OUT), store.side("held_out", HELD_OUT)
  assert train and held
  assert sorted(train + held) == list(range(len(store)))
  for i in range(len(store)):
    prompt = store.entries[i].prompt_id
    assert (i in held) == is_held_out(prompt, HELD_OUT)
  batches = _batches(store, side="held_out")
  assert _laws(batches.once()) == _stored(store, held)


def test_stores_are_mixed_in_exact_proportions(store, net, texts, tmp_path):
  """The other store's texts all begin with the same two tokens."""
  labelling = Labelling(5, ("hidden",), "float32", "float32", 96)
  label(net, texts[:1], tmp_path, labelling)
  other = Store(tmp_path)
  first = list(texts[0].token_ids)
  batches = _batches(store, other, proportions=(3, 1), batch=100, length=40)
  rows = np.concatenate([np.asarray(batches(s).tokens) for s in range(10)])
  from_other = (rows[:, : len(first)] == first).all(1).sum()
  assert 250 <= from_other <= 250 + 750 / len(texts) + 1
  only = _batches(store, other, proportions=(0, 2), batch=3)
  assert (np.asarray(only(0).tokens)[:, : len(first)] == first).all()


def test_what_cannot_be_drawn_is_refused(store, net, texts, tmp_path):
  label(net, texts[:2], tmp_path, Labelling(3, (), "float32", "float32", 96))
  for options, reason in (
    (dict(top_k=6), "top_k must be 1 to 5"),
    (dict(taps=("layer_0",)), "no feature 'layer_0'"),
    (dict(length=1), "no batch"),
    (dict(proportions=(1, 2)), "for 1 stores"),
    (dict(side="held_out", held_out=0.0), "no text to learn from"),
  ):
    with pytest.raises(ValueError, match=reason):
      _batches(store, **options)
  with pytest.raises(ValueError, match="cannot be mixed: top_k is 3 and 5"):
    _batches(store, Store(tmp_path))


def test_a_reduced_vocabulary_is_the_most_frequent_and_always_ends(
  store, texts
):
  counts = count_answers(texts, 17)
  np.testing.assert_array_equal(store.answer_counts("all", HELD_OUT), counts)
  by_hand = np.zeros(17, int)
  for text in texts:
    for start, end in text.answers:
      for token in text.token_ids[max(start, 1) : end]:
        by_hand[token] += 1
  np.testing.assert_array_equal(counts, by_hand)
  rarest, said = int(counts.argmin()), []
  ids = frequent_tokens(
    texts, 6, always=[rarest], vocab_size=17, say=said.append
  )
  assert ids.tolist() == sorted(set(ids.tolist())) and len(ids) == 6
  assert rarest in ids
  best = np.sort(counts)[::-1][:5].sum() + counts[rarest]
  assert coverage(counts, ids) == best / counts.sum()
  assert f"{best / counts.sum():.2%}" in said[0]
  train = frequent_tokens(store, 17, always=[0], held_out=HELD_OUT)
  assert train.tolist() == list(range(17))
  with pytest.raises(ValueError, match="must hold the 1"):
    frequent_tokens(store, 0, always=[0])


def test_rows_of_like_length_come_together(store):
  """Whole batches once an epoch, each as wide as its longest row needs."""
  plain = _batches(store, length=16)
  batches = _batches(store, length=16, bucket=4)
  steps = batches.windows // 4
  first, second = (
    [batches(n * steps + i) for i in range(steps)] for n in (0, 1)
  )
  everything = _stored(store, range(len(store)))
  for epoch in (first, second):
    assert _laws(epoch) <= everything
    widths = [batch.tokens.shape[1] for batch in epoch]
    assert set(widths) <= {4, 8, 12, 16} and len(set(widths)) > 1
    for batch in epoch:
      last = np.flatnonzero(np.asarray(batch.mask).any(0)).max()
      assert last + 1 < batch.tokens.shape[1] <= last + 2 + 4
  assert sum(b.tokens.size for b in first) < sum(
    plain(i).tokens.size for i in range(steps)
  )
  assert _laws(batches.once()) == everything
  with pytest.raises(ValueError, match="bucket must be at least 1"):
    _batches(store, bucket=0)


def test_prompts_may_be_learnt_too(store):
  """Every law but the last of each text, once an epoch."""
  batches = _batches(store, prompts=True)
  seen = _laws(batches(i) for i in range(-(-batches.windows // 4)))
  whole = _batches(store, prompts=True).once()
  sizes = [entry.size - 1 for entry in store.entries]
  assert batches.answered == sum(sizes) > _batches(store).answered
  assert sum(_laws(whole).values()) == sum(sizes)
  assert sum(seen.values()) >= sum(sizes)
