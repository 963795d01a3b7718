"""Flags of more than one command; defined once a process."""

import functools
from typing import Any

from absl import flags

# Of a flag that other commands define too, with a help of their own: several
# commands may be imported into one process.
ALSO_ELSEWHERE: dict[str, Any] = {"allow_override": True}


@functools.cache
def define_model() -> None:
  """Which target, and how it is compiled."""
  flags.DEFINE_string(
    "model",
    "smollm2-135m",
    "Target: an embedded name, a folder, a .gguf or .safetensors file, or"
    " org/name on the Hugging Face Hub.",
  )
  flags.DEFINE_enum(
    "dtype",
    None,
    ["float32", "bfloat16"],
    "Weights; by default float32 on CPU, bfloat16 on accelerators.",
  )
  define_compilation_cache()


@functools.cache
def define_compilation_cache() -> None:
  """Where compiled programs are kept."""
  flags.DEFINE_string(
    "compilation_cache",
    None,
    "Folder that keeps compiled programs between runs; empty is off. By default"
    " $JAX_COMPILATION_CACHE_DIR, else one beside the downloaded models.",
  )


@functools.cache
def define_drafting() -> None:
  """Which drafter and rule."""
  flags.DEFINE_string(
    "drafter",
    "none",
    "none, ngram, jacobi, lookahead, model, medusa, blockwise, eagle, eagle3,"
    " trees (ngram_tree, model_tree, medusa_tree, blockwise_tree, eagle_tree),"
    " or package.module:Class; A/B is the first of two that has something, A+B"
    ' both in one tree. Own settings stand behind: "model_tree tree=chain:4".',
  )
  flags.DEFINE_string(
    "draft_model",
    None,
    "Model that drafts, see --model; or the folder of a trained drafter.",
  )
  flags.DEFINE_integer(
    "draft_layers",
    None,
    "Draft with the target's first N layers: it exercises rejection, it is no"
    " good draft.",
  )
  flags.DEFINE_string(
    "speculative_config",
    None,
    "vLLM's JSON, in place of --drafter: method, model, num_speculative_tokens,"
    " prompt_lookup_max, prompt_lookup_min.",
  )
  flags.DEFINE_integer(
    "num_speculative_tokens",
    None,
    "Longest draft, at least 1 (--drafter=none is off); by default the"
    " drafter's.",
  )
  flags.DEFINE_string(
    "rule",
    None,
    "exact_match, rejection, block_verification (chains), recursive_rejection"
    " or kseq (trees); not the target's law: biased_resample, lossy_lenience,"
    " lossy_synthetic, lossy_typical. By default exact_match for lookup and"
    " rejection for drafters with a law of their own.",
  )
  flags.DEFINE_float(
    "lenience", None, "Of --rule=lossy_lenience, in (0, 1]; 1 is exact."
  )
  flags.DEFINE_list(
    "acceptance_rate",
    None,
    "Of --rule=lossy_synthetic: share of nodes kept, in [0, 1]; one number, or"
    " one a position.",
  )


@functools.cache
def define_sampling() -> None:
  """The law and the length of the output."""
  flags.DEFINE_float("temperature", 0.0, "0 is greedy.")
  flags.DEFINE_integer("top_k", 0, "Keep the k likeliest tokens; 0 is off.")
  flags.DEFINE_float("top_p", 1.0, "Keep this mass, in (0, 1]; 1 is off.")
  flags.DEFINE_float(
    "min_p", 0.0, "Drop tokens below this share of the likeliest one's."
  )
  flags.DEFINE_integer("seed", 0, "Of every draw.")
  flags.DEFINE_integer("max_new_tokens", 128, "At most so many a prompt.")
  flags.DEFINE_multi_string("stop", [], "Ends an answer; repeatable.")
