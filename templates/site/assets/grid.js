/* A table of any length: only the rows in view are in the page. Reached and moved by keyboard; one tab stop. */
"use strict";

window.labbook.grid = (settings) => {
  const { element } = window.labbook;
  const SPARE = 8; // rows kept above and below the view, so that slow scrolling never shows a gap
  const drawn = new Map();
  let rows = [], columns = [], height = 36, current = 0, waiting = false;

  const head = element("div", { class: "lb-grid__head", role: "rowgroup" });
  const body = element("div", { class: "lb-grid__body", role: "rowgroup" });
  const grid = element(
    "div",
    { class: "lb-grid", role: "grid", tabindex: "0", "aria-label": settings.label, "aria-multiselectable": "true" },
    head,
    body,
  );
  const rowId = (n) => `${settings.id}-${n}`;

  /* Columns: {key, label, width, end, cell(run) -> text or node, sort}. Heights are fixed: places are known unseen. */
  function arrange(next, rowHeight) {
    columns = next;
    height = rowHeight;
    grid.style.setProperty("--lb-columns", columns.map((column) => column.width).join(" "));
    grid.style.setProperty("--lb-least", `${columns.reduce((sum, column) => sum + column.least, 0)}px`);
    grid.style.setProperty("--lb-row", `${height}px`);
    grid.setAttribute("aria-colcount", columns.length);
    const { key, down } = settings.sorted();
    head.replaceChildren(element("div", { class: "lb-grid__row", role: "row", "aria-rowindex": 1 }, ...columns.map((column) => {
      const sorted = column.key === key;
      const cell = element("div", {
        class: `lb-cell${column.end ? " lb-end" : ""}`,
        role: "columnheader",
        "aria-sort": column.sort ? (sorted ? (down ? "descending" : "ascending") : "none") : null,
      });
      if (column.sort) {
        cell.append(element("button", { type: "button", title: column.label, onclick: () => settings.onsort(column.key) },
          element("span", { text: column.label }),
          sorted ? element("span", { class: "lb-arrow", "aria-hidden": "true", text: down ? "↓" : "↑" }) : null));
      } else {
        cell.append(element("span", { class: "lb-unseen", text: column.label }));
      }
      return cell;
    })));
    redraw();
  }

  function show(next) {
    rows = next;
    current = Math.min(current, Math.max(0, rows.length - 1));
    grid.setAttribute("aria-rowcount", rows.length + 1);
    body.style.height = `${rows.length * height}px`;
    redraw();
  }

  function redraw() {
    drawn.clear();
    body.replaceChildren();
    body.style.height = `${rows.length * height}px`;
    draw();
  }

  function draw() {
    waiting = false;
    const first = Math.max(0, Math.floor(grid.scrollTop / height) - SPARE);
    const last = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + SPARE);
    for (const [n, made] of drawn) {
      if (n < first || n >= last) {
        made.remove();
        drawn.delete(n);
      }
    }
    for (let n = first; n < last; n += 1) {
      if (!drawn.has(n)) {
        const made = row(n);
        drawn.set(n, made);
        body.append(made);
      }
    }
    mark();
  }

  function row(n) {
    const run = rows[n];
    if (run.group !== undefined) return headingRow(n, run);
    const made = element("div", {
      class: `lb-grid__row${settings.pinned?.(run) ? " lb-pinned" : ""}`,
      role: "row",
      id: rowId(n),
      "aria-rowindex": n + 2,
      "aria-selected": String(settings.picked.has(run.id)),
      onclick: () => { current = n; mark(); },
      onmouseenter: () => settings.onpoint?.(run, made),
      onmouseleave: () => settings.onleave?.(),
    });
    made.style.transform = `translateY(${n * height}px)`;
    for (const column of columns) {
      const content = column.cell(run);
      const plain = typeof content === "string";
      made.append(element("div", { class: `lb-cell${column.end ? " lb-end" : ""}`, role: "gridcell", title: plain && content.length > 12 ? content : null }, content));
    }
    return made;
  }

  /* The heading of a group of rows, which a click or Enter folds. */
  function headingRow(n, head) {
    const made = element("div", { class: "lb-grid__row lb-grid__group", role: "row", id: rowId(n), "aria-rowindex": n + 2, "aria-expanded": String(!head.closed), onclick: () => { current = n; settings.ontoggle(head); } },
      element("div", { class: "lb-cell", role: "gridcell" }, element("span", { class: "lb-arrow", "aria-hidden": "true", text: head.closed ? "▸ " : "▾ " }), element("b", { text: head.name }), element("span", { class: "lb-quiet", text: head.facts })));
    made.style.transform = `translateY(${n * height}px)`;
    return made;
  }

  /* The row that the keyboard is on: told to screen readers, shown while the table has the focus. */
  function mark() {
    for (const [n, made] of drawn) made.classList.toggle("lb-current", n === current);
    if (rows.length && drawn.has(current)) grid.setAttribute("aria-activedescendant", rowId(current));
    else grid.removeAttribute("aria-activedescendant");
  }

  function move(to) {
    current = Math.max(0, Math.min(rows.length - 1, to));
    const top = current * height, room = grid.clientHeight - head.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + height > grid.scrollTop + room) grid.scrollTop = top + height - room;
    draw();
  }

  const isHeading = () => rows[current].group !== undefined;
  const page = () => Math.max(1, Math.floor((grid.clientHeight - head.offsetHeight) / height) - 1);
  const KEYS = {
    ArrowDown: () => move(current + 1),
    ArrowUp: () => move(current - 1),
    PageDown: () => move(current + page()),
    PageUp: () => move(current - page()),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    Enter: () => rows[current] && (isHeading() ? settings.ontoggle(rows[current]) : settings.onopen(rows[current])),
    " ": () => rows[current] && (isHeading() ? settings.ontoggle(rows[current]) : pick(rows[current])),
    v: () => rows[current] && !isHeading() && settings.onpreview?.(rows[current], drawn.get(current)),
  };
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid || event.altKey || event.metaKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  grid.addEventListener("scroll", () => {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  }, { passive: true });
  new ResizeObserver(() => draw()).observe(grid);

  function pick(run) {
    settings.onpick(run);
    for (const [n, made] of drawn) {
      const chosen = settings.picked.has(rows[n].id);
      made.setAttribute("aria-selected", String(chosen));
      const box = made.querySelector("input[type=checkbox]");
      if (box) box.checked = chosen;
    }
  }

  return { element: grid, arrange, show, redraw, pick, toTop: () => { current = 0; grid.scrollTop = 0; } };
};
