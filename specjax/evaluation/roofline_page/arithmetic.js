"use strict";
// What specjax.theory computes of a case, for the page: seconds of passes from
// bytes and operations, a batch that drains in expectation, a full one, and
// what memory holds. Nothing here touches a document.
const arithmetic = (() => {
  const RARE = 1e-12; // a round that a row reaches less often is left out

  const cacheBytes = (model, setup) => {
    const values = 2 * model.num_layers * model.num_kv_heads * model.head_dim;
    const heads = Math.ceil(model.num_kv_heads / setup.ways);
    return values * (heads / model.num_kv_heads) * setup.cache_bits / 8;
  };
  const weightBytes = (parameters, setup) =>
    parameters * setup.weight_bits / 8 / setup.ways;

  // Of a pass that reads so many bytes and does so many operations.
  const timed = (device, setup, bytes, operations, exchange, fixed) => {
    const memory = bytes / (device.bandwidth * setup.bandwidth_share);
    const sums = operations / (device.operations * setup.operations_share);
    const seconds = Math.max(memory, sums) + exchange + fixed;
    return {
      seconds, memory_seconds: memory, arithmetic_seconds: sums,
      exchange_seconds: exchange, bytes, operations,
      idle_share: 1 - sums / seconds,
    };
  };
  // A pass of `batch` rows, each of `queries` tokens, on each of the devices.
  const modelPass = (model, device, setup, batch, context, queries) => {
    const { ways } = setup;
    const attention = 4 * model.num_layers * model.num_heads * model.head_dim;
    const bytes = weightBytes(model.parameters, setup) +
      batch * context * cacheBytes(model, setup);
    const operations =
      batch * queries * (2 * model.parameters + context * attention) / ways;
    let exchange = 0;
    if (ways > 1) {
      const moved = 2 * model.hidden_size * batch * queries;
      const ring = 2 * (ways - 1) / ways * moved / device.link;
      const hops = 2 * (ways - 1) * setup.hop_seconds;
      exchange = 2 * model.num_layers * (ring + hops);
    }
    return timed(
      device, setup, bytes, operations, exchange, setup.fixed_seconds);
  };
  // What runs once a draft of `gamma` tokens, for all of them.
  const oncePass = (once, device, setup, batch, gamma, fixed) => {
    const bytes = weightBytes(once.once + once.shared + gamma * once.each, setup);
    const used = once.once + gamma * (once.each + once.shared);
    return timed(device, setup, bytes, 2 * batch * used / setup.ways, 0, fixed);
  };
  const NOTHING = {
    seconds: 0, memory_seconds: 0, arithmetic_seconds: 0, exchange_seconds: 0,
    bytes: 0, operations: 0, idle_share: null,
  };
  // One pass of what drafts: over a token of each row, or over all of a draft
  // where heads guess them at once. A drafter without weights is free.
  const draftPass = (drafter, device, setup, batch, context, gamma) => {
    if (drafter.model) {
      const seen = drafter.longest_context === null
        ? context : Math.min(context, drafter.longest_context);
      return modelPass(drafter.model, device, setup, batch, seen, 1);
    }
    if (!drafter.once) return NOTHING;
    return oncePass(
      drafter.once, device, setup, batch, gamma, setup.fixed_seconds);
  };
  // Seconds and operations of all passes of one draft.
  const wholeDraft = (drafter, device, setup, batch, context, gamma) => {
    const one = draftPass(drafter, device, setup, batch, context, gamma);
    if (!drafter.model) return one;
    const once = drafter.once
      ? oncePass(drafter.once, device, setup, batch, gamma, 0) : NOTHING;
    return {
      seconds: gamma * one.seconds + once.seconds,
      operations: gamma * one.operations + once.operations,
    };
  };

  const products = (conditional) => {
    let kept = 1;
    return conditional.map((rate) => (kept *= rate));
  };
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const tokensOf = (conditional) => 1 + sum(products(conditional));

  // One row round by round: [chance that it still runs, mean tokens done].
  const rowProgress = (conditional, newTokens) => {
    const kept = [1, ...products(conditional)];
    const gains = kept.map((share, i) =>
      share * (i < conditional.length ? 1 - conditional[i] : 1));
    let law = new Float64Array(newTokens);
    law[0] = 1;
    const rounds = [];
    for (;;) {
      let share = 0;
      let done = 0;
      for (let n = 0; n < newTokens; n++) {
        share += law[n];
        done += n * law[n];
      }
      if (!(share > RARE)) return rounds;
      rounds.push([Math.min(share, 1), done / share]);
      const next = new Float64Array(newTokens);
      for (let n = 0; n < newTokens; n++) {
        if (!law[n]) continue;
        const most = Math.min(gains.length, newTokens - 1 - n);
        for (let j = 0; j < most; j++) next[n + 1 + j] += law[n] * gains[j];
      }
      law = next;
    }
  };

  // Calls use(k, chance) for the k of 1 .. rows that a binomial law may give.
  const eachCount = (rows, share, use) => {
    const other = 1 - share;
    const mode = Math.min(rows, Math.floor((rows + 1) * share));
    const up = [];
    for (let k = mode, p = 1; k < rows && p > 1e-18; k++) {
      p *= (rows - k) / (k + 1) * (share / other);
      up.push(p);
    }
    const down = [];
    for (let k = mode, p = 1; k > 0 && p > 1e-18; k--) {
      p *= k / (rows - k + 1) * (other / share);
      down.push(p);
    }
    const whole = 1 + sum(up) + sum(down);
    if (mode > 0) use(mode, 1 / whole);
    up.forEach((p, i) => use(mode + 1 + i, p / whole));
    down.forEach((p, i) => {
      if (mode - 1 - i > 0) use(mode - 1 - i, p / whole);
    });
  };

  // Totals of rows that start together and end apart. `progress` may be shared
  // between batches.
  const drains = (c, progress) => {
    const gamma = c.conditional.length;
    const t = {
      seconds: 0, draft_seconds: 0, arithmetic_seconds: 0, verify_seconds: 0,
      operations: 0, plain_seconds: 0, plain_operations: 0, rounds: 0,
      row_seconds: 0, drafts: 0,
    };
    for (const [share, done] of progress) {
      t.drafts += c.batch * share;
      eachCount(c.batch, share, (active, chance) => {
        const at = c.context + done;
        const draft = wholeDraft(
          c.drafter, c.device, c.setup, active, at, gamma);
        const verify = modelPass(
          c.target, c.device, c.setup, active, at, gamma + 1);
        const seconds = draft.seconds + verify.seconds;
        t.seconds += chance * seconds;
        t.draft_seconds += chance * draft.seconds;
        t.arithmetic_seconds += chance * verify.arithmetic_seconds;
        t.verify_seconds += chance * verify.seconds;
        t.operations += chance * c.setup.ways *
          (draft.operations + verify.operations);
        t.rounds += chance;
        t.row_seconds += chance * seconds * active / c.batch;
      });
    }
    for (let n = 0; n < c.new_tokens; n++) {
      const plain = modelPass(
        c.target, c.device, c.setup, c.batch, c.context + n, 1);
      t.plain_seconds += plain.seconds;
      t.plain_operations += plain.operations * c.setup.ways;
    }
    return t;
  };

  const meanContext = (c) => c.context + (c.new_tokens - 1) / 2;

  // One round of `batch` rows at a context, all of them running.
  const round = (c, batch, context) => {
    const gamma = c.conditional.length;
    const place = [c.drafter, c.device, c.setup, batch, context, gamma];
    const draft = draftPass(...place);
    const whole = wholeDraft(...place);
    const plain = modelPass(c.target, c.device, c.setup, batch, context, 1);
    const verify = modelPass(
      c.target, c.device, c.setup, batch, context, gamma + 1);
    return { draft, whole, plain, verify, seconds: whole.seconds + verify.seconds };
  };

  // Totals of rows that are always replaced.
  const full = (c) => {
    const one = round(c, c.batch, meanContext(c));
    const turns = c.new_tokens / tokensOf(c.conditional);
    const seconds = turns * one.seconds;
    return {
      seconds,
      draft_seconds: turns * one.whole.seconds,
      arithmetic_seconds: turns * one.verify.arithmetic_seconds,
      verify_seconds: turns * one.verify.seconds,
      operations: turns * c.setup.ways *
        (one.whole.operations + one.verify.operations),
      plain_seconds: c.new_tokens * one.plain.seconds,
      plain_operations: c.new_tokens * one.plain.operations * c.setup.ways,
      rounds: turns,
      row_seconds: seconds,
      drafts: c.batch * turns,
    };
  };

  const largestBatch = (c, drafter) => {
    let stored = c.target.stored;
    let size = cacheBytes(c.target, c.setup);
    if (drafter) {
      stored += drafter.stored;
      if (drafter.cached && drafter.model) {
        size += cacheBytes(drafter.model, c.setup);
      }
    }
    const room = c.device.memory * c.memory_share - weightBytes(stored, c.setup);
    return Math.max(Math.floor(room / ((c.context + c.new_tokens) * size)), 0);
  };
  const finite = (value) => (Number.isFinite(value) ? value : null);

  const capacity = (c) => {
    const context = c.context + c.new_tokens;
    const most = largestBatch(c, null);
    const fits = largestBatch(c, c.drafter);
    const plain = modelPass(c.target, c.device, c.setup, most, context, 1);
    const ours = round(c, fits, context);
    const plainRate = most / plain.seconds;
    const rate = fits * tokensOf(c.conditional) / ours.seconds;
    return {
      plain_batch: most, batch: fits,
      plain_tokens_per_second: finite(plainRate),
      tokens_per_second: finite(rate), speedup: finite(rate / plainRate),
    };
  };

  // All figures of a case, under the names that figures.py gives them. With
  // `progress` of the same acceptance and tokens, the rounds are not played
  // again.
  const figures = (c, progress) => {
    const gamma = c.conditional.length;
    const t = c.load === "full" ? full(c)
      : drains(c, progress || rowProgress(c.conditional, c.new_tokens));
    const tokens = c.batch * c.new_tokens;
    const rates = products(c.conditional);
    const accepted = t.drafts * sum(rates);
    const judged = t.drafts * (1 + sum(rates.slice(0, -1)));
    const one = round(c, c.batch, meanContext(c));
    const rate = tokens / t.seconds;
    const plainRate = tokens / t.plain_seconds;
    return {
      speedup: t.plain_seconds / t.seconds,
      row_speedup: t.plain_seconds / t.row_seconds,
      seconds: t.seconds,
      plain_seconds: t.plain_seconds,
      row_seconds: t.row_seconds,
      drafts: t.drafts,
      rounds: t.rounds,
      tokens,
      tokens_per_second: rate,
      plain_tokens_per_second: plainRate,
      draft_share: t.draft_seconds / t.seconds,
      operations_factor: t.operations / t.plain_operations,
      idle_share: 1 - t.arithmetic_seconds / t.verify_seconds,
      drafted: t.drafts * gamma,
      accepted,
      acceptance_per_position: rates,
      draft_acceptance_rate: accepted / (t.drafts * gamma),
      judged_acceptance_rate: accepted / judged,
      mean_acceptance_length: 1 + accepted / t.drafts,
      tokens_per_second_per_device: rate / c.setup.ways,
      plain_tokens_per_second_per_device: plainRate / c.setup.ways,
      verify: one.verify,
      draft: one.draft,
      plain: one.plain,
      capacity: capacity(c),
    };
  };

  // Uniform numbers in [0, 1) from a whole number (mulberry32).
  const uniforms = (seed) => {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let x = state;
      x = Math.imul(x ^ (x >>> 15), x | 1);
      x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
      return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
    };
  };
  // Drafts of one row, drawn: how many tokens each keeps.
  const drawRounds = (conditional, count, seed) => {
    const draw = uniforms(seed);
    return Array.from({ length: count }, () => {
      let kept = 0;
      while (kept < conditional.length && draw() < conditional[kept]) kept++;
      return kept;
    });
  };

  return { figures, rowProgress, drawRounds };
})();
