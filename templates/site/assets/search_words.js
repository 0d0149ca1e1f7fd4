// The words by which the search finds something: the same as labbook/publish/search/search_words.py, where they are explained.
"use strict";

window.labbookSearch = (() => {
  const STOPPED = new Set(
    (
      "a an and are as at be been but by can could did do does file for from had has have if in into is it its " +
      "line most of on or out py recent so such than that the their then there these this those to traceback " +
      "was were when where which while will with you your"
    ).split(" "),
  );
  const MOST_CHARACTERS = 40;
  const NAME = 8;
  const CJK = "\\u2e80-\\u2fdf\\u3005-\\u3007\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7af\\uf900-\\ufaff";
  const WORD = new RegExp(`[A-Za-z0-9]+|[${CJK}]+`, "g");
  const PART = /[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+/g;
  const DATA = /^(?:[0-9]+|0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,}|[0-9]+e[0-9]+|[0-9]+[a-z])$/;

  const says = (word) =>
    word.length > 1 && word.length <= MOST_CHARACTERS && !STOPPED.has(word) && !DATA.test(word);

  const spelt = (characters) => {
    const codes = [...characters].map((each) => (each.codePointAt(0) & 0xffff).toString(16).padStart(4, "0")).join("");
    return "q" + [...codes].map((digit) => String.fromCharCode(97 + parseInt(digit, 16))).join("") + "q";
  };

  /** Each word of a text with the places where it stands: [{word, from, to}]; `text` must be normalised (NFKC). */
  const placed = (text) => {
    const found = [];
    for (const match of text.matchAll(WORD)) {
      const word = match[0];
      const from = match.index;
      if (word.charCodeAt(0) > 127) {
        for (let at = 0; at < Math.max(1, word.length - 1); at += 1) {
          const pair = word.slice(at, at + 2);
          found.push({ word: spelt(pair), from: from + at, to: from + at + pair.length });
        }
        continue;
      }
      const parts = word.length >= NAME && word !== word.toLowerCase() ? word.match(PART) || [] : [];
      for (const part of [word, ...(parts.length > 1 ? parts : [])]) {
        const low = part.toLowerCase();
        if (says(low)) found.push({ word: low, from, to: from + word.length });
      }
    }
    return found;
  };

  const wordsOf = (text) => placed(text.normalize("NFKC")).map((one) => one.word);

  const MOST_TERMS = 14;
  const FRAME = /^\s*(?:File ".*", line \d+|Traceback |at .*:\d+|During handling|The above exception|\^+\s*$)/;
  const SAYS = /(?:error|exception|warning|killed|signal|nan|failed|invalid|cannot|expected)/i;

  /**
   * What to look for when a question is asked: of a pasted message the lines that name an error come first, those of the
   * frames of a traceback and folders not at all. A character alone is looked for at the beginning of pairs.
   */
  const termsOf = (question) => {
    const lines = question.slice(0, 20000).split(/[\r\n]+/).filter((line) => line.trim());
    // The last line of a traceback says what went wrong.
    const telling = lines.length > 1 ? lines.filter((line) => !FRAME.test(line)).reverse() : lines;
    const ordered = [...telling.filter((line) => SAYS.test(line)), ...telling.filter((line) => !SAYS.test(line))];
    const plain = ordered.map((line) => line.replace(/(?:[A-Za-z]:)?(?:[\\/][\w.@+-]+)+[\\/]/g, " "));
    const terms = [];
    for (const line of plain) {
      const names = new Map();
      for (const one of placed(line.normalize("NFKC"))) {
        // Of a name made of words the words are enough.
        const before = names.get(one.from);
        names.set(one.from, before ? [...before, one.word] : [one.word]);
      }
      for (const words of names.values()) terms.push(...(words.length > 1 ? words.slice(1) : words));
    }
    const alone = (term) => (/^q[a-p]{4}q$/.test(term) ? term.slice(0, -1) : term);
    return [...new Set(terms.map(alone))].slice(0, MOST_TERMS);
  };

  const ATOM = new RegExp(`[A-Za-z]+[0-9]*[A-Za-z0-9]*|[0-9]+(?:\\.[0-9]+)?|[${CJK}]`, "g");
  const MOST_FORMS = 10;
  const MOST_GROUPS = 8;
  const SHORT = 160;
  const FIT = 2; // weight of a phrase of a page, against that of its words
  // Smallest share of a question, by the rarity of its words, that an answer has: of one with a word of a failure, of one without,
  // and of one that asks for a way or a fact.
  const ENOUGH = { failure: 0.3, plain: 0.5, request: 0.7 };

  const atomsOf = (text) => [...text.normalize("NFKC").matchAll(ATOM)].map((match) => ({ atom: match[0].toLowerCase(), from: match.index, to: match.index + match[0].length }));

  /** The known words of labbook/index/words.txt: atoms of a form -> all forms that mean the same; none for words that say little. */
  const vocabularyOf = ({ meanings, minor, requests, failing }) => {
    const forms = new Map();
    let longest = 1;
    const add = (form, same) => {
      const atoms = atomsOf(form).map(({ atom }) => atom);
      longest = Math.max(longest, atoms.length);
      const key = atoms.join(" ");
      forms.set(key, [...(forms.get(key) ?? []), ...same]);
    };
    for (const same of meanings) for (const form of same) add(form, [form, ...same]);
    for (const form of minor) add(form, []);
    const keyOf = (form) => ` ${atomsOf(form).map(({ atom }) => atom).join(" ")} `;
    const asks = requests.map((form) => [keyOf(form), form.startsWith("^")]);
    const failures = failing.map(keyOf);
    /** "failure" of a question with a word of one; of another "request" if it asks for a way or a fact: "how to add a scheduler". */
    const kindOf = (question) => {
      const key = keyOf(question);
      if (failures.some((form) => key.includes(form))) return "failure";
      return asks.some(([form, first]) => (first ? key.startsWith(form) : key.includes(form))) ? "request" : "plain";
    };
    return { forms, longest, kindOf };
  };

  /**
   * What to look for when a question is asked: groups of alternatives, each the words of a phrase. Words with one meaning, in
   * English and Chinese, are one group. Of a pasted message each word is a group of its own.
   */
  const groupsOf = (question, vocabulary) => {
    const alone = (text) => termsOf(text).map((term) => [[term]]);
    if (!vocabulary || question.length > SHORT || /[\r\n]/.test(question.trim())) return alone(question);
    const text = question.normalize("NFKC");
    const atoms = atomsOf(text);
    const groups = [];
    let rest = null;
    const flush = (to) => {
      if (rest !== null) groups.push(...alone(text.slice(rest, to)));
      rest = null;
    };
    for (let at = 0; at < atoms.length; ) {
      let width = Math.min(vocabulary.longest, atoms.length - at);
      let same;
      for (; width > 0; width -= 1) {
        same = vocabulary.forms.get(atoms.slice(at, at + width).map(({ atom }) => atom).join(" "));
        if (same) break;
      }
      if (!same) {
        rest ??= atoms[at].from;
        at += 1;
        continue;
      }
      flush(atoms[at].from);
      // Of "out of memory" the index has "memory" alone, which says less.
      const whole = same.filter((form) => wordsOf(form).length > 1 || atomsOf(form).length === 1 || form.codePointAt(0) > 127);
      const phrases = [...new Map((whole.length ? whole : same).map((form) => [wordsOf(form).join(" "), wordsOf(form)])).values()].filter((words) => words.length);
      if (phrases.length) groups.push(phrases.slice(0, MOST_FORMS));
      at += width;
    }
    flush(text.length);
    const distinct = [...new Map(groups.map((group) => [JSON.stringify(group), group])).values()];
    return distinct.length ? distinct.slice(0, MOST_GROUPS) : alone(question);
  };

  /** What has one of the phrases, each with its best score. */
  const withPhrases = async (instance, phrases, filters) => {
    const answers = await Promise.all(
      phrases.map((words) => instance.search(words.length > 1 ? `"${words.join(" ")}"` : words[0], { filters })),
    );
    const best = new Map();
    // For a word that no page has Pagefind takes its beginning; what has that in what is shown alone is not meant.
    for (const result of answers.flatMap((answer) => answer.results.filter((one) => one.words.length))) {
      if (!(best.get(result.id)?.score >= result.score)) best.set(result.id, result);
    }
    return [...best.values()];
  };

  const MOST_FITS = 4, NEXT = 0.3; // phrases of a page that count, each by this share of the one before

  /** The roots of a text: of words with one meaning the first, of others what stands before a usual ending. */
  const rootsOf = (text, { forms, longest }) => {
    const atoms = atomsOf(text).map(({ atom }) => atom);
    const roots = new Set();
    for (let at = 0; at < atoms.length; ) {
      let width = Math.min(longest, atoms.length - at);
      let same;
      for (; width > 0; width -= 1) {
        same = forms.get(atoms.slice(at, at + width).join(" "));
        if (same) break;
      }
      if (same?.length) roots.add([...same].sort()[0]);
      else if (!same && says(atoms[at])) roots.add(atoms[at].replace(/(?<=...)(?:ings?|ed|es|s|e)$/, ""));
      at += Math.max(1, width);
    }
    return roots;
  };

  /** How well a question fits the phrases of a page, 0 to 1: as `fits` of labbook/index/page_scores.py. */
  const fitsOf = (phrases, vocabulary) => {
    let pages = null;
    const counts = new Map();
    const weight = (root) => Math.log(1 + pages.size / (1 + (counts.get(root) ?? 0)));
    const sum = (roots) => [...roots].reduce((all, root) => all + weight(root), 0);
    const read = () => {
      pages = new Map(Object.entries(phrases).map(([url, texts]) => [url, texts.map((text) => rootsOf(text, vocabulary))]));
      for (const all of pages.values()) for (const root of new Set(all.flatMap((roots) => [...roots]))) counts.set(root, (counts.get(root) ?? 0) + 1);
    };
    return (question) => {
      if (!pages) read();
      const asked = rootsOf(question, vocabulary);
      const total = sum(asked);
      return (url) => {
        const fits = (pages.get(url) ?? []).map((roots) => (2 * sum([...roots].filter((root) => asked.has(root)))) / (total + sum(roots) || 1));
        return fits.sort((a, b) => b - a).slice(0, MOST_FITS).reduce((all, fit, n) => all + fit * NEXT ** n, 0);
      };
    };
  };

  // What fits a question, best first. Each meaning is looked for alone and counts the more the rarer it is, so that a long
  // message finds something although no page has all of its words. What has only a small part of a question is no answer.
  const ranked = async (found, groups, filters, question) => {
    const enough = question.trim().includes("\n") ? 0 : ENOUGH[found.vocabulary.kindOf(question)];
    const fit = question.length > SHORT ? () => 0 : found.fitOf(question);
    const answers = await Promise.all(groups.map((phrases) => withPhrases(found.instance, phrases, filters)));
    const { first, months } = found.manifest;
    const total = months.slice(0, found.merged).reduce((sum, month) => sum + month.count, first.count);
    const scores = new Map();
    let everything = 0;
    for (const results of answers) {
      const rarity = Math.log(1 + total / Math.max(1, results.length));
      everything += rarity;
      const highest = results.reduce((most, one) => Math.max(most, one.score), 0) || 1;
      for (const result of results) {
        const entry = scores.get(result.id) || { result, covered: 0, score: 0 };
        entry.covered += rarity;
        entry.score += rarity * (0.5 + (0.5 * result.score) / highest);
        scores.set(result.id, entry);
      }
    }
    // Of each group what comes near its best; a group that is far behind the others is left out.
    const best = { all: 0 };
    for (const one of scores.values()) {
      const card = found.cards[one.result.id];
      one.kind = card ? card.kind : "run"; // what was seen here before is likelier than what was not
      if (card && card.when) one.score *= 1.3;
      if (card?.kind === "symptom") one.score += everything * FIT * fit(card.url);
      best[one.kind] = Math.max(best[one.kind] || 0, one.covered);
      best.all = Math.max(best.all, one.covered);
    }
    return [...scores.values()]
      .filter((one) => one.covered >= Math.max(best[one.kind] * 0.6, best.all * 0.45, everything * enough))
      .sort((a, b) => b.score - a.score);
  };

  return { fitsOf, groupsOf, placed, ranked, termsOf, vocabularyOf, wordsOf };
})();
