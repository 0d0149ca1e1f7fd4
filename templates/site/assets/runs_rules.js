/* What a run has: its words, order, cells of CSV. Whether it is asked for is in query.js. Shows nothing itself. */
"use strict";

/* `known` is filled by the table: {runs, titles, metrics, params}. */
window.labbook.questions = (known, say) => {
  const { compared, moment, number } = window.labbook;

  function text(run) {
    run.text ??= [run.title, run.id, run.experiment, run.script, run.author, run.host, run.status, say(`status_${run.status}`), run.verdict, say(`verdict_${run.verdict}`), moment(run.started),
      ...run.tags, ...run.frameworks, ...run.symptoms, ...run.symptoms.map((name) => known.titles[name] ?? ""),
      ...Object.entries(run.params).map(([name, value]) => `${name}=${value}`)].join("\n").toLowerCase();
    return run.text;
  }

  /* Done while nobody waits, so that the first letter typed is as quick as the others. */
  function prepare(idle) {
    let n = 0;
    while (n < known.runs.length && (known.runs[n].text !== undefined || idle.timeRemaining() > 1)) {
      text(known.runs[n]);
      n += 1;
    }
    if (n < known.runs.length) window.requestIdleCallback?.(prepare);
  }

  const { parse } = window.labbook.query(known, say, text);

  function sortable(key) {
    const [kind, ...rest] = key.split(":");
    const name = rest.join(":");
    if (kind === "last" || kind === "best") return (run) => run.metrics[name]?.[kind] ?? null;
    if (kind === "param") return (run) => run.params[name] ?? null;
    if (key === "symptoms") return (run) => (run.symptoms.length ? (known.titles[run.symptoms[0]] ?? run.symptoms[0]) : null);
    if (key === "tags" || key === "frameworks") return (run) => run[key].join(" ") || null;
    if (key === "fixed") return (run) => (run.fixed ? 1 : 0);
    return (run) => (run[key] === "" ? null : (run[key] ?? null));
  }

  /* Runs without a value come last, whichever way the others stand. Texts are ranked once: comparing them is slow. */
  function ordered(list, sort, down) {
    if (sort === "started" && down) return list; // as they were put at loading
    const value = sortable(sort), way = down ? -1 : 1;
    const keyed = list.map((run, n) => ({ run, n, key: value(run) }));
    const valued = keyed.filter(({ key }) => key !== null && !Number.isNaN(key));
    if (valued.some(({ key }) => typeof key === "string")) {
      const texts = [...new Set(valued.map(({ key }) => String(key)))];
      // The alphabet of a language is slow for thousands of titles; that of character codes is not.
      texts.sort(texts.length < 2000 ? compared : undefined);
      const rank = new Map(texts.map((key, n) => [key, n]));
      for (const one of valued) one.key = rank.get(String(one.key));
    }
    valued.sort((a, b) => way * (a.key - b.key) || a.n - b.n);
    const rest = keyed.filter(({ key }) => key === null || Number.isNaN(key));
    return [...valued, ...rest].map(({ run }) => run);
  }

  /* No program that opens it may take a cell for a formula. */
  function csvCell(value) {
    let cell = String(value ?? "").replace(/[\u0000-\u001f\u007f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, " ");
    if (/^[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(cell) && (cell.trim() === "" || Number.isNaN(Number(cell)))) cell = `'${cell}`;
    return /[",;\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  }

  function csvOf(keys, runs) {
    const value = (run, key) => {
      const got = sortable(key)(run);
      if (key === "started") return run.started ? new Date(run.started * 1000).toISOString() : "";
      if (key === "symptoms") return run.symptoms.join(" ");
      return typeof got === "number" && !Number.isFinite(got) ? number(got) : got;
    };
    const lines = [["id", ...keys.map((key) => key.replace(/^(last|param):/, ""))], ...runs.map((run) => [run.id, ...keys.map((key) => value(run, key))])];
    return lines.map((line) => line.map(csvCell).join(",")).join("\r\n");
  }

  return { parse, prepare, sortable, ordered, csvOf };
};
