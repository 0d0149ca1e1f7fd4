// Search by symptom: `/` opens it anywhere. Pagefind and its index are loaded when a page has stood still for a moment,
// behind everything else, or when it is opened.
// Everything found is shown as text; the only addresses followed are pages of this site.
"use strict";

(() => {
  const here = document.currentScript;
  const said = JSON.parse(here.dataset.words);
  const site = new URL(here.dataset.site, document.baseURI);
  const { fitsOf, groupsOf, placed, ranked, termsOf, vocabularyOf } = window.labbookSearch;
  const { conditionsOf, idOf } = window.labbookConditions;
  const { filter, examples } = window.labbookFields;

  const GROUPS = ["fix", "symptom", "run", "note"];
  const FACETS = ["framework", "symptom", "status", "experiment", "author"];
  const SHOWN = 5;
  const MORE = 20;
  const ENOUGH_RUNS = 5;
  const FETCHED_AT_ONCE = 12;
  const STILL_MS = 500;

  const made = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // -- What is found ------------------------------------------------------------------------------------------------

  let loading = null;

  /** The manifest, the cards of what is found first, and Pagefind itself; asked for side by side. */
  const engine = () => {
    if (!loading) {
      loading = load();
      // What could not be loaded now is asked for again when somebody searches.
      loading.catch(() => (loading = null));
    }
    return loading;
  };

  const load = async () => {
    const folder = new URL("search/", site);
    const json = async (name) => {
      const answer = await fetch(new URL(name, folder));
      if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
      return answer.json();
    };
    const started = (async () => {
      const pagefind = await import(new URL("pagefind.js", folder).href);
      const shards = json("manifest.json");
      const instance = pagefind.createInstance({
        basePath: folder.pathname,
        baseUrl: "/",
        noWorker: true,
        metaCacheTag: "labbook",
      });
      await instance.init();
      return { instance, manifest: await shards };
    })();
    const [{ instance, manifest }, { cards, phrases, samples }] = await Promise.all([started, json("cards.json")]);
    // The whole index of what is found first, while the question is still being typed.
    const early = box.value.trim() ? [] : samples;
    for (const word of early) instance.preload(word).catch(() => {});
    const vocabulary = vocabularyOf(manifest.vocabulary);
    return { instance, manifest, cards, folder, ids: {}, merged: 0, vocabulary, fitOf: fitsOf(phrases, vocabulary) };
  };

  /** Adds the runs of one more month, and says whether there was one. */
  const mergeMonth = async (found) => {
    const month = found.manifest.months[found.merged];
    if (!month) return false;
    found.merged += 1;
    const options = { language: "en", metaCacheTag: month.key };
    await found.instance.mergeIndex(`${found.folder.pathname}${month.name}/`, options);
    return true;
  };

  /** Of hits those of the runs that fit the conditions; which run a hit is, is fetched once for each part of the index. */
  const restricted = async (found, hits, { runs }) => {
    const wanted = new Set(runs.map((run) => run.id));
    for (const { name } of found.manifest.months.slice(0, found.merged)) {
      found.ids[name] ??= window.labbook.json(new URL(`${name}/ids.json`, found.folder).href);
    }
    const ids = Object.assign({}, ...(await Promise.all(Object.values(found.ids))));
    return hits.filter(({ result: { id } }) => wanted.has(ids[id] ?? idOf(found.cards[id]?.url ?? "")));
  };

  /** The same as what is shown: cards of the first shard at once, fragments of runs as far as they are shown. */
  const cardsOf = async (found, hits, wanted) => {
    const groups = Object.fromEntries(GROUPS.map((kind) => [kind, { cards: [], total: 0 }]));
    const runs = [];
    for (const { result } of hits) {
      const card = found.cards[result.id];
      if (!card) runs.push(result);
      else if (groups[card.kind]) groups[card.kind].cards.push(card);
    }
    for (const kind of GROUPS) groups[kind].total = groups[kind].cards.length;
    const shown = await Promise.all(
      runs.slice(0, wanted).map(async (result) => {
        const data = await result.data();
        return { ...data.meta, url: data.raw_url };
      }),
    );
    groups.run = { cards: shown, total: runs.length };
    return groups;
  };

  // -- The dialog ---------------------------------------------------------------------------------------------------

  const dialog = made("dialog", "lbs");
  dialog.setAttribute("aria-label", said.title);
  const box = made("textarea", "lbs__box");
  const close = made("button", "lbs__close", said.close);
  const filters = made("div", "lbs__filters");
  const status = made("p", "lbs__status", said.hint);
  const results = made("div", "lbs__results");
  const fields = {};

  const build = () => {
    const top = made("div", "lbs__top");
    box.rows = 1;
    box.placeholder = said.placeholder;
    box.setAttribute("aria-label", said.placeholder);
    box.spellcheck = false;
    box.autocapitalize = "none";
    close.type = "button";
    status.setAttribute("role", "status");
    top.append(box, close);
    for (const facet of FACETS) {
      fields[facet] = filter(facet, said[facet], said.any, () => ask());
      filters.append(fields[facet].label);
    }
    dialog.append(top, filters, status, results);
    document.body.append(dialog);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("keydown", onKey);
    box.addEventListener("input", (event) => {
      grow();
      clearTimeout(waiting);
      waiting = setTimeout(ask, event.inputType === "insertText" ? 60 : 0);
    });
  };

  /** The box is as high as what was pasted, up to a third of the window (which CSS says). */
  const grow = () => {
    box.style.height = "auto";
    box.style.height = `${box.scrollHeight + 2}px`;
  };

  const fillFilters = (manifest) => {
    for (const facet of FACETS) fields[facet].fill(manifest.facets[facet] || []);
  };

  let waiting = 0;
  let asked = 0;
  let wanted = SHOWN;

  /** Answers what stands in the box; an older question that ends later than a newer one is forgotten. */
  const ask = async ({ older = false, all = "" } = {}) => {
    asked += 1;
    const mine = asked;
    const question = box.value;
    const chosen = Object.fromEntries(
      FACETS.filter((facet) => fields[facet].value()).map((facet) => [facet, [fields[facet].value()]]),
    );
    wanted = all ? MORE : SHOWN;
    const answer = (sentence) => {
      results.replaceChildren();
      status.textContent = sentence;
      dialog.dataset.answered = question;
    };
    try {
      const conditions = await conditionsOf(question, chosen, site, said);
      if (mine !== asked) return;
      if (conditions?.problem) return answer(conditions.problem);
      const words = conditions ? conditions.words : question;
      if (!termsOf(words).length && !conditions) {
        answer(said.hint);
        return results.append(examples(said.examples, said.example_list.split(" | "), (text) => open(text)));
      }
      const found = await engine();
      fillFilters(found.manifest);
      if (!termsOf(words).length) {
        const flat = Object.values(found.cards).some((card) => card.url.includes(".html"));
        show(found, { ...(await cardsOf(found, [], 0)), run: { cards: conditions.cards(MORE, flat), total: conditions.runs.length } }, [], all, 0);
        dialog.dataset.answered = question;
        return;
      }
      const groups = groupsOf(words, found.vocabulary);
      const terms = [...new Set(groups.flat(2))];
      if (older) await mergeMonth(found);
      for (;;) {
        const every = await ranked(found, groups, chosen, words);
        const hits = conditions ? await restricted(found, every, conditions) : every;
        const quick = hits.filter(({ result }) => found.cards[result.id]);
        if (mine !== asked) return;
        const runs = hits.length - quick.length;
        // What stands in the first shard is shown before anything else is asked for.
        if (runs && !older) show(found, await cardsOf(found, quick, 0), terms, all);
        const cards = await cardsOf(found, hits, Math.max(wanted, FETCHED_AT_ONCE));
        if (mine !== asked) return;
        show(found, cards, terms, all);
        if (runs >= ENOUGH_RUNS || !(await mergeMonth(found))) break;
        if (mine !== asked) return;
      }
      dialog.dataset.answered = question;
    } catch (error) {
      console.warn("search:", error);
      loading = null;
      results.replaceChildren();
      status.textContent = said.unavailable;
    }
  };

  const show = (found, groups, terms, all, left = found.manifest.months.length - found.merged) => {
    const focused = dialog.contains(document.activeElement) && document.activeElement.href;
    results.replaceChildren();
    let total = 0;
    for (const kind of GROUPS) {
      const { cards, total: many } = groups[kind];
      total += many;
      if (!cards.length) continue;
      const group = made("section", `lbs__group lbs__group--${kind}`);
      const heading = made("h2", "lbs__heading", said[`group_${kind}`]);
      heading.append(" ", made("small", "", String(many)));
      const list = made("ul");
      const most = all === kind ? MORE : SHOWN;
      const rows = told(cards, kind);
      for (const card of rows.slice(0, most)) list.append(item(card, terms));
      group.append(heading, list);
      if (rows.length + many - cards.length > most && all !== kind) {
        const more = made("button", "lbs__more", said.more);
        more.type = "button";
        more.addEventListener("click", () => ask({ all: kind }));
        group.append(more);
      }
      results.append(group);
    }
    if (left > 0 && total > 0) {
      const older = made("button", "lbs__more", said.older.replace("{n}", found.manifest.months[found.merged].name));
      older.type = "button";
      older.addEventListener("click", () => ask({ older: true }));
      results.append(older);
    }
    status.textContent = total ? said.found.replace("{n}", String(total)) : left > 0 ? said.looking : said.nothing;
    if (focused) links().find((link) => link.href === focused)?.focus();
  };

  /** Runs that fit alike are told newest first; a fix that helped many times is one line, which leads to its last time. */
  const told = (cards, kind) => {
    if (kind === "run") return [...cards].sort((a, b) => (b.when || "").localeCompare(a.when || ""));
    if (kind !== "fix") return cards;
    const once = new Map();
    for (const card of cards) {
      const key = JSON.stringify([card.title, card.line]);
      const held = once.get(key);
      const last = held && (held.when || "") > (card.when || "") ? held : card;
      once.set(key, { ...last, times: (held ? held.times : 0) + 1 });
    }
    return [...once.values()];
  };

  const item = (card, terms) => {
    const row = made("li");
    const url = new URL(card.url, site);
    const link = made("a", "lbs__item");
    if (url.origin === site.origin && url.protocol === site.protocol) link.href = url.href;
    const title = made("span", "lbs__title");
    title.append(...marked(card.title || "", terms));
    link.append(title);
    if (card.status) link.append(made("span", `lb-status lb-${card.status}`, said[`status_${card.status}`] || card.status));
    if (card.times > 1) link.append(made("small", "lbs__times", `× ${card.times}`));
    if (card.when) link.append(made("time", "lbs__when", card.when));
    if (card.line) {
      const line = made("span", "lbs__line");
      if (card.fixed && card.kind !== "fix") line.append(made("b", "", said.cured), " ");
      line.append(...marked(card.line, terms));
      link.append(line);
    }
    row.append(link);
    return row;
  };

  /** Text with the words that were looked for marked; nodes, never markup. */
  const marked = (text, terms) => {
    // Places are those in the normalised text; where it has another length, nothing is marked.
    const plain = text.normalize("NFKC");
    if (plain.length !== text.length) return [text];
    const nodes = [];
    let done = 0;
    for (const { word, from, to } of placed(plain)) {
      if (from < done && to <= done) continue;
      if (!terms.some((term) => word === term || (word.startsWith(term) && term.length > 2))) continue;
      const start = Math.max(from, done);
      if (start > done) nodes.push(text.slice(done, start));
      nodes.push(made("mark", "", text.slice(start, to)));
      done = to;
    }
    nodes.push(text.slice(done));
    return nodes;
  };

  // -- Keys ---------------------------------------------------------------------------------------------------------

  const links = () => [...results.querySelectorAll("a.lbs__item, button.lbs__more")];

  const onKey = (event) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    const go = (index) => {
      event.preventDefault();
      (index < 0 ? box : all[Math.min(index, all.length - 1)])?.focus();
    };
    const single = !box.value.includes("\n");
    if (event.key === "ArrowDown" && (at >= 0 || (document.activeElement === box && single))) go(at + 1);
    else if (event.key === "ArrowUp" && at >= 0) go(at - 1);
    else if (event.key === "Home" && at >= 0) go(0);
    else if (event.key === "End" && at >= 0) go(all.length - 1);
    else if (event.key === "Enter" && document.activeElement === box && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      all[0]?.click();
    } else if (at >= 0 && event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey && (event.key !== " " || document.activeElement.tagName === "A")) {
      // Who goes on typing goes on asking.
      box.focus();
    }
  };

  const open = (text) => {
    if (!dialog.isConnected) build();
    if (!dialog.open) dialog.showModal();
    if (text !== undefined) box.value = text;
    grow();
    box.focus();
    box.select();
    if (location.protocol === "file:") {
      status.textContent = said.unavailable;
      return;
    }
    engine().then((found) => fillFilters(found.manifest), () => {});
    ask();
  };

  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    if (dialog.open || event.altKey || event.isComposing) return;
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !typing(event.target);
    const palette = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (slash || palette) {
      event.preventDefault();
      open();
    }
  });

  const button = made("button", "lbs-open");
  button.type = "button";
  button.append(made("span", "lbs-open__icon"), made("span", "lbs-open__word", said.button), made("kbd", "", "/"));
  button.setAttribute("aria-label", said.title);
  button.setAttribute("aria-keyshortcuts", "/ Control+K");
  button.addEventListener("click", () => open());
  // Who comes near the button is about to search.
  const early = () => location.protocol !== "file:" && engine().catch(() => {});
  button.addEventListener("pointerenter", early, { once: true });
  button.addEventListener("focus", early, { once: true });
  const line = navigator.connection || {};
  const spared = line.saveData || /2g/.test(line.effectiveType || "");
  const idle = window.requestIdleCallback || ((call) => setTimeout(call, 500));
  const later = () => setTimeout(() => idle(early, { timeout: STILL_MS }), STILL_MS);
  if (!spared) window.addEventListener("load", later, { once: true });
  const header = document.querySelector(".md-header__inner");
  if (header) header.append(button);

  // A link to a search: ?q=...
  const question = new URLSearchParams(location.search).get("q");
  if (question) open(question.slice(0, 5000));
})();
