/* What the pages with data have in common: words, addresses, runs out of columns, numbers as people read them. */
"use strict";

window.labbook ??= (() => {
  /* The words of a page stand in its HTML, so that scripts hold no language. */
  function words(mount) {
    const said = JSON.parse(mount.dataset.words);
    return (key, values) => {
      const text = String(said[key] ?? key);
      return values ? fill(text, values) : text;
    };
  }

  /* `{n:run|runs}` is the first word where n is 1, else the second. */
  function fill(text, values) {
    return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (all, name, one, many) => {
      if (!(name in values)) return all;
      return many === undefined ? String(values[name]) : String(values[name]) === "1" ? one : many;
    });
  }

  /* Where the site begins, and how its pages end, are read from a link that the generator made: `../index.html`, or `../`
     on sites with one folder a page. */
  function site(mount) {
    const home = mount.querySelector(".lb-home-link a").href;
    const flat = home.endsWith("index.html");
    const base = new URL(flat ? "." : "./", home).href;
    const page = (path) => base + path.split("/").map(encodeURIComponent).join("/") + (flat ? ".html" : "/");
    return {
      base,
      entry: (run) => page(run.at ?? usual(run.id)),
      section: (path) => base + path + (flat ? "index.html" : ""),
    };
  }

  function usual(id) {
    return `runs/${id.slice(0, 4)}/${id.slice(4, 6)}/${id.slice(6, 8)}/${id}`;
  }

  /* Pages that were opened from a disk may not read files beside them. */
  const offline = () => location.protocol === "file:";

  async function json(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status} ${url.split("/").pop()}`);
    return answer.json();
  }

  const NOT_FINITE = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  const measured = (value) => (typeof value === "string" ? (NOT_FINITE[value] ?? null) : (value ?? null));

  /* A file of columns as a list of runs. */
  function runs(columns) {
    const list = columns.id.map((id, n) => ({
      id,
      title: columns.title[n],
      started: columns.started[n],
      duration: columns.duration[n],
      at: columns.at[n],
      fixed: false,
      bare: false,
      metrics: Object.create(null),
      params: Object.create(null),
    }));
    for (const [name, column] of Object.entries(columns.texts)) {
      column.i.forEach((number, n) => { list[n][name] = column.t[number]; });
    }
    for (const [name, column] of Object.entries(columns.lists)) {
      column.i.forEach((numbers, n) => { list[n][name] = numbers.map((number) => column.t[number]); });
    }
    for (const n of columns.fixed) list[n].fixed = true;
    for (const n of columns.bare) list[n].bare = true;
    for (const [name, column] of Object.entries(columns.metrics)) {
      column.last.forEach((last, k) => {
        const run = list[column.r ? column.r[k] : k];
        run.metrics[name] = { last: measured(last), best: measured(column.best[k]), rising: columns.rising.includes(name) };
      });
    }
    for (const [name, column] of Object.entries(columns.params)) {
      column.i.forEach((number, k) => { list[column.r ? column.r[k] : k].params[name] = column.t[number]; });
    }
    return list;
  }

  /* Four significant digits, as everywhere else in the notebook. */
  function number(value, digits = 4) {
    if (value === null || value === undefined) return "";
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
    if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const power = Number(exponent);
    if (power >= -4 && power < digits) return String(Number(value.toPrecision(digits)));
    const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
    return `${short}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 0.9995) return `${Number((seconds * 1000).toPrecision(3))} ms`;
    if (seconds < 9.95) return `${Number(seconds.toPrecision(2))} s`;
    const whole = Math.round(seconds);
    if (whole < 100) return `${whole} s`;
    const of = (value, unit, rest, small) => (rest ? `${value} ${unit} ${rest} ${small}` : `${value} ${unit}`);
    if (whole < 3600) return of(Math.floor(whole / 60), "min", whole % 60, "s");
    const minutes = Math.round(seconds / 60);
    if (minutes < 48 * 60) return of(Math.floor(minutes / 60), "h", minutes % 60, "min");
    const hours = Math.round(seconds / 3600);
    return of(Math.floor(hours / 24), "d", hours % 24, "h");
  }

  const two = (value) => String(value).padStart(2, "0");

  function day(seconds) {
    const when = new Date(seconds * 1000);
    return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  }

  function moment(seconds) {
    if (!seconds) return "";
    const when = new Date(seconds * 1000);
    return `${day(seconds)} ${two(when.getHours())}:${two(when.getMinutes())}`;
  }

  /* An element; text is only ever text. */
  function element(tag, settings = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(settings)) {
      if (name === "class") made.className = value;
      else if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  /* Sentences of the words file mark code by backticks. */
  function sentence(tag, className, text) {
    const made = element(tag, { class: className });
    text.split("`").forEach((part, n) => made.append(n % 2 ? element("code", { text: part }) : part));
    return made;
  }

  function pill(status, word) {
    const known = /^[a-z]+$/.test(status) ? ` lb-${status}` : "";
    return element("span", { class: `lb-status${known}`, text: word });
  }

  /* Verdict and status of a run; a failed run has its verdict in its status. */
  function pills(run, say) {
    const judged = ["finished", "interrupted", "lost"].includes(run.status) && run.verdict;
    return [...(judged ? [pill(run.verdict, say(`verdict_${run.verdict}`))] : []), pill(run.status, say(`status_${run.status}`))];
  }

  const order = new Intl.Collator(document.documentElement.lang || "en", { numeric: true, sensitivity: "base" });

  /* Numbers by size, everything else by the alphabet. */
  function compared(one, other) {
    const a = Number(one), b = Number(other);
    return one !== "" && other !== "" && !Number.isNaN(a) && !Number.isNaN(b) ? a - b : order.compare(one, other);
  }

  return { words, fill, site, offline, json, runs, number, duration, day, moment, element, sentence, pill, pills, compared, order };
})();
