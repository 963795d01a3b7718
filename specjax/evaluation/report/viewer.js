"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const [ACCEPTED, REFUSED] = [0, 1];

  const make = (name, className, ...children) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };
  const textOf = (token) => data.tokens[token][1];
  const idOf = (token) => data.tokens[token][0];
  const number = (value) =>
    value === null || value === undefined ? "–"
      : value === 0 || value === 1 ? String(value)
        : value < 0.0005 ? value.toExponential(1) : value.toFixed(3);

  // A token's text, what would not be seen named; `spaces` names those too.
  const shown = (token, spaces) => {
    const text = textOf(token);
    if (text === "") return [make("i", "", `‹${idOf(token)}›`)];
    const marks = { "\n": "⏎", "\t": "⇥", "\r": "␍" };
    if (spaces) marks[" "] = "␣";
    return text.split(/([\n\t\r ])/).filter(Boolean).map((part) =>
      marks[part] ? make("i", "", marks[part]) : part);
  };
  // The same, and a new line where its text goes on after a line end.
  const laidOut = (token) => {
    const nodes = shown(token, false);
    const last = textOf(token).lastIndexOf("\n");
    if (last < 0 || last === textOf(token).length - 1) return nodes;
    const at = nodes.findLastIndex((n) => n.textContent === "⏎");
    return [...nodes.slice(0, at + 1), "\n", ...nodes.slice(at + 1)];
  };

  const fill = (select, values, wanted, name = String) => {
    const options = values.map((value) => {
      const option = make("option", "", name(value));
      option.value = String(value);
      return option;
    });
    select.replaceChildren(...options);
    if (values.map(String).includes(wanted)) select.value = wanted;
  };
  const distinct = (values) => [...new Set(values)];

  // --- The viewer of tokens ---

  const viewer = () => {
    const stream = byId("stream");
    const panel = byId("panel");
    const choices = ["mode", "question", "turn", "repeat"];
    const keys = { question: "question_id" };
    const selects = choices.map((name) => byId(`trace-${name}`));
    let trace = null;
    let places = []; // what can be chosen: {round, at, node, element}
    let pinned = null;

    const category = (id) => {
      const found = data.traces.find((t) => String(t.question_id) === id);
      return found && found.category ? `${id} (${found.category})` : id;
    };

    const choose = () => {
      let left = data.traces;
      choices.forEach((name, i) => {
        const key = keys[name] || name;
        const values = distinct(left.map((t) => String(t[key])));
        const label = { question: category, turn: (v) => String(+v + 1),
          repeat: (v) => String(+v + 1) }[name];
        fill(selects[i], values, selects[i].value, label);
        left = left.filter((t) => String(t[key]) === selects[i].value);
      });
      draw(left[0]);
    };

    // The nodes refused right where an emitted token was then put.
    const refusedAt = (round, at) => {
      const [, nodes, emitted] = round;
      const parent = at === 0 ? 0 : emitted[at - 1][1];
      return at > 0 && parent === 0 ? []
        : nodes.filter((n) => n[1] === parent && n[5] === REFUSED);
    };

    const place = (element, round, at, node) => {
      const index = places.length;
      element.id = `tok-${index}`;
      element.setAttribute("role", "option");
      places.push({ element, round, at, node });
      element.dataset.place = index;
      return element;
    };

    const draw = (chosen) => {
      trace = chosen;
      places = [];
      pinned = null;
      const ends = new Set(); // rounds that end a line
      const rounds = trace.rounds.map((round, r) => {
        const box = make("span", "round");
        round[2].forEach((token, at) => {
          for (const node of refusedAt(round, at)) {
            box.append(place(
              make("span", "tok refused", ...shown(node[2], false)), r, at, node));
          }
          const kind = token[1] ? "draft" : "own";
          const element = make("span", `tok ${kind}`, ...laidOut(token[0]));
          box.append(place(element, r, at, null));
          if (!textOf(token[0]).endsWith("\n")) return;
          // A box that a line end closes would go on in the next line.
          if (at + 1 < round[2].length) box.append("\n");
          else ends.add(r);
        });
        return box;
      });
      stream.replaceChildren(
        ...rounds.flatMap((box, r) => (ends.has(r) ? [box, "\n"] : [box])));
      stream.removeAttribute("aria-activedescendant");
      byId("trace-prompt").textContent = data.texts[trace.prompt];
      byId("trace-figures").textContent = describe();
      panel.replaceChildren(make("p", "note",
        "Point at a token, click it, or use the arrow keys."));
    };

    const describe = () => {
      const nodes = trace.rounds.flatMap((r) => r[1]);
      const emitted = trace.rounds.flatMap((r) => r[2]);
      const count = (fate) => nodes.filter((n) => n[5] === fate).length;
      const law = trace.lossless === true ? "Lossless."
        : trace.lossless === false ? "Lossy." : "";
      return `${emitted.length} tokens in ${trace.rounds.length} rounds: ` +
        `${emitted.filter((t) => t[1]).length} of the draft, ` +
        `${emitted.filter((t) => !t[1]).length} the target's own. ` +
        `${nodes.length} proposed: ${count(0)} accepted, ${count(1)} refused, ` +
        `${count(2)} never judged, ${count(3)} cut. ${law}`;
    };

    // --- The panel ---

    const fateOf = (round, node) => {
      const [slot, parent, , p, q, fate] = node;
      const q1 = q === null ? 1 : q;
      if (fate === ACCEPTED) return "Proposed by the draft, accepted.";
      if (fate === REFUSED) {
        const ratio = q1 > 0 ? p / q1 : null;
        const sibling = round[1].find((n) =>
          n[1] === parent && n[0] !== slot && n[5] !== REFUSED);
        const alone = !round[1].some((n) => n[1] === parent && n[0] !== slot);
        const why = trace.rule === "exact_match"
          ? " The target's own choice was another token."
          : trace.rule === "rejection" && alone
            ? " The rule keeps it with probability min(1, p/q)." : "";
        return "Proposed by the draft, refused: what it follows was kept, it" +
          ` was not. p/q = ${number(ratio)}.${why}` +
          (sibling ? " Another proposal was kept in its place." : "");
      }
      if (fate === 2) {
        return "Proposed by the draft, never judged: what it follows was not" +
          " kept.";
      }
      return "Proposed by the draft and kept by the rule, then cut at a stop" +
        " or at the limit of tokens.";
    };

    const ownReason = (round, at) => {
      const refused = refusedAt(round, at).length;
      if (refused) {
        return `The target's own token, where ${refused} ` +
          `proposal${refused > 1 ? "s were" : " was"} refused.`;
      }
      if (!round[1].length) return "The target's own token: nothing was drafted.";
      return "The target's own token, after the last proposal of its path.";
    };

    const bars = (token) => {
      const box = make("div", "bars");
      for (const [alternative, p] of token[3]) {
        const same = alternative === token[0];
        const fillBar = make("span");
        fillBar.style.width = `${100 * p}%`;
        const name = make("code", same ? "emitted" : "", ...shown(alternative, true));
        name.title = `id ${idOf(alternative)}`;
        box.append(name, make("div", "bar", fillBar),
          make("span", same ? "n emitted" : "n", number(p)));
      }
      return box;
    };

    // Single children stand in a row, several below one another.
    const branch = (round, parent, chosen) => {
      const out = [];
      let children = round[1].filter((n) => n[1] === parent);
      while (children.length === 1) {
        out.push(chip(children[0], chosen));
        const slot = children[0][0];
        children = round[1].filter((n) => n[1] === slot);
      }
      if (children.length) {
        out.push(make("ul", "", ...children.map((child) =>
          make("li", "", chip(child, chosen),
            ...branch(round, child[0], chosen)))));
      }
      return out;
    };

    const chip = (node, chosen) => {
      const kind = ["draft", "refused", "unreached", "cut"][node[5]];
      const made = make("span", `tok ${kind}`, ...shown(node[2], true),
        make("small", "", number(node[3])));
      if (node === chosen) made.classList.add("chosen");
      made.title = `id ${idOf(node[2])}, ${data.fates[node[5]]}, ` +
        `p = ${number(node[3])}, q = ${number(node[4] === null ? 1 : node[4])}`;
      made.dataset.slot = node[0];
      return made;
    };

    const show = (index, node) => {
      const { round: r, at, node: refused } = places[index];
      const round = trace.rounds[r];
      const token = round[2][at];
      const emitted = !node && !refused;
      const about = node || refused ||
        (token[1] ? round[1].find((n) => n[0] === token[1]) : null);
      const which = about ? about[2] : token[0];
      const point = about && about[4] === null;
      const p = about ? about[3] : token[2];
      const q = about ? (point ? 1 : about[4]) : null;

      const title = make("h3", "", make("code", "", ...shown(which, true)));
      title.append(make("span", "note", ` id ${idOf(which)}`));
      const figures = make("div", "figures", make("span", "", `p = ${number(p)}`));
      if (about) {
        figures.append(make("span", "",
          `q = ${number(q)}${point ? " (point mass)" : ""}`));
        figures.append(make("span", "", `p/q = ${number(q > 0 ? p / q : null)}`));
      }
      const parts = [title, make("p", "fate",
        about ? fateOf(round, about) : ownReason(round, at)), figures];
      // The laws of slots that nothing was emitted from are not in the trace.
      const above = at === 0 ? 0 : round[2][at - 1][1];
      if ((emitted || about[1] === above) && token[3].length) {
        parts.push(make("h4", "", emitted ? "The target's likeliest tokens here"
          : "The target's likeliest tokens in its place"), bars(token));
      }
      const accepted = round[1].filter((n) => n[5] === ACCEPTED).length;
      const tree = make("div", "tree", make("span", "root", "last token "),
        ...branch(round, 0, about));
      parts.push(
        make("h4", "", `Round ${r + 1} of ${trace.rounds.length}`),
        make("p", "", `Width ${round[0]}, ${round[1].length} proposed, ` +
          `${accepted} accepted, ${round[2].length} emitted.`),
        round[1].length ? tree : make("p", "note", "No proposal."));
      panel.replaceChildren(...parts);
      panel.dataset.place = index;
    };

    const mark = (index) => {
      for (const old of stream.querySelectorAll(".chosen, .current")) {
        old.classList.remove("chosen", "current");
        old.removeAttribute("aria-selected");
      }
      if (index === null) {
        stream.removeAttribute("aria-activedescendant");
        return;
      }
      const { element } = places[index];
      element.classList.add("chosen");
      element.setAttribute("aria-selected", "true");
      element.parentElement.classList.add("current");
      stream.setAttribute("aria-activedescendant", element.id);
      show(index, null);
    };

    const pin = (index) => {
      pinned = index;
      mark(index);
    };

    const target = (event) => {
      const element = event.target.closest("[data-place]");
      return element && stream.contains(element) ? +element.dataset.place : null;
    };
    stream.addEventListener("mouseover", (event) => {
      const index = target(event);
      if (pinned === null && index !== null) mark(index);
    });
    stream.addEventListener("click", (event) => {
      const index = target(event);
      if (index !== null) pin(index === pinned ? null : index);
      if (index !== null && pinned === null) mark(index);
    });
    panel.addEventListener("click", (event) => {
      const made = event.target.closest("[data-slot]");
      if (!made) return;
      const index = +panel.dataset.place;
      const { round } = places[index];
      const node = trace.rounds[round][1].find((n) => n[0] === +made.dataset.slot);
      // The same place in the stream, where it has one.
      const found = places.findIndex((other) => other.round === round &&
        (other.node === node || (!other.node &&
          trace.rounds[round][2][other.at][1] === node[0])));
      if (found >= 0) pin(found);
      else {
        pinned = index;
        show(index, node);
      }
    });

    const visible = (index) => places[index] &&
      (!places[index].node || byId("show-refused").checked);
    const step = (from, by) => {
      let index = from + by;
      while (places[index] && !visible(index)) index += by;
      return places[index] ? index : from;
    };
    const roundStep = (from, by) => {
      const wanted = places[from].round + by;
      const index = places.findIndex((p, i) => p.round === wanted && visible(i));
      return index < 0 ? from : index;
    };
    stream.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const now = pinned === null ? -1 : pinned;
      const moves = {
        ArrowRight: () => step(now, 1),
        ArrowLeft: () => (now < 0 ? step(-1, 1) : step(now, -1)),
        ArrowDown: () => (now < 0 ? step(-1, 1) : roundStep(now, 1)),
        ArrowUp: () => (now < 0 ? step(-1, 1) : roundStep(now, -1)),
        Home: () => step(-1, 1),
        End: () => step(places.length, -1),
      };
      if (event.key === "Escape") pin(null);
      else if (moves[event.key]) {
        pin(moves[event.key]());
        places[pinned].element.scrollIntoView({ block: "nearest" });
      } else return;
      event.preventDefault();
    });
    byId("show-refused").addEventListener("change", (event) => {
      stream.classList.toggle("refusals", event.target.checked);
      if (pinned !== null && !visible(pinned)) pin(null);
    });
    stream.classList.toggle("refusals", byId("show-refused").checked);
    for (const select of selects) select.addEventListener("change", choose);

    fill(selects[0], distinct(data.traces.map((t) => String(t.mode))), "");
    const drafted = data.traces.find((t) => t.rounds.some((r) => r[1].length));
    if (drafted) selects[0].value = String(drafted.mode);
    choose();
  };

  // --- The table of answers ---

  const answers = () => {
    const step = 50;
    const [mode, category, words] = ["mode", "category", "words"].map(
      (name) => byId(`answer-${name}`));
    const more = byId("answer-more");
    const rows = byId("answer-rows");
    const all = "all";
    let found = [];

    const row = (answer) => {
      const prompt = data.texts[answer.prompt];
      const text = data.texts[answer.text];
      const details = make("details", "", make("summary", "",
        make("span", "clip", prompt)), make("pre", "", prompt),
        make("pre", "", text));
      const turn = `turn ${answer.turn + 1}, repeat ${answer.repeat + 1}`;
      const kind = [answer.category, answer.begun ? "begun" : "",
        turn].filter(Boolean).join(", ");
      const share = answer.repeated === null ? "–"
        : `${(100 * answer.repeated).toFixed(1)} %`;
      return make("tr", "", make("th", "", answer.mode),
        make("td", "", String(answer.question), make("div", "note", kind)),
        make("td", "", details), figure("tokens", answer.tokens),
        figure("passes", answer.passes), figure("repeated 8-grams", share));
    };
    const figure = (label, value) => {
      const cell = make("td", "n", String(value));
      cell.dataset.label = label;
      return cell;
    };
    const grow = () => {
      const from = rows.childElementCount;
      rows.append(...found.slice(from, from + step).map(row));
      more.hidden = rows.childElementCount >= found.length;
    };
    const filter = () => {
      const asked = words.value.toLowerCase();
      found = data.answers.filter((a) =>
        (mode.value === all || a.mode === mode.value) &&
        (category.value === all || a.category === category.value) &&
        (!asked || data.texts[a.prompt].toLowerCase().includes(asked) ||
          data.texts[a.text].toLowerCase().includes(asked)));
      rows.replaceChildren();
      byId("answer-count").textContent =
        `${found.length} of ${data.answers.length} answers`;
      grow();
    };
    const either = (value) => value || "no category";
    fill(mode, [all, ...distinct(data.answers.map((a) => a.mode))], all);
    fill(category, [all, ...distinct(data.answers.map((a) => a.category))],
      all, either);
    for (const input of [mode, category]) input.addEventListener("change", filter);
    words.addEventListener("input", filter);
    more.addEventListener("click", grow);
    filter();
  };

  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  if (data.traces.length) viewer();
  if (data.answers.length) answers();
})();
