/* Runs side by side: what differs, what they measured, their curves in one picture. The runs stand in the address. */
"use strict";

(() => {
  const mount = document.getElementById("lb-compare");
  if (!mount) return;
  const { element, number, duration, moment } = window.labbook;
  const say = window.labbook.words(mount);
  const site = window.labbook.site(mount);
  const KINDS = ["argument", "config", "code", "model", "input", "environment", "package", "hardware"];
  const HEADS = ["repository", "commit", "branch"];
  const WORD = /^(?:(?:changed|new)(?= [0-9a-f]{8}$)|(?:as committed|no repository|not read|deleted|none)$)/;
  const MOST = 20, MAX_ROWS = 60, MAX_LINES = 6;

  /* Differences: the rules of labbook/compare/run_table.py; a test holds the two together. */

  const plain = (name) => name.replace(/^-+/, "").replaceAll("-", "_");
  const names = (sides) => [...new Set(sides.flatMap((side) => Object.keys(side ?? {})))];
  const distinct = (values) => new Set(values).size;

  /* In some kinds a name that one run lacks was not looked at there; in the others it was not set. */
  function plainRows(kind, sides, unseen) {
    const rows = [];
    for (const name of names(sides)) {
      const known = sides.filter((side) => side);
      const told = unseen ? known.filter((side) => name in side) : known;
      rows.push({ kind, what: name, values: sides.map((side) => side?.[name] ?? ""), differs: distinct(told.map((side) => side[name] ?? "")) > 1 });
    }
    return rows;
  }

  function argumentRows(runs) {
    if (!runs.every((side) => side.argument)) return plainRows("argument", runs.map((side) => side.words));
    const called = {};
    const sides = runs.map((side) => Object.fromEntries(Object.entries(side.argument).map(([name, value]) => {
      if (name.startsWith("-") || !(plain(name) in called)) called[plain(name)] = name;
      return [plain(name), value];
    })));
    return plainRows("argument", sides).map((row) => ({ ...row, what: called[row.what] }));
  }

  function configRows(sides) {
    return names(sides).map((path) => {
      const texts = sides.map((side) => side?.[path]);
      const lines = texts.map((text) => (text ?? "").split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/).map((line) => line.trim()).filter(Boolean));
      const held = lines.map((each) => new Set(each));
      const shared = new Set(lines[0].filter((line) => held.every((set) => set.has(line))));
      const differs = distinct(texts) > 1 && distinct(lines.map((each) => each.join("\n"))) > 1;
      const values = lines.map((each, n) => {
        if (texts[n] === undefined) return "not read";
        const own = differs ? each.filter((line) => !shared.has(line)) : each;
        return own.slice(0, MAX_LINES).join("; ") + (own.length > MAX_LINES ? ` (+${own.length - MAX_LINES})` : "");
      });
      return { kind: "config", what: path, values, differs };
    });
  }

  function codeRows(runs) {
    const sides = runs.map((side) => side.code);
    const written = new Set(runs.flatMap((side) => Object.keys(side.written ?? {})));
    const rows = names(sides).map((what) => {
      const missing = HEADS.includes(what) ? "" : "as committed";
      const values = sides.map((side) => (side ? (side[what] ?? missing) : ""));
      const known = [...new Set(values.filter(Boolean))];
      const result = written.has(what) && known.every((value) => value.startsWith("new ") || value === missing);
      return { kind: "code", what, values, differs: known.length > 1 && !result };
    });
    return [...rows.filter((row) => HEADS.includes(row.what)), ...rows.filter((row) => !HEADS.includes(row.what))];
  }

  function rowsOf(kind, runs) {
    if (kind === "argument") return argumentRows(runs);
    if (kind === "code") return codeRows(runs);
    const sides = runs.map((side) => side[kind]);
    if (kind === "model") {
      // Modules deeper than all runs show are no difference.
      const least = Math.min(...runs.map((side) => Number(side.model_depth?.deepest ?? Infinity)));
      return plainRows(kind, sides).filter((row) => row.what.split(".").length <= least);
    }
    if (kind === "config") return configRows(sides);
    if (kind === "environment") return [...plainRows(kind, runs.map((side) => side.state), true), ...plainRows(kind, sides)];
    return plainRows(kind, sides, kind === "hardware");
  }

  window.labbook.differences = (runs) => KINDS.flatMap((kind) => rowsOf(kind, runs).filter((row) => row.differs));

  /* The numbers: those that all runs have first. */
  function metricRows(runs) {
    const sides = runs.map((run) => run.data.metrics);
    const all = names(sides);
    const rows = [];
    for (const name of [...all.filter((one) => sides.every((side) => one in side)), ...all.filter((one) => !sides.every((side) => one in side))]) {
      const values = (what) => sides.map((side) => measured(side[name]?.[what]));
      const last = values("last"), best = values("best");
      rows.push({ name, what: "last", values: last });
      if (best.some((value) => value !== null) && best.some((value, n) => value !== last[n])) rows.push({ name, what: "best", values: best });
    }
    return rows.filter((row) => row.values.some((value) => value !== null));
  }

  const MOST_NAME = 30; // characters of an option and its value in the name of a run
  const NOT_FINITE = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  const measured = (value) => (typeof value === "string" ? (NOT_FINITE[value] ?? null) : (value ?? null));

  /* Loading */

  function chosen() {
    const ids = (new URLSearchParams(location.hash.slice(1)).get("runs") ?? "").split(",");
    return [...new Set(ids.filter((id) => /^\d{8}-\d{6}-[a-z0-9]{3,16}$/i.test(id)))];
  }

  const address = (ids) => `${location.pathname}${location.search}${ids.length ? `#runs=${ids.join(",")}` : ""}`;

  let index = null;
  const chunks = new Map();

  /* The month of a run stands in its id; runs with odd places are in the chunk without a month. */
  async function found(id) {
    index ??= await window.labbook.json(`${site.base}data/runs/index.json`);
    const month = `${id.slice(0, 4)}-${id.slice(4, 6)}`;
    for (const entry of index.months.filter((one) => one.month === month || one.month === "other")) {
      if (!chunks.has(entry.month)) {
        chunks.set(entry.month, window.labbook.json(`${site.base}data/runs/${entry.month}.json?${entry.digest}`).then(window.labbook.runs));
      }
      const run = (await chunks.get(entry.month)).find((one) => one.id === id);
      if (run) return run;
    }
    return null;
  }

  async function data(run) {
    if (run.bare) {
      const metrics = Object.fromEntries(Object.entries(run.metrics));
      return { facts: { argument: { ...run.params } }, metrics, curves: {} };
    }
    return window.labbook.json(`${site.base}data/run/${encodeURIComponent(run.id)}.json`);
  }

  /* The page */

  const still = document.getElementById("lb-compare-static");
  const home = mount.querySelector(".lb-home-link");
  let showEqual = false, asked = 0, picture = null;

  const note = (text, kind = "lb-note-line") => window.labbook.sentence("p", kind, text);
  const draw = (...parts) => mount.replaceChildren(home, ...parts.filter(Boolean));

  async function load() {
    const ids = chosen();
    asked += 1;
    const mine = asked;
    still.hidden = ids.length > 0;
    if (!ids.length) return draw();
    draw(note(say("loading", { n: Math.min(ids.length, MOST) })));
    const notes = ids.length > MOST ? [say("too_many")] : [];
    const runs = [];
    for (const [n, run] of (await Promise.all(ids.slice(0, MOST).map(found))).entries()) {
      if (run) runs.push(run);
      else notes.push(say("unknown", { id: ids[n] }));
    }
    const all = await Promise.all(runs.map(data));
    if (mine !== asked) return undefined; // another choice was made meanwhile
    runs.forEach((run, n) => { run.data = all[n]; });
    const bare = runs.filter((run) => run.bare);
    if (bare.length) notes.push(say("bare", { n: bare.length, total: runs.length }));
    if (runs.length < 2) notes.push(say("too_few"));
    return show(runs, notes);
  }

  function show(runs, notes) {
    picture?.destroy();
    const pills = notes.map((text) => note(text, "lb-hint"));
    if (!runs.length) {
      still.hidden = false;
      return draw(...pills);
    }
    called(runs);
    picture = window.labbook.curvesOf(runs, mount, say, swatch);
    draw(...pills, heads(runs), element("h2", { id: "differences", text: say("differences") }), differenceTable(runs),
      element("h2", { id: "numbers", text: say("numbers") }), numberTable(runs),
      element("h2", { id: "curves", text: say("curves") }), picture.element);
    picture.start();
    return undefined;
  }

  const colour = (n) => `var(--lb-run-${(n % 10) + 1})`;

  function swatch(n) {
    const made = element("i", { class: `lb-swatch${n >= 10 ? " lb-dashed" : ""}`, "aria-hidden": "true" });
    made.style.color = colour(n);
    return made;
  }

  const name = (run) => run.name;

  /* Runs are called by two options in which they differ, else by their time; those alike, also by the end of their id. */
  function called(runs) {
    const values = (one) => runs.map((run) => run.params[one] || "–");
    const varied = names(runs.map((run) => run.params)).filter((one) => distinct(values(one)) > 1)
      .sort((a, b) => distinct(values(b)) - distinct(values(a))).slice(0, 2);
    const ways = [
      (run) => varied.map((one) => `${one} ${run.params[one] || "–"}`.slice(0, MOST_NAME)).join(", "),
      (run) => moment(run.started), (run) => run.id.slice(-4),
    ];
    for (const run of runs) run.name = "";
    for (const way of ways) {
      const alike = runs.filter((run) => !run.name || runs.some((other) => other !== run && other.name === run.name));
      const more = alike.map((run) => [run.name, way(run)].filter(Boolean).join(" · "));
      alike.forEach((run, n) => { run.name = more[n]; });
    }
  }

  function heads(runs) {
    const others = (run) => runs.filter((one) => one !== run).map((one) => one.id);
    const remove = (run) => element("button", {
      type: "button", class: "lb-remove", "aria-label": say("remove", { title: run.title || run.id }), text: "×",
      onclick: () => { history.pushState(null, "", address(others(run))); load(); },
    });
    return element("div", { class: "lb-heads" }, ...runs.map((run, n) => element("div", { class: "lb-head" },
      element("div", { class: "lb-head__line" }, swatch(n), ...window.labbook.pills(run, say), runs.length > 1 ? remove(run) : null),
      element("a", { href: site.entry(run), text: [run.script, run.outcome].filter(Boolean).join(" · ") || run.title || run.id, title: run.title }),
      element("small", { text: [name(run), name(run).includes(moment(run.started)) ? "" : moment(run.started), duration(run.duration), run.author].filter(Boolean).join(" · ") }),
      element("small", { text: run.experiment }))),
    element("a", { class: "lb-head lb-add", href: site.section("runs/"), text: `+ ${say("add")}` }));
  }

  function frame(label, runs, body) {
    const head = element("tr", {}, element("th", { scope: "col", text: say("what") }), ...runs.map((run, n) =>
      element("th", { scope: "col" }, swatch(n), element("a", { href: site.entry(run), title: run.title, text: name(run) }))));
    return element("div", { class: "lb-wide", tabindex: "0", role: "region", "aria-label": label },
      element("table", { class: "lb-compare-table" }, element("thead", {}, head), ...body));
  }

  /* Words of labbook among the facts are shown in the language of the site. */
  const shownName = (row) => (row.kind === "code" && HEADS.includes(row.what) ? say(`word_${row.what}`) : row.what);
  const shownValue = (row, value) => (["code", "config"].includes(row.kind) ? value.replace(WORD, (word) => say(`word_${word}`)) : value);

  function differenceTable(runs) {
    const facts = runs.map((run) => run.data.facts);
    const groups = KINDS.map((kind) => [kind, rowsOf(kind, facts)]);
    const box = element("input", { type: "checkbox", checked: showEqual, onchange: () => { showEqual = box.checked; holder.replaceChildren(table()); } });
    const holder = element("div");
    function table() {
      const bodies = groups.map(([kind, rows]) => {
        const wanted = rows.filter((row) => row.differs || (showEqual && row.values.some(Boolean)));
        if (!wanted.length) return null;
        const cut = wanted.slice(0, showEqual ? 1000 : MAX_ROWS);
        const more = wanted.length - cut.length;
        return element("tbody", {},
          element("tr", { class: "lb-kind" }, element("th", { scope: "colgroup", colspan: runs.length + 1, text: say(`kind_${kind}`) })),
          ...cut.map((row) => element("tr", { class: row.differs ? "lb-differs" : "" }, element("th", { scope: "row", text: shownName(row) }), ...row.values.map((value, n) =>
            element("td", { class: value && row.differs && odd(row.values, n) ? "lb-odd" : "", text: shownValue(row, value) || "–" })))),
          more > 0 ? element("tr", {}, element("td", { colspan: runs.length + 1, text: say("more", { n: more }) })) : null);
      }).filter(Boolean);
      return bodies.length ? frame(say("differences"), runs, bodies) : note(say(`no_differences${facts.every((each) => each.package) ? "" : "_known"}`));
    }
    holder.append(table());
    return element("div", {}, element("label", { class: "lb-check" }, box, element("span", { text: say("show_equal") })), holder);
  }

  /* Of several runs, the value that stands alone is what to look at. */
  function odd(values, n) {
    return values.length > 2 && values.filter((value) => value === values[n]).length === 1 && distinct(values) < values.length;
  }

  function numberTable(runs) {
    const rows = metricRows(runs);
    const body = element("tbody", {}, ...rows.map((row) => {
      const finite = row.values.filter((value) => Number.isFinite(value));
      // Of a learning rate or a norm no value is the best: the data has none then. Neither is the value of one batch, nor
      // one of an unhealthy run.
      const told = runs.map((run) => run.data.metrics[row.name]).filter(Boolean);
      const sound = row.values.filter((value, n) => Number.isFinite(value) && !["unhealthy", "failed"].includes(runs[n].verdict));
      const ranked = told.some((one) => one.best !== null) && (row.what === "best" || !told.some((one) => one.level));
      const judged = ranked && sound.length > 0 && finite.length > 1 && distinct(finite) > 1;
      const best = judged ? (told.some((one) => one.rising) ? Math.max : Math.min)(...sound) : null;
      const cells = distinguished(row.values);
      return element("tr", {}, element("th", { scope: "row", text: row.what === "last" ? row.name : say("best_of", { name: row.name }) }), ...row.values.map((value, n) =>
        element("td", { class: "lb-number" }, value === null ? "–" : cells[n], value !== null && value === best && sound.includes(value) && !["unhealthy", "failed"].includes(runs[n].verdict) ? element("span", { class: "lb-best", text: say("best") }) : null)));
    }));
    return rows.length ? frame(say("numbers"), runs, [body]) : note("–");
  }

  /* As many digits as it takes to tell the values apart. */
  function distinguished(values) {
    for (let digits = 4; ; digits += 1) {
      const texts = values.map((value) => number(value, digits));
      if (digits >= 8 || distinct(texts) >= distinct(values)) return texts;
    }
  }

  if (window.labbook.offline()) {
    draw(note(say("offline")));
    return;
  }
  document.head.append(element("link", { rel: "stylesheet", href: `${site.base}assets/vendor/uPlot/uPlot.min.css` }));
  const begin = () => load().catch((error) => draw(note(error.message, "lb-hint")));
  addEventListener("popstate", begin);
  begin();
})();
