"""Labels equal the whole softmax of a plain pass, whatever the batch."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from specjax.evaluation.reproduction.small_training import logits
from specjax.training.data import Conversation, Labelling, label, labels
from specjax.training.data.labels import likeliest

TAPS = ("layer_0", "hidden")


def _exact(net, text):
  """Log-softmax in float64 of one text alone, without any padding."""
  alone = logits(net.model, net.params, jnp.asarray([text.token_ids]))[0]
  wide = np.asarray(alone, np.float64)
  return wide - np.logaddexp.reduce(wide, 1)[:, None]


@pytest.fixture(scope="module")
def found(net, texts):
  labelling = Labelling(4, TAPS, features_dtype="float32", tokens_a_pass=96)
  return list(labels(net, texts, labelling))


def test_labels_are_the_whole_softmax_at_each_token(net, texts, found):
  assert [f.conversation for f in found] == texts
  for text, one in zip(texts, found, strict=True):
    law = _exact(net, text)
    order = np.argsort(-law, 1)[:, :4]
    np.testing.assert_array_equal(one.top_ids, order)
    top = np.take_along_axis(law, order, 1)
    np.testing.assert_allclose(one.top_log_probs, top, atol=2e-5)
    tail = 1 - np.exp(top).sum(1)
    np.testing.assert_allclose(np.exp(one.log_tail), tail, atol=2e-5)
    assert one.features["hidden"].shape == (len(text.token_ids), 24)
    # The head reads "hidden": the features are those of the same position.
    head = (
      one.features["hidden"] @ np.asarray(net.params["embed"]["embedding"]).T
    )
    np.testing.assert_array_equal(head.argmax(1), one.top_ids[:, 0])


def test_the_law_at_the_first_learnt_position_is_of_the_first_answer_token(
  net, found
):
  """Trap: targets shifted and the mask not."""
  one = next(f for f in found if len(f.conversation.token_ids) == 12)
  text = one.conversation
  first = int(np.flatnonzero(text.mask)[0])
  assert first == text.answers[0][0] - 1
  before = dataclasses.replace(
    text, token_ids=text.token_ids[: first + 1], answers=()
  )
  law = _exact(net, before)[-1]
  np.testing.assert_allclose(
    one.top_log_probs[first], np.sort(law)[::-1][:4], atol=2e-5
  )


def test_neither_padding_nor_the_batch_moves_a_label(net, texts, found):
  for rows in (1, 512):
    other = labels(net, texts, Labelling(4, TAPS, "float32", "float32", rows))
    for a, b in zip(found, other, strict=True):
      np.testing.assert_array_equal(a.top_ids, b.top_ids)
      np.testing.assert_allclose(a.log_tail, b.log_tail, atol=2e-5)
      np.testing.assert_allclose(a.top_log_probs, b.top_log_probs, atol=2e-5)
      for name in TAPS:
        np.testing.assert_allclose(
          a.features[name], b.features[name], atol=2e-5
        )


def test_a_tail_keeps_its_digits_and_ties_are_counted_once():
  rows = jnp.asarray(
    [
      [0.0, -30.0, -31.0, -np.inf],
      [1.0, 1.0, 1.0, 1.0],
      [2.0, 1.0, 1.0, 0.0],
      [0.0, -np.inf, -np.inf, -np.inf],
    ]
  )
  exact = np.asarray(rows, np.float64)
  exact = exact - np.logaddexp.reduce(exact, 1)[:, None]
  for k in range(1, 5):
    teacher = likeliest(rows, k)
    tail = np.sort(exact, 1)[:, : 4 - k]
    with np.errstate(divide="ignore"):
      tail = np.log(np.exp(tail).sum(1))
    np.testing.assert_allclose(teacher.log_tail, tail, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
      teacher.log_probs, np.sort(exact, 1)[:, ::-1][:, :k], atol=1e-6
    )
  assert likeliest(rows, 4).ids[1].tolist() == [0, 1, 2, 3]


def test_what_the_target_cannot_read_is_refused_first(net, texts, tmp_path):
  def refused(text, labelling=None):
    with pytest.raises(ValueError) as error:
      label(net, [*texts, text], tmp_path / "store", labelling)
    assert not list(tmp_path.iterdir())
    return str(error.value)

  text = texts[0]
  long = Conversation("l", "corpus", (1,) * 65, (), None, "l")
  assert "reads 1 to 64" in refused(long)
  outside = Conversation("o", "corpus", (1, 17), (), None, "o")
  assert "outside the vocabulary" in refused(outside)
  assert "no tap 'layer_9'" in refused(text, Labelling(taps=("layer_9",)))
  with pytest.raises(ValueError, match="top_k must be at least 1"):
    Labelling(top_k=0)
  with pytest.raises(ValueError, match="log_probs_dtype is one of"):
    Labelling(log_probs_dtype="int8")
