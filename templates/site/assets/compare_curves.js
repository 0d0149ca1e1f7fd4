/* The curves of several runs: a diagram for each metric, a line for each run, one legend and one zoom for all. */
"use strict";

(() => {
  const { element, number } = window.labbook;
  const WHOLE = Array.from({ length: 40 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3)); // between steps on an axis
  const FIRST = 6, HEIGHT = 220;
  const LAST = ["step_time_s", "grad_scale"];

  /* One run that explodes must not press all others flat. */
  function spread(curves) {
    const values = curves.flatMap(({ y }) => y).filter((value) => value !== null);
    const least = Math.min(...values);
    return least > 0 && Math.max(...values) / least > 1e4;
  }

  window.labbook.curvesOf = (runs, mount, say, swatch) => {
    const count = (one) => runs.filter((run) => run.data.curves[one]).length;
    const place = (one) => LAST.indexOf(one);
    const all = [...new Set(runs.flatMap((run) => Object.keys(run.data.curves ?? {})))].sort((a, b) => place(a) - place(b) || count(b) - count(a));
    if (!all.length || !window.uPlot) return { element: element("p", { class: "lb-note-line", text: say("no_curves") }), start() {}, destroy() {} };
    const log = element("input", { type: "checkbox", onchange: () => drawAll() });
    const grid = element("div", { class: "lb-plots" });
    const shown = [];
    let zooming = false;

    /* What counts steps and what counts epochs is not zoomed together. */
    const end = (one) => Math.max(1, ...one.held.map(({ curve }) => curve.x.at(-1)));
    const alike = (one, other) => Math.max(end(one), end(other)) <= 3 * Math.min(end(one), end(other));

    function zoom(one, plot) {
      if (zooming) return;
      zooming = true;
      const { min, max } = plot.scales.x;
      for (const other of shown) if (other !== one && other.chart && alike(one, other)) other.chart.setScale("x", { min, max });
      zooming = false;
    }

    function draw(one) {
      one.chart?.destroy();
      one.chart = null;
      const { held, metric } = one;
      const powers = log.checked || spread(held.map(({ curve }) => curve));
      const steps = [...new Set(held.flatMap(({ curve }) => curve.x))].sort((a, b) => a - b);
      const at = new Map(steps.map((step, n) => [step, n]));
      const series = held.map(({ curve }) => {
        // Steps that only other runs have are no gap in this one; a value that is not finite is.
        const line = new Array(steps.length).fill(undefined);
        curve.x.forEach((step, n) => { line[at.get(step)] = curve.y[n] === null || (powers && curve.y[n] <= 0) ? null : curve.y[n]; });
        return line;
      });
      const style = getComputedStyle(mount);
      const paint = (variable) => style.getPropertyValue(variable).trim();
      const axis = { stroke: paint("--lb-quiet"), grid: { stroke: paint("--lb-line"), width: 1 }, ticks: { show: false } };
      const tell = (plot) => {
        const index = plot.cursor.idx;
        one.value.replaceChildren();
        if (index === null || index === undefined) return;
        one.value.append(`${say("step")} ${number(steps[index])}: `);
        held.forEach(({ n }, k) => {
          const value = series[k][index];
          if (value !== null && value !== undefined) one.value.append(element("span", { class: "lb-plot__one" }, swatch(n), number(value)));
        });
      };
      one.plot.setAttribute("aria-label", say("curve_label", { name: metric, n: held.length }));
      zooming = true;
      one.chart = new window.uPlot({
        width: Math.max(200, one.plot.clientWidth), height: HEIGHT, legend: { show: false },
        scales: { x: { time: false }, y: { distr: powers ? 3 : 1 } },
        axes: [{ ...axis, size: 28, incrs: steps.every(Number.isInteger) ? WHOLE : undefined }, { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) }],
        series: [{}, ...held.map(({ n }) => ({
          stroke: paint(`--lb-run-${(n % 10) + 1}`), width: 1.5, dash: n >= 10 ? [6, 4] : undefined, points: { show: steps.length < 40 },
        }))],
        cursor: { drag: { x: true, y: false } },
        hooks: { setCursor: [tell], setScale: [(plot, key) => key === "x" && zoom(one, plot)] },
      }, [steps, ...series], one.plot);
      setTimeout(() => { zooming = false; });
    }

    const drawAll = () => shown.forEach(draw);

    function add(metric) {
      const held = runs.map((run, n) => ({ n, curve: run.data.curves[metric] })).filter(({ curve }) => curve);
      const one = { metric, held, plot: element("div", { class: "lb-plot", role: "img" }), value: element("span", { class: "lb-plot__value" }), chart: null };
      grid.append(element("figure", {}, element("figcaption", {}, element("b", { text: metric }), one.value), one.plot));
      shown.push(one);
      draw(one);
    }

    const legend = element("p", { class: "lb-legend" }, ...runs.map((run, n) => element("span", {}, swatch(n), run.name)));
    const more = element("button", {
      type: "button", class: "lb-input", hidden: all.length <= FIRST, text: say("more", { n: all.length - FIRST }),
      onclick: () => { more.remove(); all.slice(FIRST).forEach(add); },
    });
    const resized = new ResizeObserver(() => shown.forEach(({ chart, plot }) => chart?.setSize({ width: Math.max(200, plot.clientWidth), height: HEIGHT })));
    // The colours of the lines are those of the scheme that is shown.
    const repainted = new MutationObserver(() => { if (grid.isConnected) drawAll(); });
    return {
      element: element("div", {}, element("div", { class: "lb-tools" }, element("label", { class: "lb-check" }, log, element("span", { text: say("log") })),
        element("span", { class: "lb-quiet", text: say("zoom") })), legend, grid, more),
      start: () => {
        all.slice(0, FIRST).forEach(add);
        resized.observe(grid);
        repainted.observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
      },
      destroy: () => {
        resized.disconnect();
        repainted.disconnect();
        shown.forEach(({ chart }) => chart?.destroy());
      },
    };
  };
})();
