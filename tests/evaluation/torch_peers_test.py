"""The decoders of the extra [compare], where it is installed."""

import pathlib

import numpy as np
import pytest

from specjax import checkpoints
from specjax.evaluation.peers import registry
from specjax.evaluation.peers.registry import Request, Settings

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from specjax.evaluation.peers import (  # noqa: E402
  torch_model,
  torch_static,
  transformers_peer,
)

# Of torch's own modules, when they are first imported.
pytestmark = pytest.mark.filterwarnings(
  "ignore:.torch.jit.script:DeprecationWarning"
)
DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "hf"
CASES = sorted(path.name for path in DATA.iterdir())
PROMPT = (5, 9, 5, 9, 5, 9, 5, 9)
NEW = 24


def settings(case, **options):
  given = dict(
    model=str(DATA / case),
    dtype="float32",
    threads=1,
    num_speculative_tokens=0,
    draft_model=None,
    draft_layers=None,
    max_context=64,
  )
  return Settings(**{**given, **options})


@pytest.fixture(params=CASES)
def case(request):
  with np.load(DATA / request.param / "expected.npz") as data:
    return request.param, data["ids"], data["logits"]


@torch.inference_mode()
def test_a_built_model_has_the_checkpoint_s_logits(case):
  name, ids, logits = case
  model = torch_model.build(checkpoints.load(DATA / name))
  got = model(input_ids=torch.from_numpy(ids).long()).logits
  np.testing.assert_allclose(got.numpy(), logits, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_the_static_net_has_the_checkpoint_s_logits(case):
  name, ids, logits = case
  net = torch_static.Net(checkpoints.load(DATA / name), 64)
  for row, wanted in zip(torch.from_numpy(ids).long(), logits, strict=True):
    got = net(row[:30], torch.arange(30), 32)
    np.testing.assert_allclose(got.numpy(), wanted[29], atol=1e-4, rtol=0)
    for place in range(30, 40):
      at = torch.tensor([place])
      got = net(row[place : place + 1], at, 48)
      np.testing.assert_allclose(got.numpy(), wanted[place], atol=1e-4, rtol=0)


@torch.inference_mode()
def naive(case, count):
  """Greedy, the whole text read again for each token."""
  model = torch_model.build(checkpoints.load(DATA / case))
  ids = list(PROMPT)
  for _ in range(count):
    ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
  return tuple(ids[len(PROMPT) :])


DECODERS = [
  ("transformers plain", {}),
  ("transformers lookup", {"num_speculative_tokens": 4}),
  ("transformers assisted", {"num_speculative_tokens": 3, "draft_layers": 1}),
  (
    "transformers assisted",
    {"num_speculative_tokens": 3, "draft_model": str(DATA / CASES[0])},
  ),
  ("torch static", {}),
]


@pytest.mark.parametrize("name, options", DECODERS)
def test_greedy_answers_are_the_target_s(name, options):
  kind = registry.kind(name)
  module = transformers_peer if "transformers" in name else torch_static
  decoder = module.load(kind, settings(CASES[0], **options))
  expected = naive(CASES[0], NEW)
  for _ in range(2):  # nothing of the first answer is left over
    answer = decoder.decode(Request(PROMPT, NEW, 0.0, 0, ()))
    assert answer.token_ids == expected
    assert answer.finish_reason == "length"
    check_rounds(answer, options.get("num_speculative_tokens", 0))
  if "draft_model" in options:  # the target itself: all is kept
    assert answer.passes == NEW // 4
  one = decoder.decode(Request(PROMPT[:1], 2, 0.0, 0, ()))
  assert len(one.token_ids) == 2
  end = expected[5]
  ended = decoder.decode(Request(PROMPT, NEW, 0.0, 0, (end,)))
  assert ended.token_ids == expected[: expected.index(end) + 1]
  assert ended.finish_reason == "eos"


def check_rounds(answer, longest):
  assert len(answer.rounds) == answer.passes
  assert sum(emitted for _, _, emitted, _ in answer.rounds) == NEW
  for drafted, accepted, emitted, width in answer.rounds:
    assert accepted == emitted - 1 <= drafted == width - 1 <= longest
  assert answer.prefill_s > 0 and answer.decode_s > 0


@pytest.mark.parametrize("name, options", DECODERS[:2] + DECODERS[-1:])
def test_draws_are_seeded_and_unfiltered(name, options):
  kind = registry.kind(name)
  module = transformers_peer if "transformers" in name else torch_static
  decoder = module.load(kind, settings(CASES[0], **options))

  def draw(seed):
    return decoder.decode(Request(PROMPT, 50, 1e4, seed, ()))

  first, again, other = draw(0), draw(0), draw(1)
  assert first.token_ids == again.token_ids != other.token_ids
  # The law is all but uniform over 96: with the 50 likeliest alone, which is
  # transformers' default, no more than 50 would ever come.
  tokens = {t for seed in range(6) for t in draw(seed).token_ids}
  assert len(tokens) > 80


def test_the_static_step_is_compiled_before_it_is_timed(monkeypatch):
  kind = registry.kind("torch static")
  decoder = torch_static.load(kind, settings(CASES[0]))
  monkeypatch.setattr(torch_static, "_BUCKET", 16)
  with torch.inference_mode():
    for length in (16, 32, 48):
      decoder._compile(length)
  with torch._dynamo.config.patch(error_on_recompile=True):
    answer = decoder.decode(Request(PROMPT, NEW, 0.0, 0, ()))
  assert len(answer.token_ids) == NEW
