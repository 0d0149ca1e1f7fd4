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
  const MOST_PANELS = 8;
  const MOST_LINES = 8;
  const WHOLE = Array.from({ length: 40 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3)); // between steps on an axis
  const HEIGHT = 190;
  const FEWEST_SMOOTHED = 12;

  const made = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const { panelsOf, smoothed, timeAt, clock } = window.labbookCurves;
  const isTimed = (panel) => settings.time && panel.timed;

  // -- Look -----------------------------------------------------------------------------------------------------------

  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim() || "#888";
  const colour = (index) => css(`--lb-curve-${index % MOST_LINES}`);

  const short = (value) => {
    if (value === null || value === undefined) return "–";
    // As the table below: `report/numbers.py`.
    if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
    const [mantissa, exponent] = value.toExponential(3).split("e");
    const power = Number(exponent);
    if (power >= -4 && power < 4) return String(Number(value.toPrecision(4)));
    return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  };

  // -- Panels ---------------------------------------------------------------------------------------------------------

  const settings = { log: false, weight: 0, time: false };
  const drawn = [];

  const aligned = (panel, lines) => {
    const across = (line) => (isTimed(panel) ? line.steps.map(timeAt) : line.steps);
    return window.uPlot.join(lines.map((line) => [across(line), line.values, line.low, line.high]));
  };

  /** Raw line, its band from lowest to highest, and its smoothed line, for each line of a panel. */
  const plotted = (panel) => {
    const lines = panel.lines.slice(0, MOST_LINES);
    const [steps, ...columns] = aligned(panel, lines);
    const positive = columns.some((column) => column.some((value) => value > 0));
    const log = settings.log && positive;
    const shown = (column) => (log ? column.map((value) => (value > 0 ? value : null)) : column);
    const data = [steps];
    const series = [{}];
    const bands = [];
    lines.forEach((line, index) => {
      const [values, low, high] = columns.slice(3 * index, 3 * index + 3).map(shown);
      // A mean over three points says nothing.
      const faint = settings.weight > 0 && line.steps.length >= FEWEST_SMOOTHED;
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
  const markLost = (panel, lines) => (plot) => {
    const { ctx, bbox } = plot;
    for (const line of lines) {
      if (line.lost === null) continue;
      const x = plot.valToPos(isTimed(panel) ? timeAt(line.lost) : line.lost, "x", true);
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
      data[4 * number + 3][at] === null && line.lost !== null && data[0][at] >= (isTimed(panel) ? timeAt(line.lost) : line.lost) ? "NaN" : short(data[4 * number + 3][at]);
    const unit = panel.timed || clock.steps.length < 2 ? said.step : said.point; // a program may count its epochs
    const tell = (index) => {
      const last = data[0].length - 1;
      const at = index === null || index === undefined ? last : index;
      const parts = lines.map((line, number) => `${lines.length > 1 ? `${line.label} ` : ""}${lost(line, number, at)}`);
      const across = isTimed(panel) ? `${short(data[0][at])} s` : `${unit} ${short(data[0][at])}`;
      place.value.textContent = `${across}: ${parts.join(" · ")}`;
    };
    const options = {
      width: place.plot.clientWidth || 600,
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: false }, y: log ? { distr: 3 } : {} },
      axes: [{ ...axis(28), ...(isTimed(panel) ? { values: (_, ticks) => ticks.map((tick) => `${short(tick)} s`) } : { incrs: data[0].every(Number.isInteger) ? WHOLE : undefined }) }, { ...axis(58), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      series,
      bands,
      cursor: { drag: { x: true, y: false, dist: 4 }, points: { size: 6 } },
      hooks: {
        draw: [markLost(panel, lines)],
        setCursor: [(plot) => tell(plot.cursor.idx)],
        setScale: [(plot, key) => key === "x" && zoomTogether(panel, plot)],
      },
    };
    const plot = new window.uPlot(options, data, place.plot);
    tell(null);
    return plot;
  };

  let zooming = true; // until all panels stand

  /** Shows the same steps in all panels that count the same. */
  const zoomTogether = (panel, plot) => {
    if (zooming) return;
    zooming = true;
    const { min, max } = plot.scales.x;
    for (const other of drawn) {
      const alike = other.plot !== plot && other.panel.scale === panel.scale && isTimed(other.panel) === isTimed(panel);
      if (alike) other.plot.setScale("x", { min, max });
    }
    zooming = false;
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

  const again = (keepZoom = true) => {
    zooming = true;
    for (const entry of drawn) {
      const { min, max } = entry.plot.scales.x;
      entry.plot.destroy();
      entry.plot = draw(entry.panel, entry.place);
      if (keepZoom) entry.plot.setScale("x", { min, max });
    }
    settled();
  };

  /** Scales are set in a microtask; only then a change is one of the reader. */
  const settled = () => setTimeout(() => { zooming = false; });

  const controls = (block) => {
    const bar = made("div", "lb-curves__bar");
    const check = (key, text, keepZoom) => {
      const box = made("input");
      box.type = "checkbox";
      box.addEventListener("change", () => {
        settings[key] = box.checked;
        again(keepZoom);
      });
      const label = made("label", "", text);
      label.prepend(box);
      return label;
    };
    const smooth = made("input");
    Object.assign(smooth, { type: "range", min: "0", max: "0.98", step: "0.02", value: "0" });
    smooth.addEventListener("input", () => {
      settings.weight = Number(smooth.value);
      again();
    });
    const reset = made("button", "lb-curves__reset", said.reset);
    reset.type = "button";
    reset.addEventListener("click", () => drawn.forEach(({ plot }) => whole(plot)));
    const smoothLabel = made("label", "", said.smooth);
    smoothLabel.append(smooth);
    bar.append(check("log", said.log, true), ...(clock.steps.length > 1 ? [check("time", said.time, false)] : []), smoothLabel, reset, made("small", "", said.hint));
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
    const panels = panelsOf(text, here.dataset.metric);
    if (!panels.length) return;
    const block = made("div", "lb-curves");
    controls(block);
    // The picture leaves the screen only once the curves stand.
    (picture.closest("p") || picture).before(block);
    panels.slice(0, MOST_PANELS).forEach((panel) => addPanel(panel, block));
    settled();
    if (panels.length > MOST_PANELS) {
      const more = made("button", "lb-curves__reset", said.more.replace("{n}", String(panels.length - MOST_PANELS)));
      more.type = "button";
      more.addEventListener("click", () => {
        more.remove();
        zooming = true;
        panels.slice(MOST_PANELS).forEach((panel) => addPanel(panel, block));
        settled();
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
    new MutationObserver(() => again()).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
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
