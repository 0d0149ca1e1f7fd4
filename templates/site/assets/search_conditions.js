// Conditions and dates in the search, `status:failed lr<0.02 2026-11`: they are those of the table of runs (query.js), with
// its data, which are fetched when a question first has one.
"use strict";

window.labbookConditions = (() => {
  const here = document.currentScript.src;
  const LIKELY = /[:=<>]|--[A-Za-z]|\d{4}-[\dWw]|today|yesterday|今天|昨天/i;
  const FACETS = {
    framework: (run, value) => run.frameworks.some((name) => name.split(" ")[0] === value),
    symptom: (run, value) => run.symptoms.includes(value),
    status: (run, value) => run.status === value,
    experiment: (run, value) => run.experiment === value,
    author: (run, value) => run.author === value,
  };

  let loading = null;

  const script = (name) => new Promise((loaded, failed) => {
    const element = document.createElement("script");
    element.src = new URL(name, here).href;
    element.onload = loaded;
    element.onerror = () => failed(new Error(name));
    document.head.append(element);
  });

  const load = async (site, said) => {
    if (!window.labbook) await script("rows.js");
    if (!window.labbook.query) await script("query.js");
    const { json, runs } = window.labbook;
    const say = (key, values = {}) => window.labbook.fill(said[key], values);
    const index = await json(new URL("data/runs/index.json", site).href);
    const parts = await Promise.all(index.months.map(({ month, digest }) => json(new URL(`data/runs/${month}.json?${digest}`, site).href)));
    const list = parts.flatMap(runs).sort((a, b) => b.started - a.started);
    const names = (part) => [...new Set(list.flatMap((run) => Object.keys(run[part])))];
    const known = { runs: list, titles: index.symptoms, metrics: names("metrics"), params: names("params") };
    return { known, parse: window.labbook.query(known, say, () => "").parse };
  };

  /** The run of an address: its last part. */
  const idOf = (url) => url.split("#")[0].replace(/(?:\.html|\/)$/, "").split("/").pop();

  /** The runs that fit the conditions of a question, and its words; null without a condition. `chosen` is that of the menus. */
  const conditionsOf = async (question, chosen, site, said) => {
    if (!LIKELY.test(question) || /[\r\n]/.test(question.trim())) return null;
    loading ??= load(site, said);
    loading.catch(() => (loading = null));
    const { known, parse } = await loading;
    const { tests, problem, words } = parse(question, { search: true });
    if (!tests.length) return null;
    for (const [facet, [value]] of Object.entries(chosen)) tests.push((run) => FACETS[facet](run, value));
    const runs = known.runs.filter((run) => tests.every((test) => test(run)));
    const address = (run) => run.at ?? `runs/${run.id.slice(0, 4)}/${run.id.slice(4, 6)}/${run.id.slice(6, 8)}/${run.id}`;
    const card = (run, flat) => ({
      kind: "run", title: run.title, status: run.status, when: window.labbook.day(run.started),
      url: encodeURI(address(run)) + (flat ? ".html" : "/"), line: run.symptoms.map((name) => known.titles[name] ?? name).join(" · "),
    });
    return { runs, words, problem, cards: (most, flat) => runs.slice(0, most).map((run) => card(run, flat)) };
  };

  return { conditionsOf, idOf };
})();
