(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const WORDS = ("The keeper climbed the stairs at dusk and lit the lamp " +
    "then wrote one line in the book as every night before").split(" ");
  const SHOWN = 12; // rounds drawn
  let seed = 1;

  const make = (name, className, ...children) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };
  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  const digits = (value, most) => value.toLocaleString("en",
    { maximumFractionDigits: most, minimumFractionDigits: most });
  const times = (value) => (value === null ? "–" : `${digits(value, 2)}×`);
  // One digit more near the ends, where it tells something from nothing.
  const percent = (value) => {
    if (value === null) return "–";
    const near = Math.min(value, 1 - value);
    return `${digits(100 * value, near > 0 && near < 0.0095 ? 1 : 0)} %`;
  };
  const rate = (value) => (value === null ? "–"
    : digits(value, value < 100 ? 1 : 0));
  const milli = (seconds) => `${digits(1e3 * seconds, seconds < 0.1 ? 2 : 0)} ms`;
  const short = (value) => (value >= 1024 && value % 1024 === 0
    ? `${value / 1024}k` : String(value));

  // --- Settings ---

  const withValue = (steps, value) =>
    [...new Set([...steps, value])].sort((a, b) => a - b);
  const steps = {
    batch: withValue(data.batches, data.initial.batch),
    context: withValue(data.contexts, data.initial.context),
    gamma: Array.from({ length: data.longest }, (_, i) => i + 1),
    first: withValue(Array.from({ length: 100 }, (_, i) => i / 100),
      data.initial.first),
    ratio: withValue(Array.from({ length: 51 }, (_, i) => (50 + i) / 100),
      data.initial.ratio),
  };
  const shapes = [["falling", "falls with position"],
    ["constant", "the same at every position"],
    ...data.recorded.map((entry, i) => [`recorded ${i}`, `recorded: ${entry.name}`])];
  const options = {
    drafter: data.drafters.map((d) => [d.name, d.label]),
    shape: shapes,
    device: data.devices.map((d) => [d.name, d.name]),
    ways: withValue([1, 2, 4, 8], data.initial.ways).map((n) => [n, n]),
    bits: withValue([4, 8, 16], data.initial.bits).map((n) => [n, n]),
    load: [["drains", "all start together"], ["full", "kept full"]],
  };
  const state = { ...data.initial };

  const fromHash = () => {
    for (const part of location.hash.slice(1).split("&")) {
      const [name, text] = part.split("=").map(decodeURIComponent);
      if (!(name in state) || text === undefined) continue;
      if (options[name]) {
        const found = options[name].find(([value]) => String(value) === text);
        if (found) [state[name]] = found;
      } else if (steps[name] && text !== "" && Number.isFinite(+text)) {
        // The nearest step.
        state[name] = steps[name].reduce((a, b) =>
          (Math.abs(b - text) < Math.abs(a - text) ? b : a));
      }
    }
  };
  const toHash = () => {
    const changed = Object.keys(state).filter((n) => state[n] !== data.initial[n]);
    const hash = changed.map((n) => `${n}=${encodeURIComponent(state[n])}`);
    try {
      history.replaceState(null, "", `#${hash.join("&")}`);
    } catch { /* a page that was opened in a frame without an address */ }
  };

  const named = (list, name) => list.find((entry) => entry.name === name);
  const recordedRates = (settings) => (settings.shape.startsWith("recorded")
    ? data.recorded[+settings.shape.split(" ")[1]].rates : null);
  // The longest draft that a drafter has heads for, and acceptance is known of.
  const longest = (settings) => Math.min(
    data.longest,
    recordedRates(settings)?.length ?? Infinity,
    named(data.drafters, settings.drafter).longest ?? Infinity);
  const conditionalOf = (settings) => {
    const rates = recordedRates(settings);
    if (rates) return rates.slice(0, settings.gamma);
    const ratio = settings.shape === "constant" ? 1 : settings.ratio;
    return Array.from({ length: settings.gamma }, (_, i) =>
      settings.first * ratio ** i);
  };
  const caseOf = (settings) => {
    const device = named(data.devices, settings.device);
    const reached = device.measured
      ? { bandwidth_share: 1, operations_share: 1 } : {};
    return {
      target: data.target.model,
      drafter: named(data.drafters, settings.drafter),
      device,
      setup: { ...data.setup, ...reached, ways: +settings.ways,
        weight_bits: +settings.bits },
      conditional: conditionalOf(settings),
      batch: settings.batch, context: settings.context,
      new_tokens: settings.new_tokens, load: settings.load,
      memory_share: data.memory_share,
    };
  };

  // Rows' progress depends on acceptance and length alone.
  const played = new Map();
  const figuresOf = (settings) => {
    const one = caseOf(settings);
    if (one.load === "full") return arithmetic.figures(one);
    const key = `${one.new_tokens} ${one.conditional}`;
    if (!played.has(key)) {
      if (played.size > 200) played.clear();
      played.set(key, arithmetic.rowProgress(one.conditional, one.new_tokens));
    }
    return arithmetic.figures(one, played.get(key));
  };
  const but = (changes) => ({ ...state, ...changes });

  // --- Readouts ---

  const put = (id, value, text, note) => {
    const element = byId(id);
    element.textContent = text;
    element.dataset.value = value === null ? "null" : value;
    if (note !== undefined) byId(`${id}-note`).textContent = note;
  };

  const readouts = (f, gamma) => {
    const pays = f.speedup >= 1;
    put("speedup", f.speedup, times(f.speedup));
    const of = `${digits(100 * Math.abs(f.speedup - 1), 0)} %`;
    byId("verdict").textContent = Math.abs(f.speedup - 1) < 0.005
      ? "drafting changes nothing"
      : pays ? `drafting pays: ${of} faster` : `drafting costs: ${of} slower`;
    const kind = pays ? "pays" : "loses";
    byId("speedup").className = kind;
    byId("verdict").className = kind;
    byId("rates").textContent = `${rate(f.tokens_per_second)} tokens a second ` +
      `against ${rate(f.plain_tokens_per_second)} of plain decoding`;
    put("mean_acceptance_length", f.mean_acceptance_length,
      digits(f.mean_acceptance_length, 2), "tokens a target pass");
    put("judged_acceptance_rate", f.judged_acceptance_rate,
      percent(f.judged_acceptance_rate), "judged up to the first refusal");
    put("draft_acceptance_rate", f.draft_acceptance_rate,
      percent(f.draft_acceptance_rate),
      `${digits(f.accepted, 0)} of ${digits(f.drafted, 0)}`);
    put("draft_share", f.draft_share, percent(f.draft_share),
      !f.draft.seconds ? "no weights to read"
        : named(data.drafters, state.drafter).model
          ? `${gamma} steps of ${milli(f.draft.seconds)}`
          : `one pass of ${milli(f.draft.seconds)}`);
    put("operations_factor", f.operations_factor, times(f.operations_factor),
      "for the same tokens");
    put("idle_share", f.verify.idle_share, percent(f.verify.idle_share),
      `${percent(f.plain.idle_share)} in a plain pass`);
    put("verify_bytes", f.verify.bytes,
      `${digits(f.verify.bytes / 2 ** 30, 1)} GiB`, "weights and caches");
    put("verify_operations", f.verify.operations,
      `${digits(f.verify.operations / 1e12, 2)} TFLOP`,
      `${gamma + 1} tokens a sequence`);
    put("verify_seconds", f.verify.seconds, milli(f.verify.seconds),
      `${milli(f.verify.memory_seconds)} of reads, ` +
      `${milli(f.verify.arithmetic_seconds)} of arithmetic` +
      (f.verify.exchange_seconds
        ? `, ${milli(f.verify.exchange_seconds)} of exchange` : ""));
    put("row_speedup", f.row_speedup, times(f.row_speedup),
      state.load === "full" ? "the same when kept full"
        : "until its own end, not the last's");
    put("tokens_per_second_per_device", f.tokens_per_second_per_device,
      rate(f.tokens_per_second_per_device),
      `${rate(f.plain_tokens_per_second_per_device)} plain`);
    const c = f.capacity;
    put("capacity_speedup", c.speedup, times(c.speedup),
      `${digits(c.batch, 0)} sequences with the draft, ` +
      `${digits(c.plain_batch, 0)} without`);
    byId("place").textContent =
      `${state.ways > 1 ? state.ways : "one"} ${state.device}`;
    const room = byId("room");
    room.hidden = state.batch <= c.batch;
    room.textContent = `${digits(state.batch, 0)} sequences do not fit into ` +
      `memory with this draft: ${digits(c.batch, 0)} do.`;
    byId("log").textContent = "SpecDecoding metrics: " +
      `Mean acceptance length: ${f.mean_acceptance_length.toFixed(2)}, ` +
      `Accepted throughput: ${(f.accepted / f.seconds).toFixed(2)} tokens/s, ` +
      `Drafted throughput: ${(f.drafted / f.seconds).toFixed(2)} tokens/s, ` +
      `Accepted: ${Math.round(f.accepted)} tokens, ` +
      `Drafted: ${Math.round(f.drafted)} tokens, ` +
      "Per-position acceptance rate: " +
      `${f.acceptance_per_position.map((r) => r.toFixed(3)).join(", ")}, ` +
      `Avg Draft acceptance rate: ${(100 * f.draft_acceptance_rate).toFixed(1)}%`;
  };

  const rounds = () => {
    const conditional = conditionalOf(state);
    const drawn = arithmetic.drawRounds(conditional, SHOWN, seed);
    let word = 0;
    const next = () => WORDS[word++ % WORDS.length];
    const boxes = drawn.map((kept) => {
      const cells = conditional.map((_, i) => {
        if (i < kept) return make("span", "cell accepted", next());
        return i === kept ? make("span", "cell refused", "guess")
          : make("span", "cell tail", "guess");
      });
      return make("span", "round-cells", ...cells, make("span", "cell own", next()));
    });
    byId("rounds").replaceChildren(...boxes);
    const kept = drawn.reduce((a, b) => a + b, 0);
    const note = `These ${SHOWN} target passes gave ${word} tokens: ${kept} ` +
      `of ${SHOWN * conditional.length} guesses were kept.`;
    byId("rounds").setAttribute("aria-label", note);
    byId("rounds-note").textContent = note;
  };

  // --- Charts ---

  // Lines: [{label, chosen, points: [[x, y]]}]; xs are the steps, evenly apart.
  const chart = (box, xs, lines, here, beyond, title) => {
    const width = Math.max(280, box.clientWidth);
    const height = Math.round(Math.min(320, 150 + width / 5));
    const [left, right, top, bottom] = [38, width > 600 ? 110 : 88, 14, 40];
    const most = Math.max(1.25, ...lines.flatMap((l) => l.points.map((p) => p[1])));
    const scale = [0.25, 0.5, 1, 2, 5].find((s) => most / s <= 6) || 10;
    const ceiling = Math.ceil(most / scale) * scale;
    const x = (value) => left + (width - left - right) *
      (xs.length > 1 ? xs.indexOf(value) / (xs.length - 1) : 0.5);
    const y = (value) => top + (height - top - bottom) * (1 - value / ceiling);
    const parts = [];
    if (beyond !== null) {
      const from = xs.findIndex((value) => value > beyond);
      if (from >= 0) {
        const edge = from === 0 ? left : (x(xs[from]) + x(xs[from - 1])) / 2;
        parts.push(svg("rect", { class: "beyond", x: edge, y: top,
          width: width - right - edge, height: height - top - bottom }));
      }
    }
    for (let value = 0; value <= ceiling + 1e-9; value += scale) {
      parts.push(svg("line", { class: "grid", x1: left, x2: width - right,
        y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: left - 6, y: y(value) + 4,
        "text-anchor": "end" }, `${+value.toFixed(2)}×`));
    }
    parts.push(svg("line", { class: "one", x1: left, x2: width - right,
      y1: y(1), y2: y(1) }));
    const every = Math.ceil(xs.length / ((width - left - right) / 38));
    xs.forEach((value, i) => {
      if (i % every && value !== here) return;
      if (i % every && Math.min(i % every, every - i % every) < every / 2) return;
      parts.push(svg("text", { x: x(value), y: height - bottom + 18,
        "text-anchor": "middle", class: value === here ? "chosen" : "" },
      short(value)));
    });
    parts.push(svg("text", { x: left + (width - left - right) / 2,
      y: height - 4, "text-anchor": "middle" }, title));
    const ends = [];
    for (const line of [...lines].sort((a, b) => a.chosen - b.chosen)) {
      const path = line.points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ");
      const kind = line.chosen ? " chosen" : "";
      parts.push(svg("polyline", { class: `line${kind}`, points: path }));
      for (const [a, b] of line.chosen ? line.points : []) {
        const dot = svg("circle", { class: `dot ${b >= 1 ? "pays" : "loses"}`,
          cx: x(a), cy: y(b), r: 4.5 }, svg("title", {}, `${a}: ${times(b)}`));
        parts.push(dot);
        if (a === here) {
          parts.push(svg("circle", { class: "here", cx: x(a), cy: y(b), r: 8 }));
        }
      }
      const end = line.points[line.points.length - 1];
      if (end) ends.push({ line, y: y(end[1]) });
    }
    // Labels beside the lines' ends keep apart, from below up.
    ends.sort((a, b) => b.y - a.y);
    ends.forEach((end, i) => {
      end.at = i ? Math.min(end.y, ends[i - 1].at - 14) : end.y;
      const { label, chosen } = end.line;
      const text = label.length > 12 ? `…${label.slice(-11)}` : label;
      parts.push(svg("text", { x: width - right + 9, y: end.at + 4,
        class: chosen ? "chosen" : "" }, text));
    });
    box.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`,
      role: "img", "aria-label": `Speedup against ${title}` }, ...parts));
  };

  const best = (changes) => {
    let found = [0, 1];
    for (let gamma = 1; gamma <= Math.min(longest(state), 10); gamma++) {
      const { speedup } = figuresOf(but({ ...changes, gamma }));
      if (speedup > found[1]) found = [gamma, speedup];
    }
    return found[0];
  };

  const lines = (xs, change) => data.drafters.map((d) => ({
    label: d.label, chosen: d.name === state.drafter,
    points: xs.map((value) => but({ drafter: d.name, ...change(value) }))
      .map((one, i) => [xs[i], one])
      .filter(([, one]) => one.gamma <= longest(one))
      .map(([value, one]) => [value, figuresOf(one).speedup]),
  })).filter((line) => line.points.length);

  const table = () => {
    const rows = steps.batch.map((batch) => {
      const f = figuresOf(but({ batch }));
      const gamma = best({ batch });
      const cells = [times(f.speedup), gamma || "off",
        rate(f.tokens_per_second), rate(f.plain_tokens_per_second),
        percent(f.draft_share), percent(f.verify.idle_share),
        times(f.operations_factor)];
      const head = make("th", "n", digits(batch, 0));
      head.scope = "row";
      const kind = [batch === state.batch ? "here" : "",
        batch > f.capacity.batch ? "beyond" : ""].filter(Boolean).join(" ");
      return make("tr", kind, head,
        ...cells.map((text, i) => make("td",
          i === 0 ? `n ${f.speedup >= 1 ? "pays" : "loses"}` : "n", text)));
    });
    byId("rows").replaceChildren(...rows);
  };

  const charts = () => {
    const { capacity } = figuresOf(state);
    chart(byId("chart-batch"), steps.batch,
      lines(steps.batch, (batch) => ({ batch })), state.batch, capacity.batch,
      "concurrent sequences");
    const lengths = steps.gamma.filter((n) => n <= longest(state));
    chart(byId("chart-gamma"), lengths, lines(lengths, (gamma) => ({ gamma })),
      state.gamma, null, "num_speculative_tokens");
    chart(byId("chart-context"), steps.context,
      lines(steps.context, (context) => ({ context })), state.context, null,
      "tokens of context");
  };

  // --- From a change to the page ---

  const update = () => {
    state.gamma = Math.min(state.gamma, longest(state));
    if (!named(data.devices, state.device).link) state.ways = 1;
    for (const [name, values] of Object.entries(steps)) {
      const input = byId(name);
      input.min = 0;
      input.max = (name === "gamma" ? longest(state) : values.length) - 1;
      input.value = values.indexOf(state[name]);
      const shown = name === "first" || name === "ratio"
        ? state[name].toFixed(2) : digits(state[name], 0);
      byId(`${name}-shown`).textContent = shown;
      input.setAttribute("aria-valuetext", shown);
    }
    for (const name of Object.keys(options)) byId(name).value = state[name];
    const off = {
      first: Boolean(recordedRates(state)),
      ratio: state.shape !== "falling",
      ways: !named(data.devices, state.device).link,
    };
    for (const [name, is] of Object.entries(off)) {
      byId(name).disabled = is;
      byId(name).closest("label").classList.toggle("off", is);
    }
    readouts(figuresOf(state), state.gamma);
    rounds();
    charts();
    table();
  };
  let waiting = false;
  const changed = () => {
    toHash();
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      update();
    });
  };

  for (const [name, values] of Object.entries(steps)) {
    byId(name).addEventListener("input", (event) => {
      state[name] = values[+event.target.value];
      changed();
    });
  }
  for (const [name, values] of Object.entries(options)) {
    byId(name).replaceChildren(...values.map(([value, label]) => {
      const option = make("option", "", String(label));
      option.value = String(value);
      return option;
    }));
    byId(name).addEventListener("change", (event) => {
      [state[name]] = values.find(([value]) => String(value) === event.target.value);
      changed();
    });
  }
  byId("reset").addEventListener("click", () => {
    Object.assign(state, data.initial);
    changed();
  });
  byId("again").addEventListener("click", () => {
    seed += 1;
    rounds();
  });
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  let laidOut = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== laidOut) charts();
    laidOut = window.innerWidth;
  });
  window.addEventListener("hashchange", () => {
    Object.assign(state, data.initial);
    fromHash();
    update();
  });
  fromHash();
  update();
})();
