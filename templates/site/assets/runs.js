/* The table of all runs: filters, order and columns, kept in the address; runs ticked for the comparison; CSV.
   Whether a run is asked for is in query.js, what it has in runs_rules.js, the drawing of rows in grid.js. */
"use strict";

(() => {
  const mount = document.getElementById("lb-runs");
  if (!mount) return;
  const { element, pill, number, duration, moment, day, compared, order } = window.labbook;
  const say = window.labbook.words(mount);
  const site = window.labbook.site(mount);
  const STATUS = ["finished", "failed", "interrupted", "killed", "lost", "running"];
  const FACETS = ["verdict", "experiment", "project", "script", "author", "host", "symptom", "tag"];
  const FACTS = ["started", "verdict", "status", "title", "curve", "metric", "experiment", "project", "script", "duration", "author", "host", "symptoms", "tags", "frameworks", "mode", "fixed"];
  const MOST = 20;

  const known = { runs: [], titles: {}, metrics: [], params: [] };
  const { parse, prepare, sortable, ordered, csvOf } = window.labbook.questions(known, say);
  const groups = window.labbook.runGroups(known, say);
  const preview = window.labbook.previews(known, say, site);
  let months = [], shown = [], loaded = 0;
  const picked = new Set();
  let state = read();

  /* State and address */

  function read() {
    const hash = location.hash.slice(1);
    const given = new URLSearchParams(hash.includes("=") ? hash : "");
    const sort = given.get("sort") || "-started";
    const list = (name) => (given.get(name) || "").split(",").filter(Boolean).map(decodeURIComponent);
    return {
      q: given.get("q") || "",
      since: /^\d{4}-\d\d-\d\d$/.test(given.get("since") || "") ? given.get("since") : "",
      status: list("status").filter((one) => STATUS.includes(one)),
      cols: given.has("cols") ? list("cols") : null,
      group: given.get("group") || "",
      pins: given.has("pin") ? list("pin") : groups.storedPins(),
      sort: sort.replace(/^-/, ""),
      down: sort.startsWith("-"),
      ...Object.fromEntries(FACETS.map((name) => [name, given.get(name) || ""])),
    };
  }

  function written() {
    const kept = new URLSearchParams();
    for (const name of ["q", ...FACETS, "since"]) if (state[name]) kept.set(name, state[name]);
    if (state.status.length) kept.set("status", state.status.join(","));
    const sort = (state.down ? "-" : "") + state.sort;
    if (sort !== "-started") kept.set("sort", sort);
    if (state.group) kept.set("group", state.group);
    if (state.pins.length) kept.set("pin", state.pins.join(","));
    if (state.cols) kept.set("cols", state.cols.map(encodeURIComponent).join(","));
    const text = kept.toString();
    return location.pathname + location.search + (text ? `#${text}` : "");
  }

  /* Each choice is a step that the back button takes back; letters of one word are not. */
  function change(part, { typing = false, still = false } = {}) {
    state = { ...state, ...part };
    history[typing ? "replaceState" : "pushState"](null, "", written());
    preview.hide();
    if (!still) table.toTop();
    update();
  }

  const LISTS = { symptom: "symptoms", tag: "tags" };
  const holds = (run, name, value) => (name in LISTS ? run[LISTS[name]].includes(value) : run[name] === value);

  function filtered() {
    const { tests, problem } = parse(state.q);
    for (const name of FACETS) if (state[name]) tests.push((run) => holds(run, name, state[name]));
    if (state.since) {
      const since = new Date(`${state.since}T00:00`).getTime() / 1000;
      tests.push((run) => run.started >= since);
    }
    const others = tests.length ? known.runs.filter((run) => tests.every((test) => test(run))) : known.runs;
    const counts = Object.fromEntries(STATUS.map((status) => [status, 0]));
    for (const run of others) counts[run.status] = (counts[run.status] ?? 0) + 1;
    const kept = state.status.length ? others.filter((run) => state.status.includes(run.status)) : others;
    return [kept, counts, problem];
  }

  /* Columns */

  const narrow = matchMedia("(max-width: 44.9375em)");
  const roomy = matchMedia("(min-width: 90em)");

  function label(key) {
    const [kind, ...rest] = key.split(":");
    if (kind === "best") return say("best_of", { name: rest.join(":") });
    return rest.length ? rest.join(":") : say(`col_${key}`);
  }

  function usual() {
    const several = (values) => new Set(values.filter((value) => value !== undefined && value !== "")).size > 1;
    const varied = known.params.filter((name) => name !== "seed" && several(known.runs.map((run) => run.params[name])));
    const has = (test) => known.runs.some(test);
    const mixed = several(known.runs.map((run) => run.metric)); // no column of one metric has the result of all
    // A healthy or unhealthy run is finished and a failed one failed, unless a status says something else.
    const status = has((run) => !["finished", "failed"].includes(run.status) || !run.verdict || run.verdict === "unknown");
    return ["started", "verdict", ...(status ? ["status"] : []), "title", ...(roomy.matches && has((run) => !run.bare) ? ["curve"] : []), ...(has((run) => run.symptoms.length) ? ["symptoms"] : []), ...(mixed ? ["metric"] : []), ...known.metrics.slice(0, mixed ? 1 : 2).map((name) => `last:${name}`), ...varied.slice(0, 2).map((name) => `param:${name}`),
      "duration", ...["experiment", "author"].filter((name) => several(known.runs.map((run) => run[name])))];
  }

  const TEXT_PX = 20; // size of the text for which the widths are
  const WIDTHS = { started: 144, verdict: 112, status: 116, title: 230, curve: 104, metric: 160, experiment: 190, project: 150, script: 150, duration: 96, author: 96, host: 96, symptoms: 190, tags: 150, frameworks: 130, mode: 88, fixed: 72 };

  const flat = (text) => text.toLowerCase().replaceAll("`", "");

  /* Script and result, without what other columns show: the status, the metric, a symptom (its place stays). */
  function called(run, keys = []) {
    const named = keys.includes("symptoms") && run.symptoms.some((name) => flat(run.outcome).includes(flat(known.titles[name] ?? name)));
    const result = named ? (run.outcome.match(/\S+:\d+$/)?.[0] ?? "") : run.outcome;
    const script = keys.includes("script") || result.startsWith(run.script) ? "" : run.script;
    return [script, result].filter(Boolean).join(" · ") || run.title || run.id;
  }

  function link(run, text = called(run)) {
    return element("a", { href: site.entry(run), tabindex: "-1", title: run.title, text });
  }

  function cell(key, keys) {
    const value = sortable(key);
    if (key === "started") return (run) => moment(run.started) || run.id;
    if (key === "verdict") return (run) => pill(run.verdict, say(`verdict_${run.verdict}`));
    if (key === "status") return (run) => pill(run.status, say(`status_${run.status}`));
    if (key === "title") return (run) => link(run, called(run, keys));
    if (key === "duration") return (run) => duration(run.duration);
    if (key === "curve") return (run) => preview.curve(run);
    if (key === "metric") return (run) => (run.metric ? `${run.metric} ${number(run.metrics[run.metric]?.last)}` : "");
    if (key === "fixed") return (run) => (run.fixed ? element("span", { class: "lb-fix", text: say("fixed") }) : "");
    if (key === "symptoms") return (run) => run.symptoms.map((name) => known.titles[name] ?? name).join(", ");
    if (key.startsWith("last:") || key.startsWith("best:")) return (run) => number(value(run));
    return (run) => String(value(run) ?? "");
  }

  const tick = {
    key: "", label: say("choose"), width: "34px", least: 34,
    cell: (run) => element("input", {
      type: "checkbox", tabindex: "-1", checked: picked.has(run.id), "aria-label": say("pick", { title: run.title || run.id }),
      onclick: (event) => { event.stopPropagation(); table.pick(run); event.target.checked = picked.has(run.id); },
    }),
  };

  const pin = {
    key: "", label: say("pins"), width: "28px", least: 28,
    cell: (run) => {
      const held = state.pins.includes(run.id);
      return element("button", { type: "button", class: "lb-pin", tabindex: "-1", "aria-pressed": String(held), "aria-label": say("pin", { title: run.title || run.id }), title: say("pins"), text: held ? "★" : "☆",
        onclick: (event) => { event.stopPropagation(); change({ pins: held ? state.pins.filter((id) => id !== run.id) : [...state.pins, run.id].slice(-MOST) }, { still: true }); groups.storePins(state.pins); } });
    },
  };

  function card(run) {
    const best = [run.metric, ...known.metrics].find((name) => run.metrics[name]?.last !== undefined);
    const facts = [moment(run.started), duration(run.duration), best ? `${best} ${number(run.metrics[best].last)}` : "", run.author, run.experiment];
    return element("div", { class: "lb-card" },
      element("div", { class: "lb-card__title" }, ...window.labbook.pills(run, say), link(run)),
      element("div", { class: "lb-card__facts", text: facts.filter(Boolean).join(" · ") }));
  }

  function arrange() {
    if (narrow.matches) {
      table.arrange([tick, { key: "title", label: say("col_title"), width: "minmax(0, 1fr)", least: 0, cell: card }], 62);
      return;
    }
    const keys = columnsShown();
    // Columns grow with the text, which is larger in wide windows.
    const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / TEXT_PX;
    table.arrange([tick, pin, ...keys.map((key) => {
      const width = Math.round((WIDTHS[key] ?? 100) * scale);
      const wide = key === "title" || (key === keys.at(-1) && !keys.includes("title"));
      const end = key === "duration" || key === "metric" || key.includes(":");
      return { key, label: label(key), width: wide ? `minmax(${width}px, 1fr)` : `${width}px`, least: width, end, sort: key !== "curve", cell: cell(key, keys) };
    })], 34);
  }

  function columnsShown() {
    const known = new Set(allColumns());
    const wanted = (state.cols ?? usual()).filter((key) => known.has(key));
    return wanted.length ? wanted : ["title"];
  }

  const allColumns = () => [...FACTS, ...known.metrics.flatMap((name) => [`last:${name}`, `best:${name}`]), ...known.params.map((name) => `param:${name}`)];

  /* Of a metric the best runs come first, of a loss the smallest. */
  const isFalling = (key) => /^(?:last|best):/.test(key) && !known.runs.some((run) => run.metrics[key.slice(5)]?.rising);

  /* The page */

  const table = window.labbook.grid({
    id: "lb-run", label: say("table"), picked,
    sorted: () => ({ key: state.sort, down: state.down }),
    onsort: (key) => change(key === state.sort ? { down: !state.down } : { sort: key, down: !["title", "experiment", "project", "author", "script"].includes(key) && !isFalling(key) }),
    pinned: (run) => state.pins.includes(run.id),
    ontoggle: (head) => { groups.toggle(head.group); update(); },
    onpoint: preview.point,
    onleave: preview.leave,
    onpreview: preview.toggle,
    onopen: (run) => location.assign(site.entry(run)),
    onpick: (run) => {
      if (picked.delete(run.id)) say("choose");
      else if (picked.size < MOST) picked.add(run.id);
      else notice.textContent = say("too_many");
      choice();
    },
  });

  let typing = false;
  const query = element("input", {
    type: "search", class: "lb-input lb-query", placeholder: say("hint"), "aria-label": say("search"), autocomplete: "off", spellcheck: "false",
    oninput: () => { change({ q: query.value }, { typing }); typing = true; },
    onblur: () => { typing = false; },
  });
  const selects = Object.fromEntries(FACETS.map((name) => [name, element("select", {
    class: "lb-input", "aria-label": say(`any_${name}`), onchange: (event) => change({ [name]: event.target.value }),
  })]));
  const since = element("input", { type: "date", class: "lb-input", "aria-label": say("since"), onchange: () => change({ since: since.value }) });
  const sinceLabel = element("label", { class: "lb-since" }, element("span", { text: say("since") }), since);
  const chips = element("div", { class: "lb-chips", role: "group", "aria-label": say("col_status") });
  const notice = element("span", { class: "lb-notice", role: "status" });
  const clear = element("button", { type: "button", class: "lb-button", text: say("clear_filters"), onclick: () => change({ ...Object.fromEntries(["q", "since", ...FACETS].map((name) => [name, ""])), status: [] }) });
  const compare = element("span", { class: "lb-choice" });
  const sort = element("select", { class: "lb-input lb-sort", "aria-label": say("sort"), onchange: () => change({ sort: sort.value.replace(/^-/, ""), down: sort.value.startsWith("-") }) });
  const group = element("select", { class: "lb-input", "aria-label": say("group"), onchange: () => change({ group: group.value }) });
  const panel = element("div", { class: "lb-panel", hidden: true, role: "group", "aria-label": say("columns_lead") });
  const opener = element("button", { type: "button", class: "lb-button lb-columns-button", "aria-expanded": "false", text: say("columns"), onclick: () => open(panel.hidden) });
  const empty = element("p", { class: "lb-none", hidden: true, text: say("none") });

  function open(wanted) {
    if (wanted) fillPanel();
    panel.hidden = !wanted;
    opener.setAttribute("aria-expanded", String(wanted));
    if (wanted) panel.querySelector("input")?.focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) { open(false); opener.focus(); }
  });
  document.addEventListener("click", (event) => {
    if (!panel.hidden && !menu.contains(event.target)) open(false);
  });
  const menu = element("div", { class: "lb-menu" }, opener, panel);

  function fillPanel() {
    const active = columnsShown();
    const group = (name, keys) => keys.length ? element("fieldset", {}, element("legend", { text: say(name) }), ...keys.map((key) =>
      element("label", {}, element("input", { type: "checkbox", checked: active.includes(key), onchange: (event) => toggle(key, event.target.checked) }), element("span", { text: label(key) })))) : null;
    panel.replaceChildren(element("div", { class: "lb-panel__groups" }, ...[
      group("facts", FACTS), group("metrics", known.metrics.flatMap((name) => [`last:${name}`, `best:${name}`])), group("params", known.params.map((name) => `param:${name}`)),
    ].filter(Boolean)), element("button", { type: "button", class: "lb-button", text: say("reset_columns"), onclick: () => { change({ cols: null }); fillPanel(); } }));
  }

  function toggle(key, on) {
    const now = columnsShown();
    const all = allColumns();
    const next = on ? [...now, key].sort((a, b) => (state.cols ? 0 : all.indexOf(a) - all.indexOf(b))) : now.filter((one) => one !== key);
    change({ cols: next });
  }

  function choice() {
    const ids = [...picked];
    const copies = preview.commands(ids);
    compare.replaceChildren(...(ids.length < 2
      ? [...(copies ? [copies] : []), element("span", { class: "lb-quiet", text: say("choose") })]
      : [...(copies ? [copies] : []), element("a", { class: "lb-button lb-primary", href: `${site.section("compare/")}#runs=${ids.join(",")}`, text: say("compare", { n: ids.length }) }),
        element("button", { type: "button", class: "lb-button", text: say("clear_chosen"), onclick: () => { picked.clear(); table.redraw(); choice(); } })]));
  }

  const options = (name) => {
    const counts = new Map();
    for (const run of known.runs) {
      const values = name === "symptom" ? run.symptoms : name === "tag" ? run.tags : [run[name]];
      for (const value of values) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    return [...counts].sort(([a], [b]) => order.compare(known.titles[a] ?? a, known.titles[b] ?? b));
  };

  const named = (facet, value) => (facet === "symptom" ? (known.titles[value] ?? value) : facet === "verdict" ? say(`verdict_${value}`) : value);

  /* Choices depend on what was loaded, not on what is typed. */
  function fillChoices() {
    const count = (list) => {
      const seen = new Map();
      for (const run of known.runs) for (const name of Object.keys(run[list])) seen.set(name, (seen.get(name) ?? 0) + 1);
      return [...seen].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    };
    known.metrics = count("metrics");
    known.params = count("params");
    for (const name of FACETS) {
      const found = options(name);
      const select = selects[name];
      select.replaceChildren(element("option", { value: "", text: say(`any_${name}`) }), ...found.map(([value, n]) =>
        element("option", { value, text: `${named(name, value)} (${n})` })));
      if (state[name] && !found.some(([value]) => value === state[name])) select.append(element("option", { value: state[name], text: state[name] }));
      select.hidden = found.length < 2 && !state[name];
    }
    const by = groups.keys();
    if (state.group && !by.includes(state.group)) by.push(state.group);
    group.replaceChildren(element("option", { value: "", text: say("group_none") }), ...by.map((key) => element("option", { value: key, text: say("group_by", { name: key === "day" ? say("group_day") : label(key) }) })));
    const keys = allColumns().filter((key) => !key.startsWith("best:") && key !== "curve");
    sort.replaceChildren(...keys.flatMap((key) => [["-", "sort_down"], ["", "sort_up"]].map(([sign, word]) =>
      element("option", { value: sign + key, text: `${label(key)}, ${say(word)}` }))));
  }

  function update() {
    const started = performance.now();
    const [kept, counts, problem] = filtered();
    shown = ordered(kept, state.sort, state.down);
    if (document.activeElement !== query) query.value = state.q;
    since.value = state.since;
    for (const name of FACETS) selects[name].value = state[name];
    group.value = state.group;
    sort.value = (state.down ? "-" : "") + state.sort;
    chips.replaceChildren(...STATUS.filter((status) => counts[status] || state.status.includes(status)).map((status) => element("button", {
      type: "button", class: `lb-chip-button lb-${status}`, "aria-pressed": String(state.status.includes(status)), "data-status": status,
      onclick: () => {
        change({ status: state.status.includes(status) ? state.status.filter((one) => one !== status) : [...state.status, status] });
        chips.querySelector(`[data-status="${status}"]`)?.focus();
      },
    }, element("span", { text: say(`status_${status}`) }), element("b", { text: String(counts[status]) }))));
    const n = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
    notice.textContent = loaded < months.length ? say("loading", { n: loaded, total: months.length })
      : shown.length === known.runs.length ? say("count_all", { total: n(known.runs.length) }) : say("count", { n: n(shown.length), total: n(known.runs.length) });
    clear.hidden = !(state.q || state.since || state.status.length || FACETS.some((name) => state[name]));
    empty.textContent = problem || say("none");
    empty.hidden = shown.length > 0 || loaded < months.length;
    table.element.hidden = !empty.hidden;
    arrange();
    table.show(groups.rows(shown, state.group, state.pins));
    // How long one change takes is seen in the browser's own tools.
    performance.measure("labbook: runs", { start: started, end: performance.now() });
  }

  function download() {
    // The mark at the beginning tells spreadsheets that it is UTF-8.
    const url = URL.createObjectURL(new Blob([`\ufeff${csvOf(columnsShown().filter((key) => key !== "curve"), shown)}\r\n`], { type: "text/csv;charset=utf-8" }));
    element("a", { href: url, download: `runs-${day(Date.now() / 1000)}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  async function load() {
    const index = await window.labbook.json(`${site.base}data/runs/index.json`);
    known.titles = index.symptoms;
    months = index.months;
    const parts = months.map(() => []), missed = [];
    let next = 0;
    const worker = async () => {
      while (next < months.length) {
        const n = next;
        next += 1;
        const { month, digest } = months[n];
        try {
          parts[n] = window.labbook.runs(await window.labbook.json(`${site.base}data/runs/${month}.json?${digest}`));
        } catch {
          missed.push(month);
        }
        loaded += 1;
        // The newest runs are shown while older ones arrive; all of them once.
        if (n === 0 || loaded === months.length) {
          known.runs = parts.flat().sort((a, b) => b.started - a.started);
          fillChoices();
          update();
          if (loaded === months.length) window.requestIdleCallback?.(prepare);
        }
      }
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
    if (missed.length) notice.textContent = say("missed", { months: missed.join(", ") });
  }

  // On a phone the choices fold away behind one button.
  const filters = element("button", {
    type: "button", class: "lb-button lb-filters-button", "aria-expanded": "false", text: say("filters"),
    onclick: () => filters.setAttribute("aria-expanded", String(tools.classList.toggle("lb-open"))),
  });
  const tools = element("div", { class: "lb-tools lb-filters" }, query, filters, ...Object.values(selects), sort);

  const still = document.getElementById("lb-runs-static");
  const note = (sentence) => mount.append(window.labbook.sentence("p", "lb-note-line", sentence));
  if (window.labbook.offline()) {
    note(say("offline"));
    return;
  }
  mount.append(
    tools,
    element("div", { class: "lb-tools" }, chips, sinceLabel, clear, element("span", { class: "lb-space" }), notice, group, menu,
      element("button", { type: "button", class: "lb-button", title: say("download_lead"), text: say("csv"), onclick: download })),
    table.element, empty, preview.element,
    element("div", { class: "lb-tools lb-below" }, compare, element("span", { class: "lb-space" }), element("span", { class: "lb-quiet lb-keys", text: say("keyboard") })),
  );
  choice();
  addEventListener("popstate", () => { state = read(); typing = false; query.value = state.q; update(); });
  narrow.addEventListener("change", () => update());
  for (const width of ["100em", "125em"]) matchMedia(`(min-width: ${width})`).addEventListener("change", () => update());
  load().then(() => { if (still) still.hidden = true; }, (error) => {
    mount.replaceChildren();
    note(say("failed", { reason: error.message }));
  });
})();
