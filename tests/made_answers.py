"""Answers made up by hand: their rounds say how many tokens there are."""

from specjax.evaluation.records import Answer, Mode

PLAIN = Mode("none", rule="exact_match", lossless=True)


def lookup(num_speculative_tokens: int) -> Mode:
  return Mode(
    f"ngram k={num_speculative_tokens}",
    "ngram",
    "exact_match",
    True,
    num_speculative_tokens,
  )


def make_answer(mode, question="q", rounds=None, **fields):
  """An answer with as many tokens as its rounds emitted, ids 0, 1, 2 ...

  Args:
    rounds: (drafted, accepted, emitted, width) of each; ten of plain decoding
      where none are given.
    **fields: of the answer, instead of what stands here.
  """
  rounds = ((0, 0, 1, 1),) * 10 if rounds is None else tuple(rounds)
  given = dict(
    mode=mode,
    question_id=question,
    category="story",
    turn=0,
    repeat=0,
    prompt=f"prompt of {question}",
    text="text",
    token_ids=tuple(range(sum(emitted for *_, emitted, _ in rounds))),
    finish_reason="length",
    prompt_tokens=7,
    begun=False,
    passes=len(rounds),
    rounds=rounds,
    compile_s=2.0,
    prefill_s=0.1,
    decode_s=1.0,
    predicted_s=None,
    repeated_8grams=0.0,
    seed=0,
    environment={"model": "tiny", "route": "main"},
  )
  return Answer(**{**given, **fields})
