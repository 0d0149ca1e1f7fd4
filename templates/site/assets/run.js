// The page of a run: its id and commands can be copied, a click on a layer of the model shows its series, folds are open on paper.
"use strict";

(() => {
  const said = JSON.parse(document.currentScript.dataset.words);
  const copies = document.querySelector(".lb-summary__copy");
  if (copies && navigator.clipboard) {
    copies.hidden = false;
    for (const button of copies.querySelectorAll("button")) {
      const word = button.textContent;
      button.title = button.dataset.copy;
      button.setAttribute("aria-label", `${said.copy_id} ${button.dataset.copy}`);
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = said.copied;
        setTimeout(() => (button.textContent = word), 1500);
      });
    }
  }

  // -- The model: the picture in the entry, with the gradient norms of each row in its data ----------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 520;
  const HEIGHT = 180;

  const drawn = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  /** A chart of points [step, smallest, largest]: a line, or two for rows of several layers; logarithmic if wide. */
  const chartOf = (points) => {
    const values = points.flatMap(([, low, high]) => [low, high ?? low]).filter((value) => value > 0);
    const least = values.length ? Math.min(...values) : 0;
    const most = values.length ? Math.max(...values) : 1;
    const log = least > 0 && most / least > 20;
    const scaled = (value) => (log ? Math.log(Math.max(value, least)) : value);
    const [bottom, top] = log ? [scaled(least), scaled(most)] : [0, most];
    const [first, last] = [points[0][0], points[points.length - 1][0]];
    const x = (step) => 62 + ((WIDTH - 72) * (step - first)) / (last - first || 1);
    const y = (value) => HEIGHT - 24 - ((HEIGHT - 40) * (scaled(value) - bottom)) / (top - bottom || 1);
    const chart = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lb-layer__chart", role: "img" });
    for (const line of [1, 2]) {
      const path = points.map((point, n) => `${n ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[line] ?? point[1]).toFixed(1)}`);
      chart.append(drawn("path", { d: path.join("") }));
    }
    const label = (at, place, text, anchor) => chart.append(drawn("text", { x: at, y: place, "text-anchor": anchor }, text));
    label(56, 20, `${most}`, "end");
    label(56, HEIGHT - 22, log ? `${least}` : "0", "end");
    label(62, HEIGHT - 4, `${said.step} ${first}`, "start");
    if (log) label(WIDTH - 10, 12, said.log, "end");
    label(WIDTH - 10, HEIGHT - 4, `${last}`, "end");
    return chart;
  };

  const showLayer = (layer) => {
    const points = layer.dataset.history.split(";").map((point) => point.split(" ").map(Number));
    const dialog = document.createElement("dialog");
    dialog.className = "lb-layer";
    const title = document.createElement("p");
    const name = [...layer.querySelector("text").childNodes].map((part) => part.textContent).join(" ");
    title.textContent = `${name}: ${said.layer_gradient}`;
    dialog.append(title, chartOf(points));
    dialog.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  };

  const showModel = async (picture) => {
    const answer = await fetch(picture.src).catch(() => null);
    if (!answer || !answer.ok) return;
    const model = document.importNode(new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement, true);
    const layers = model.querySelectorAll("g[data-history]");
    if (!layers.length) return;
    for (const style of model.querySelectorAll("style")) style.textContent = style.textContent.replaceAll(":root", ":host");
    model.prepend(drawn("style", {}, "g[data-history]{cursor:pointer}g[data-history]:is(:hover,:focus)>rect{stroke-width:2}"));
    for (const layer of layers) {
      layer.setAttribute("tabindex", "0");
      layer.setAttribute("role", "button");
      layer.addEventListener("click", () => showLayer(layer));
      layer.addEventListener("keydown", (event) => {
        if (event.key === "Enter") showLayer(layer);
      });
    }
    const holder = document.createElement("div");
    holder.className = "lb-model";
    holder.attachShadow({ mode: "open" }).append(model);
    const link = picture.closest("a");
    link.before(holder);
    link.textContent = said.model_alone;
    holder.after(`${said.layer_hint} `);
  };

  const model = document.querySelector('.md-content a > img[src$="model.svg"]');
  if (model && location.protocol !== "file:") showModel(model);

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".md-content details:not([open])")];
    for (const fold of opened) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });
})();
