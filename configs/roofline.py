"""What a device makes of a drafter, by arithmetic alone.

  python -m experiments.roofline
  python -m experiments.advise --objective=latency --concurrency=4

Any machine, seconds. The defaults are those of the published serving page:
Qwen3-8B on one H100, Qwen3-0.6B drafting four tokens for one user; the speedup
to be expected is 1.93.
"""

from ml_collections import config_dict


def get_config() -> config_dict.ConfigDict:
  """Settings; those of one case are flags of the same names too.

  `drafters` are compared, and the first is studied: a preset's name, the folder
  of a config.json or of a trained drafter, a shipped drafter's name, ngram,
  head, self:TOKENS, or layers:N. `acceptance` is that of the first position,
  and each later one has `ratio` times the one before it where `shape` is
  falling. Bits that are None are 16, or 32 where a CPU at hand is the device.
  `bandwidth_share` and `operations_share` were fitted to the page's figures:
  what a program reaches of a maker's peaks is not known without a measurement.

  With `acceptance_from`, a folder of experiments.benchmark, target, drafter and
  gamma are the run's own, not those stated here; `categories` are the classes
  of its prompts that count, none for all.

  Of advise: `candidates` are at hand, `assumed` is the acceptance of those
  whose own is not given (the page's for models and heads; the bigram's of
  Leviathan et al. 2023 for lookup, and the page's again where answers copy).
  """
  return config_dict.create(
    target="qwen3-8b",
    drafters=("qwen3-0.6b", "qwen3-1.7b", "ngram", "head"),
    device="h100",
    chips=1,
    weight_bits=config_dict.placeholder(float),
    cache_bits=config_dict.placeholder(float),
    concurrency=1,
    context=2048,
    new_tokens=256,
    gamma=4,
    acceptance=0.75,
    shape="falling",
    ratio=0.85,
    acceptance_from=config_dict.placeholder(str),
    mode=config_dict.placeholder(str),
    categories=(),
    load="drains",
    bandwidth_share=0.8,
    operations_share=0.75,
    fixed_seconds=0.0,
    hop_seconds=0.0,
    memory_share=0.9,
    batches=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    contexts=(512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072),
    longest=10,
    candidates=("qwen3-0.6b", "ngram"),
    assumed=config_dict.create(
      model=0.75, head=0.75, self_draft=0.75, lookup=0.2, lookup_on_copies=0.75
    ),
  )
