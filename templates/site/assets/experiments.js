/* Options of an experiment's runs against what they measured: one option, or all of them. Each mark is a run. */
"use strict";

(() => {
  const mount = document.getElementById("lb-explore");
  if (!mount || window.labbook.offline()) return;
  const { element, number, moment, compared } = window.labbook;
  const say = window.labbook.words(mount);
  const site = window.labbook.site(mount);
  const isBroken = (run) => ["failed", "killed", "lost"].includes(run.status) || run.verdict === "unhealthy";
  const HEIGHT = 340, MOST_MARKS = 1500;
  const LEFT = 64, RIGHT = 16, TOP = 14, BOTTOM = 44;

  let runs = [], options = [], metrics = [], width = 0;
  const choice = { view: "scatter", option: "", metric: "", what: "best", logX: false, logY: false };

  function shape(tag, settings = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(settings)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const text = (x, y, content, settings = {}) => {
    const made = shape("text", { x, y, ...settings });
    made.textContent = content;
    return made;
  };

  const short = (value) => (value.length > 14 ? `${value.slice(0, 13)}…` : value);
  /* Of some metrics no value is the best: then the last one is shown. */
  const result = (run) => run.metrics[choice.metric]?.[choice.what] ?? run.metrics[choice.metric]?.last ?? null;
  const isNumber = (value) => value !== "" && Number.isFinite(Number(value));

  /* A scale from values to places: by size, by powers of ten, or side by side where values are no numbers. */
  function scale(values, from, to, log, measured = false) {
    const distinct = [...new Set(values)];
    if (!distinct.every(isNumber)) {
      const names = distinct.sort(compared), step = (to - from) / Math.max(1, names.length);
      const place = new Map(names.map((name, n) => [name, from + step * (n + 0.5)]));
      const shown = names.length > 12 ? names.filter((_, n) => n % Math.ceil(names.length / 12) === 0) : names;
      return { at: (value) => place.get(value), ticks: shown.map((name) => [place.get(name), short(name)]) };
    }
    const numbers = distinct.map(Number), powers = log && Math.min(...numbers) > 0;
    const sized = (value) => (powers ? Math.log10(value) : Number(value));
    let least = Math.min(...numbers.map(sized)), most = Math.max(...numbers.map(sized));
    if (least === most) [least, most] = [least - (powers ? 0.5 : Math.abs(least) / 2 || 0.5), most + (powers ? 0.5 : Math.abs(most) / 2 || 0.5)];
    const margin = (most - least) * 0.05;
    const at = (value) => from + (to - from) * ((sized(Number(value)) - least + margin) / (most - least + 2 * margin));
    if (distinct.length <= 6 && !measured) return { at, ticks: numbers.sort((a, b) => a - b).map((value) => [at(value), number(value)]) };
    const ticks = [];
    const span = (most - least) / 5, unit = 10 ** Math.floor(Math.log10(span));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((one) => one >= span);
    for (let n = Math.ceil(least / step); n * step <= most; n += 1) {
      const value = powers ? 10 ** (n * step) : Number((n * step).toPrecision(12));
      ticks.push([at(value), number(value, 2)]);
    }
    return { at, ticks };
  }

  const wide = (values) => {
    const numbers = values.filter(isNumber).map(Number);
    return numbers.length === values.length && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) >= 50;
  };

  function linked(run, says, ...marks) {
    const made = shape("a", { href: site.entry(run), tabindex: "-1" }, ...marks);
    const title = shape("title");
    title.textContent = [run.title, moment(run.started), says].filter(Boolean).join("\n");
    made.prepend(title);
    return made;
  }

  function scatter(list) {
    const shown = list.filter((run) => choice.option in run.params && Number.isFinite(result(run)));
    const x = scale(shown.map((run) => run.params[choice.option]), LEFT, width - RIGHT, choice.logX);
    const y = scale(shown.map(result), HEIGHT - BOTTOM, TOP, choice.logY, true);
    const label = say("label", { number: choice.metric, n: shown.length, option: choice.option });
    const picture = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": label });
    for (const [at, name] of y.ticks) {
      picture.append(shape("line", { class: "lb-axis-line", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }), text(LEFT - 8, at + 4, name, { "text-anchor": "end" }));
    }
    for (const [at, name] of x.ticks) {
      picture.append(shape("line", { class: "lb-axis-line", x1: at, x2: at, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5 }), text(at, HEIGHT - BOTTOM + 18, name, { "text-anchor": "middle" }));
    }
    picture.append(text((LEFT + width) / 2, HEIGHT - 6, choice.option, { class: "lb-axis-name", "text-anchor": "middle" }));
    // The newest runs are drawn last, on top. Marks at one place stand side by side, as far as there is room.
    const taken = new Map();
    for (const run of shown.slice(0, MOST_MARKS).reverse()) {
      const place = [x.at(run.params[choice.option]), y.at(result(run))];
      const spot = place.map((one) => Math.round(one / 9)).join();
      const before = taken.get(spot) ?? 0;
      taken.set(spot, before + 1);
      const aside = Math.min(Math.ceil(before / 2), 6) * 9 * (before % 2 ? 1 : -1);
      const across = Math.max(LEFT + 5, Math.min(width - RIGHT - 5, place[0] + aside)), up = place[1];
      const broken = isBroken(run);
      const mark = broken ? shape("path", { class: "lb-point", d: `M${across - 4} ${up - 4}l8 8m0 -8l-8 8` }) : shape("circle", { class: "lb-point", cx: across, cy: up, r: 5 });
      mark.style[broken ? "stroke" : "fill"] = broken ? "var(--lb-bad)" : "var(--lb-run-1)";
      if (broken) mark.style.strokeWidth = "2";
      picture.append(linked(run, `${choice.option} ${run.params[choice.option]}, ${choice.metric} ${number(result(run))}`, mark));
    }
    const legend = element("p", { class: "lb-legend" }, dot("--lb-run-1", "●", say("finished")), dot("--lb-bad", "×", say("failed")));
    return [picture, legend, list.length - shown.length];
  }

  function dot(colour, sign, word) {
    const mark = element("b", { "aria-hidden": "true", text: `${sign} ` });
    mark.style.color = `var(${colour})`;
    return element("span", {}, mark, word);
  }

  function parallel(list) {
    const axes = options.slice(0, Math.max(1, Math.floor((width - 100) / 84)));
    const shown = list.filter((run) => Number.isFinite(result(run)) && axes.every((name) => name in run.params));
    const places = axes.map((_, n) => 50 + (n * (width - 110)) / Math.max(1, axes.length));
    const end = width - 60;
    const scales = axes.map((name) => {
      const values = shown.map((run) => run.params[name]);
      return scale(values, HEIGHT - BOTTOM, TOP + 12, wide(values));
    });
    const results = shown.map(result), y = scale(results, HEIGHT - BOTTOM, TOP + 12, choice.logY, true);
    const rising = shown.some((run) => run.metrics[choice.metric].rising);
    const sorted = [...results].sort((a, b) => (rising ? b - a : a - b));
    const picture = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": say("label_parallel", { n: shown.length, number: choice.metric }) });
    // The best lines are drawn last, on top; colour goes by place in the ranking, since values may be far apart.
    const marks = shown.slice(0, MOST_MARKS).map((run) => ({ run, rank: sorted.indexOf(result(run)) })).sort((a, b) => b.rank - a.rank);
    for (const { run, rank } of marks) {
      const points = [...axes.map((name, n) => `${places[n]},${scales[n].at(run.params[name])}`), `${end},${y.at(result(run))}`];
      const line = shape("path", { class: "lb-line", d: `M${points.join("L")}` });
      const good = 100 - Math.round((100 * rank) / Math.max(1, sorted.length - 1));
      line.style.stroke = `color-mix(in oklab, var(--lb-run-1) ${good}%, var(--lb-run-2))`;
      picture.append(linked(run, `${choice.metric} ${number(result(run))}`, line));
    }
    [...axes, choice.metric].forEach((name, n) => {
      const at = n < axes.length ? places[n] : end;
      picture.append(shape("line", { class: "lb-axis-line", x1: at, x2: at, y1: TOP + 8, y2: HEIGHT - BOTTOM + 4 }),
        text(at, HEIGHT - BOTTOM + 24, short(name), { class: "lb-axis-name", "text-anchor": "middle" }));
      for (const [tick, label] of (n < axes.length ? scales[n] : y).ticks) {
        picture.append(text(n < axes.length ? at - 6 : at + 6, tick + 4, label, { "text-anchor": n < axes.length ? "end" : "start" }));
      }
    });
    const legend = element("p", { class: "lb-legend" }, element("span", {}, `${choice.metric}: ${say("good")} `, element("span", { class: "lb-ramp", "aria-hidden": "true" }), ` ${say("bad")}`));
    return [picture, legend, list.length - shown.length];
  }

  const place = element("div", { class: "lb-explore__chart" });

  function draw() {
    width = Math.max(280, mount.clientWidth);
    const [picture, legend, left] = choice.view === "scatter" ? scatter(runs) : parallel(runs);
    place.replaceChildren(picture, legend, ...(left ? [element("p", { class: "lb-note-line", text: say("left_out", { n: left }) })] : []));
    for (const part of controls.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== choice.view;
  }

  function select(key, label, list, after = () => {}) {
    const made = element("select", { class: "lb-input", "aria-label": label, onchange: () => { choice[key] = made.value; after(); draw(); } },
      ...list.map(([value, name]) => element("option", { value, text: name })));
    made.value = choice[key];
    return made;
  }

  function check(key, label, view) {
    const box = element("input", { type: "checkbox", onchange: () => { choice[key] = box.checked; draw(); } });
    const made = element("label", { class: "lb-check", ...(view ? { "data-view": view } : {}) }, box, element("span", { text: label }));
    return [made, () => { box.checked = choice[key]; }];
  }

  const suggestX = () => { choice.logX = wide(runs.flatMap((run) => run.params[choice.option] ?? [])); };
  const suggestY = () => { choice.logY = wide(runs.map(result).filter(Number.isFinite).map(String)); };
  let controls = null;

  function start() {
    const seen = new Map();
    for (const run of runs) for (const [name, value] of Object.entries(run.params)) seen.set(name, (seen.get(name) ?? new Set()).add(value));
    options = [...seen].filter(([name, values]) => values.size > 1 && name !== "seed").sort((a, b) => Number([...b[1]].every(isNumber)) - Number([...a[1]].every(isNumber)) || b[1].size - a[1].size).map(([name]) => name);
    const counts = new Map();
    for (const run of runs) for (const [name, value] of Object.entries(run.metrics)) if (Number.isFinite(value.best ?? value.last)) counts.set(name, (counts.get(name) ?? 0) + 1);
    metrics = [...counts].filter(([, n]) => n > 1).sort((a, b) => b[1] - a[1]).map(([name]) => name);
    if (!options.length || !metrics.length) return;
    [choice.option] = options;
    [choice.metric] = metrics;
    suggestX();
    suggestY();
    const [logX, showX] = check("logX", say("log_x"), "scatter");
    const [logY, showY] = check("logY", say("log_y"));
    const both = () => { showX(); showY(); };
    both();
    const option = select("option", say("option"), options.map((name) => [name, name]), () => { suggestX(); both(); });
    option.dataset.view = "scatter";
    controls = element("div", { class: "lb-tools" },
      select("view", say("title"), options.length > 1 ? [["scatter", say("scatter")], ["parallel", say("parallel")]] : [["scatter", say("scatter")]]),
      option,
      select("metric", say("number"), metrics.map((name) => [name, name]), () => { suggestY(); both(); }),
      select("what", say("best"), [["best", say("best")], ["last", say("last")]], () => { suggestY(); both(); }), logX, logY);
    mount.append(controls, place);
    draw();
    new ResizeObserver(() => { if (Math.abs(mount.clientWidth - width) > 20) draw(); }).observe(mount);
  }

  window.labbook.json(`${site.base}data/experiments/${encodeURIComponent(mount.dataset.name)}.json`)
    .then((columns) => { runs = window.labbook.runs(columns); start(); })
    .catch((error) => { mount.append(element("p", { class: "lb-note-line", text: error.message })); });
})();
