/* The rows of the table: pinned runs first, then groups with a heading each. Shows nothing itself. */
"use strict";

window.labbook.runGroups = (known, say) => {
  const { day, number, compared } = window.labbook;
  const KEYS = ["experiment", "project", "script", "author", "host", "tags", "verdict", "status", "symptoms"];
  const MOST_OPTIONS = 12;
  const PINS = `labbook-pins:${location.pathname}`;
  const closed = new Set();

  /* Keys by which the runs differ. */
  function keys() {
    const several = (values) => new Set(values.filter((value) => value !== "" && value !== undefined)).size > 1;
    const options = known.params.filter((name) => several(known.runs.map((run) => run.params[name]))).slice(0, MOST_OPTIONS);
    return [...KEYS.filter((key) => several(known.runs.flatMap((run) => run[key]))), "day", ...options.map((name) => `param:${name}`)];
  }

  function values(run, key) {
    if (key === "day") return [run.started ? day(run.started) : ""];
    if (key.startsWith("param:")) return [run.params[key.slice(6)] ?? ""];
    const found = run[key];
    return Array.isArray(found) ? (found.length ? found : [""]) : [found ?? ""];
  }

  const word = (key, value) => (value === "" ? say("no_value") : key === "symptoms" ? (known.titles[value] ?? value)
    : key === "verdict" || key === "status" ? say(`${key}_${value}`) : value);

  const fit = (run) => run.status !== "failed" && run.status !== "killed" && run.verdict !== "unhealthy";

  /* The best value of the most frequent main metric; failed and unhealthy runs do not count. */
  function best(runs) {
    const counts = new Map();
    for (const run of runs) if (run.metric && fit(run) && Number.isFinite(run.metrics[run.metric]?.best)) counts.set(run.metric, (counts.get(run.metric) ?? 0) + 1);
    const [name] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? [];
    if (!name) return "";
    const measured = runs.filter((run) => run.metric === name && fit(run)).map((run) => run.metrics[name]).filter((one) => Number.isFinite(one?.best));
    const found = measured.map((one) => one.best);
    return say("group_best", { name, value: number(measured[0].rising ? Math.max(...found) : Math.min(...found)) });
  }

  function heading(key, value, runs) {
    const id = `${key}\n${value}`;
    const failed = runs.filter((run) => run.status === "failed" || run.status === "killed").length;
    const facts = [say(runs.length === 1 ? "group_run" : "group_runs", { n: runs.length }), failed ? `${failed} ${say("status_failed")}` : "", best(runs)];
    return { group: id, closed: closed.has(id), name: word(key, value), facts: facts.filter(Boolean).join(" · ") };
  }

  /* `runs` in their order; groups stand as their first run does, those by an option as its values. */
  function rows(runs, key, pins) {
    const pinned = pins.map((id) => runs.find((run) => run.id === id)).filter(Boolean);
    const rest = pinned.length ? runs.filter((run) => !pins.includes(run.id)) : runs;
    if (!key) return [...pinned, ...rest];
    const groups = new Map();
    for (const run of rest) {
      for (const value of values(run, key)) groups.set(value, [...(groups.get(value) ?? []), run]);
    }
    const sorted = [...groups];
    if (key.startsWith("param:")) sorted.sort(([a], [b]) => (a === "") - (b === "") || compared(a, b));
    return [...pinned, ...sorted.flatMap(([value, held]) => {
      const head = heading(key, value, held);
      return head.closed ? [head] : [head, ...held];
    })];
  }

  const toggle = (id) => { if (!closed.delete(id)) closed.add(id); };

  /* Pins stand in the address, and are known again on the next visit. */
  function storedPins() {
    try {
      return JSON.parse(localStorage.getItem(PINS) ?? "[]").filter((id) => typeof id === "string");
    } catch {
      return [];
    }
  }

  function storePins(pins) {
    try {
      localStorage.setItem(PINS, JSON.stringify(pins));
    } catch {
      // Storage may be switched off; the address has them.
    }
  }

  return { keys, rows, toggle, storedPins, storePins };
};
