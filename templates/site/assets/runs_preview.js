/* What the table shows of a run besides its cells: a small curve of its main metric, a preview, commands to copy. */
"use strict";

window.labbook.previews = (known, say, site) => {
  const { element, number, duration, moment, json, pills } = window.labbook;
  const MOST_AT_ONCE = 4, MOST_KNOWN = 500, MOST_FACTS = 8, DELAY_MS = 350;
  const SVG = "http://www.w3.org/2000/svg";
  const data = new Map(); // id -> curve [name, x, y], null without one, or undefined while it is being read
  const waiting = [];
  let reading = 0;

  /* Small curves */

  function draw(curve, width, height) {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("class", "lb-spark");
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", curve.name);
    const finite = curve.y.filter((value) => value !== null);
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    // One exploding step must not press the rest flat.
    const log = low > 0 && high / low > 1e3;
    const scaled = (value) => (log ? Math.log(value) : value);
    const [bottom, top] = [scaled(low), scaled(high)], first = curve.x[0], across = curve.x.at(-1) - first || 1;
    let begun = false;
    const path = curve.y.map((value, n) => {
      if (value === null) { begun = false; return ""; }
      const at = `${(1 + ((width - 2) * (curve.x[n] - first)) / across).toFixed(1)} ${(height - 2 - ((height - 4) * (scaled(value) - bottom)) / (top - bottom || 1)).toFixed(1)}`;
      const step = `${begun ? "L" : "M"}${at}`;
      begun = true;
      return step;
    });
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("d", path.join(""));
    picture.append(line);
    return picture;
  }

  /* Files are read for rows in view only, the latest first. */
  async function next() {
    if (reading >= MOST_AT_ONCE || !waiting.length) return;
    const { run, place, show } = waiting.pop();
    if (!place.isConnected) { next(); return; }
    reading += 1;
    if (!data.has(run.id)) {
      try {
        const [found] = Object.entries((await json(`${site.base}data/run/${run.id}.json`)).curves);
        if (data.size >= MOST_KNOWN) data.delete(data.keys().next().value);
        data.set(run.id, found && found[1].y.filter((value) => value !== null).length > 1 ? { name: found[0], ...found[1] } : null);
      } catch {
        data.set(run.id, null);
      }
    }
    reading -= 1;
    if (place.isConnected && data.get(run.id)) show(data.get(run.id));
    next();
  }

  function curve(run, width = 84, height = 22) {
    const place = element("span", { class: "lb-spark-place" });
    const show = (found) => place.replaceChildren(draw(found, width, height));
    if (run.bare) return place;
    if (data.has(run.id)) {
      if (data.get(run.id)) show(data.get(run.id));
      return place;
    }
    waiting.push({ run, place, show });
    requestAnimationFrame(next);
    return place;
  }

  /* Commands */

  function copy(word, command) {
    const button = element("button", { type: "button", class: "lb-copy", text: word, title: command, "aria-label": `${say("copy_lead")} ${command}`, onclick: async () => {
      await navigator.clipboard.writeText(command);
      button.textContent = say("copied");
      setTimeout(() => { button.textContent = word; }, 1500);
    } });
    return button;
  }

  function commands(ids) {
    if (!navigator.clipboard || !ids.length) return null;
    const all = (name) => ids.map((id) => `labbook ${name} ${id}`).join(" && ");
    return element("span", { class: "lb-copies" }, element("span", { class: "lb-quiet", text: say("copy_lead") }),
      ...(ids.length === 1 ? [copy("show", all("show")), copy("rerun", all("rerun"))] : [copy("compare", `labbook compare ${ids.join(" ")}`)]),
      copy("rm", all("rm")));
  }

  /* The preview, beside the pointer or below the current row */

  const box = element("aside", { class: "lb-preview", hidden: true, "aria-label": say("preview") });
  let timer = 0;

  const list = (title, pairs) => (pairs.length ? element("div", {}, element("b", { text: title }),
    ...pairs.slice(0, MOST_FACTS).map(([name, value]) => element("div", { class: "lb-preview__fact" }, element("span", { text: name }), element("span", { text: value })))) : null);

  function show(run, row) {
    const facts = [moment(run.started), duration(run.duration), run.author, run.host, run.experiment].filter(Boolean).join(" · ");
    const metrics = Object.entries(run.metrics).sort(([a], [b]) => (b === run.metric) - (a === run.metric));
    box.replaceChildren(...[
      element("div", { class: "lb-card__title" }, ...pills(run, say), element("a", { href: site.entry(run), text: run.title || run.id })),
      element("div", { class: "lb-quiet", text: facts }),
      ...run.symptoms.slice(0, 3).map((name) => element("div", { class: "lb-preview__symptom", text: known.titles[name] ?? name })),
      run.bare ? null : curve(run, 320, 72),
      element("div", { class: "lb-preview__lists" }, list(say("metrics"), metrics.map(([name, { last }]) => [name, number(last)])), list(say("params"), Object.entries(run.params))),
      commands([run.id]),
    ].filter(Boolean));
    box.hidden = false;
    const at = row.getBoundingClientRect();
    const below = at.bottom + box.offsetHeight + 8 < innerHeight;
    box.style.top = `${Math.max(4, below ? at.bottom + 2 : at.top - box.offsetHeight - 2)}px`;
    box.style.left = `${Math.max(8, Math.min(at.left + 360, innerWidth - box.offsetWidth - 16))}px`;
  }

  function hide() {
    clearTimeout(timer);
    box.hidden = true;
  }

  function point(run, row) {
    clearTimeout(timer);
    timer = setTimeout(() => show(run, row), DELAY_MS);
  }

  function leave() {
    clearTimeout(timer);
    timer = setTimeout(() => { if (!box.matches(":hover")) hide(); }, DELAY_MS);
  }

  box.addEventListener("mouseleave", leave);
  addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  return { element: box, curve, commands, point, leave, hide, toggle: (run, row) => (box.hidden ? show(run, row) : hide()) };
};
