// The metrics.csv of a run as panels of lines, and the time of its steps.
"use strict";

(() => {
  const ORDER = ["loss", "", "grad_norm", "lr", "update_ratio"]; // "" are the metrics of the program
  const LEFT_OUT = new Set(["step_time_s", "grad_scale"]);
  const PART = /(^|[/_.\- ])(?:train|training|val|valid|validation|eval|test|dev)(?=$|[/_.\- ])[/_.\- ]?/gi;

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

  /** Lines by the quantity that they show, as the picture has them: the main metric first, then losses. */
  const panelsOf = (text, metric) => {
    const [head, ...rows] = rowsOf(text);
    const at = Object.fromEntries(head.map((name, index) => [name, index]));
    const lines = new Map();
    for (const row of rows) {
      const name = row[at.series];
      if (name === "step_time_s") addTime(number(row[at.step]), number(row[at.value]));
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
    const order = ([key, held]) =>
      held.some((line) => line.name === metric) ? -1 : ORDER.indexOf(ORDER.includes(key.trim()) ? key.trim() : "");
    const scales = [];
    return [...panels].sort((a, b) => order(a) - order(b)).map(([key, held]) => {
      // Panels whose steps count the same are zoomed together; those of steps that were timed have an axis of time.
      const last = held[0].steps.at(-1);
      const apart = (one) => Math.max(one, last) > 3 * Math.max(1, Math.min(one, last));
      if (scales.every(apart)) scales.push(last);
      const timed = clock.steps.length > 1 && !apart(clock.steps.at(-1));
      return { key: key.trim(), lines: held, scale: scales.findIndex((one) => !apart(one)), timed };
    });
  };

  // -- Time -----------------------------------------------------------------------------------------------------------

  const clock = { steps: [], seconds: [] };

  /** A step time is the mean over the steps since the one before. */
  const addTime = (step, seconds) => {
    const before = clock.steps.at(-1) ?? 0;
    if (step === null || seconds === null || step <= before) return;
    clock.steps.push(step);
    clock.seconds.push((clock.seconds.at(-1) ?? 0) + seconds * (step - before));
  };

  /** Seconds of training until the end of a step. */
  const timeAt = (step) => {
    const next = clock.steps.findIndex((one) => one >= step);
    if (next < 0) return clock.seconds.at(-1);
    const [from, to] = [clock.steps[next - 1] ?? 0, clock.steps[next]];
    const start = clock.seconds[next - 1] ?? 0;
    return start + ((clock.seconds[next] - start) * (step - from)) / (to - from);
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

  window.labbookCurves = { panelsOf, smoothed, timeAt, clock };
})();
