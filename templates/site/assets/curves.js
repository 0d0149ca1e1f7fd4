// The curves of a run, from the metrics.csv beside its entry: zoom, pan, log scale, smoothing. The picture in the entry
// stays for readers without scripts, and for paper. The library is loaded on pages that have curves only.
"use strict";

(() => {
  const here = document.currentScript;
  const picture = document.querySelector('.md-content img[src$="curves.svg"]');
  const source = document.querySelector('.md-content a[href$="metrics.csv"]');
  if (!picture || !source || location.protocol === "file:") return;

  const said = JSON.parse(here.dataset.words);
  const library = new URL(here.dataset.library, document.baseURI);
  const ORDER = ["loss", "", "grad_norm", "lr", "update_ratio"]; // "" are the metrics of the program
  const LEFT_OUT = new Set(["step_time_s", "grad_scale"]);
  const PART = /(^|[/_.\- ])(?:train|training|val|valid|validation|eval|test|dev)(?=$|[/_.\- ])[/_.\- ]?/gi;
  const MOST_PANELS = 8;
  const MOST_LINES = 8;
  const WHOLE = Array.from({ length: 40 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3)); // between steps on an axis
  const HEIGHT = 190;

  const made = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // -- Data -----------------------------------------------------------------------------------------------------------

  /** Rows of a CSV file; fields in quotes may hold commas, quotes and line ends. */
  const rowsOf = (text) => {
    const rows = [];
    let row = [];
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
      row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      if (end !== ",") {
        if (row.length > 1) rows.push(row);
        row = [];
      }
    }
    return rows;
  };

  const number = (text) => {
    if (text === undefined || text === "") return null;
    const value = Number(text);
    return Number.isFinite(value) ? value : null;
  };

  /** Lines by the quantity that they show, as the picture has them: losses first. */
  const panelsOf = (text) => {
    const [head, ...rows] = rowsOf(text);
    const at = Object.fromEntries(head.map((name, index) => [name, index]));
    const lines = new Map();
    for (const row of rows) {
      const name = row[at.series];
      if (LEFT_OUT.has(name)) continue;
      const rank = row[at.rank];
      const label = rank ? `${name} (${rank})` : name;
      const key = `${label}\n${row[at.source]}`;
      if (!lines.has(key)) lines.set(key, { name, label, steps: [], values: [], low: [], high: [], lost: null });
      const line = lines.get(key);
      const step = number(row[at.step]);
      if (step === null) continue;
      const value = number(row[at.value]);
      if (value === null && line.lost === null) line.lost = step;
      line.steps.push(step);
      line.values.push(value);
      line.low.push(number(row[at.low]));
      line.high.push(number(row[at.high]));
    }
    const panels = new Map();
    for (const line of lines.values()) {
      if (line.steps.length < 2) continue;
      const quantity = line.name.replace(PART, "$1").replace(/^[/_.\- ]+|[/_.\- ]+$/g, "") || line.name;
      // An epoch is no step: what was measured on another scale has a panel of its own.
      const last = (one) => Math.max(1, one.steps[one.steps.length - 1]);
      const apart = ([other]) => Math.max(last(other), last(line)) > 3 * Math.min(last(other), last(line));
      let key = quantity;
      while (panels.has(key) && apart(panels.get(key))) key += " ";
      panels.set(key, [...(panels.get(key) || []), line]);
    }
    const order = (key) => ORDER.indexOf(ORDER.includes(key.trim()) ? key.trim() : "");
    return [...panels].sort((a, b) => order(a[0]) - order(b[0])).map(([key, held]) => ({ key: key.trim(), lines: held }));
  };

  /** Exponential mean without the pull of its start; gaps stay gaps. */
  const smoothed = (values, weight) => {
    let mean = 0;
    let share = 0;
    return values.map((value) => {
      if (value === null || value === undefined) return value;
      mean = weight * mean + (1 - weight) * value;
      share = weight * share + (1 - weight);
      return mean / share;
    });
  };

  // -- Look -----------------------------------------------------------------------------------------------------------

  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim() || "#888";
  const colour = (index) => css(`--lb-curve-${index % MOST_LINES}`);

  const short = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  };

  // -- Panels ---------------------------------------------------------------------------------------------------------

  const settings = { log: false, weight: 0 };
  const drawn = [];

  const aligned = (lines) => {
    const tables = lines.map((line) => [line.steps, line.values, line.low, line.high]);
    return window.uPlot.join(tables);
  };

  /** Raw line, its band from lowest to highest, and its smoothed line, for each line of a panel. */
  const plotted = (panel) => {
    const lines = panel.lines.slice(0, MOST_LINES);
    const [steps, ...columns] = aligned(lines);
    const positive = columns.some((column) => column.some((value) => value > 0));
    const log = settings.log && positive;
    const shown = (column) => (log ? column.map((value) => (value > 0 ? value : null)) : column);
    const data = [steps];
    const series = [{}];
    const bands = [];
    lines.forEach((line, index) => {
      const [values, low, high] = columns.slice(3 * index, 3 * index + 3).map(shown);
      const faint = settings.weight > 0;
      const common = { spanGaps: true, points: { show: steps.length < 40 } };
      const at = data.length;
      data.push(high, low, values, faint ? smoothed(values, settings.weight) : values.map(() => null));
      series.push(
        { ...common, points: { show: false }, stroke: "transparent" },
        { ...common, points: { show: false }, stroke: "transparent" },
        { ...common, spanGaps: false, label: line.label, width: faint ? 1 : 1.6, alpha: faint ? 0.35 : 1, stroke: () => colour(index) },
        { ...common, points: { show: false }, width: 2, stroke: () => colour(index) },
      );
      bands.push({ series: [at, at + 1], fill: () => `color-mix(in srgb, ${colour(index)} 16%, transparent)` });
    });
    return { data, series, bands, log, lines };
  };

  /** A dashed line where a series first was not a number. */
  const markLost = (lines) => (plot) => {
    const { ctx, bbox } = plot;
    for (const line of lines) {
      if (line.lost === null) continue;
      const x = plot.valToPos(line.lost, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.save();
      ctx.strokeStyle = css("--lb-bad");
      ctx.fillStyle = css("--lb-bad");
      ctx.setLineDash([4, 4]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.font = `${11 * devicePixelRatio}px system-ui`;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.fillText("NaN", x + 4, bbox.top + 12 * devicePixelRatio);
      ctx.restore();
    }
  };

  const axis = (size) => ({
    size,
    stroke: () => css("--lb-quiet"),
    grid: { stroke: () => css("--lb-line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  });

  const draw = (panel, place) => {
    const { data, series, bands, log, lines } = plotted(panel);
    const lost = (line, number, at) =>
      data[4 * number + 3][at] === null && line.lost !== null && data[0][at] >= line.lost ? "NaN" : short(data[4 * number + 3][at]);
    const tell = (index) => {
      const last = data[0].length - 1;
      const at = index === null || index === undefined ? last : index;
      const parts = lines.map((line, number) => `${lines.length > 1 ? `${line.label} ` : ""}${lost(line, number, at)}`);
      place.value.textContent = `${said.step} ${short(data[0][at])}: ${parts.join(" · ")}`;
    };
    const options = {
      width: place.plot.clientWidth || 600,
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: false }, y: log ? { distr: 3 } : {} },
      axes: [{ ...axis(28), incrs: data[0].every(Number.isInteger) ? WHOLE : undefined }, { ...axis(58), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      series,
      bands,
      cursor: { drag: { x: true, y: false, dist: 4 }, points: { size: 6 } },
      hooks: { draw: [markLost(lines)], setCursor: [(plot) => tell(plot.cursor.idx)] },
    };
    const plot = new window.uPlot(options, data, place.plot);
    tell(null);
    return plot;
  };

  /** Shows the steps from `from` to `to`, inside of what there is. */
  const look = (plot, from, to) => {
    const steps = plot.data[0];
    const [first, last] = [steps[0], steps[steps.length - 1]];
    const width = Math.min(to - from, last - first);
    const start = Math.max(first, Math.min(from, last - width));
    plot.setScale("x", { min: start, max: start + width });
  };

  const whole = (plot) => look(plot, plot.data[0][0], plot.data[0][plot.data[0].length - 1]);

  const onKey = (entry) => (event) => {
    const { plot } = entry;
    const { min, max } = plot.scales.x;
    const width = max - min;
    const moves = {
      ArrowLeft: () => look(plot, min - width / 5, max - width / 5),
      ArrowRight: () => look(plot, min + width / 5, max + width / 5),
      "+": () => look(plot, min + width / 4, max - width / 4),
      "=": () => look(plot, min + width / 4, max - width / 4),
      "-": () => look(plot, min - width / 2, max + width / 2),
      0: () => whole(plot),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  };

  /** With Shift, or the middle button, dragging moves what is shown. */
  const onDown = (entry) => (event) => {
    if (!event.shiftKey && event.button !== 1) return;
    event.preventDefault();
    event.stopPropagation();
    const { plot } = entry;
    const { min, max } = plot.scales.x;
    const perPixel = (max - min) / plot.over.clientWidth;
    const move = (moved) => look(plot, min - (moved.clientX - event.clientX) * perPixel, max - (moved.clientX - event.clientX) * perPixel);
    const end = () => {
      document.removeEventListener("pointermove", move);
      document.removeEventListener("pointerup", end);
    };
    document.addEventListener("pointermove", move);
    document.addEventListener("pointerup", end);
  };

  const addPanel = (panel, block) => {
    const figure = made("figure", "lb-curve");
    const caption = made("figcaption");
    const place = { plot: made("div", "lb-curve__plot"), value: made("span", "lb-curve__value") };
    caption.append(made("b", "", panel.lines.length > 1 ? panel.key : panel.lines[0].label), place.value);
    place.plot.tabIndex = 0;
    place.plot.setAttribute("role", "application");
    place.plot.setAttribute("aria-label", `${panel.key}. ${said.hint}`);
    figure.append(caption);
    if (panel.lines.length > 1) {
      const names = made("p", "lb-curve__names");
      panel.lines.slice(0, MOST_LINES).forEach((line, index) => {
        const name = made("span", "", line.label);
        const dot = made("i");
        dot.style.background = `var(--lb-curve-${index})`;
        name.prepend(dot);
        names.append(name);
      });
      figure.append(names);
    }
    figure.append(place.plot);
    block.append(figure);
    const entry = { panel, place, plot: draw(panel, place) };
    place.plot.addEventListener("keydown", onKey(entry));
    place.plot.addEventListener("mousedown", onDown(entry), true);
    drawn.push(entry);
  };

  const again = () => {
    for (const entry of drawn) {
      const { min, max } = entry.plot.scales.x;
      entry.plot.destroy();
      entry.plot = draw(entry.panel, entry.place);
      entry.plot.setScale("x", { min, max });
    }
  };

  const controls = (block) => {
    const bar = made("div", "lb-curves__bar");
    const log = made("input");
    log.type = "checkbox";
    log.addEventListener("change", () => {
      settings.log = log.checked;
      again();
    });
    const smooth = made("input");
    Object.assign(smooth, { type: "range", min: "0", max: "0.98", step: "0.02", value: "0" });
    smooth.addEventListener("input", () => {
      settings.weight = Number(smooth.value);
      again();
    });
    const reset = made("button", "lb-curves__reset", said.reset);
    reset.type = "button";
    reset.addEventListener("click", () => drawn.forEach(({ plot }) => whole(plot)));
    const logLabel = made("label", "", said.log);
    logLabel.prepend(log);
    const smoothLabel = made("label", "", said.smooth);
    smoothLabel.append(smooth);
    bar.append(logLabel, smoothLabel, reset, made("small", "", said.hint));
    block.append(bar);
  };

  const loaded = (tag, attributes) =>
    new Promise((resolve, reject) => {
      const element = document.createElement(tag);
      Object.assign(element, attributes);
      element.addEventListener("load", resolve);
      element.addEventListener("error", reject);
      document.head.append(element);
    });

  const start = async () => {
    const [text] = await Promise.all([
      fetch(source.href).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(String(answer.status))))),
      loaded("script", { src: new URL("uPlot.iife.min.js", library).href }),
      loaded("link", { rel: "stylesheet", href: new URL("uPlot.min.css", library).href }),
    ]);
    const panels = panelsOf(text);
    if (!panels.length) return;
    const block = made("div", "lb-curves");
    controls(block);
    // The picture leaves the screen only once the curves stand.
    (picture.closest("p") || picture).before(block);
    panels.slice(0, MOST_PANELS).forEach((panel) => addPanel(panel, block));
    if (panels.length > MOST_PANELS) {
      const more = made("button", "lb-curves__reset", said.more.replace("{n}", String(panels.length - MOST_PANELS)));
      more.type = "button";
      more.addEventListener("click", () => {
        more.remove();
        panels.slice(MOST_PANELS).forEach((panel) => addPanel(panel, block));
      });
      block.append(more);
    }
    (picture.closest("p") || picture).classList.add("lb-drawn");
    let width = block.clientWidth;
    new ResizeObserver(() => {
      if (block.clientWidth === width) return;
      width = block.clientWidth;
      for (const { plot, place } of drawn) plot.setSize({ width: place.plot.clientWidth, height: HEIGHT });
    }).observe(block);
    // Light and dark: colours are asked for again.
    new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  };

  const soon = () => start().catch((error) => console.warn("curves:", error));
  // Nothing is loaded for curves that nobody scrolls to.
  new IntersectionObserver((seen, observer) => {
    if (seen.some((one) => one.isIntersecting)) {
      observer.disconnect();
      soon();
    }
  }, { rootMargin: "600px" }).observe(picture);
})();
