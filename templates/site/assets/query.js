/* The query language of the table of runs: the same as labbook/index/query_parser.py, where it is explained.
   A query becomes tests of a run, or a problem in words. Shows nothing itself. */
"use strict";

/* `known` is filled by the table: {titles, metrics, params}; `text` returns what the words of a run are looked for in. */
window.labbook.query = (known, say, text) => {
  const WORD = /-?(?:[^\s"]*[:=<>])?"[^"]*"?|\S+/g;
  const CONDITION = /^(-?)((?:--)?[\p{L}_][\p{L}\w./-]*?)(=?[<>]=?|!=|==|:|=)(.+)$/su;
  const UNFINISHED = /^-?(?:--)?([\p{L}_][\p{L}\w./-]*?)(?:=?[<>]=?|[!=]?=|[:!])"?$/u;
  const DAY = /^(?:\d{4}-\d\d(?:-\d\d)?|\d{4}-w\d\d?|today|yesterday|今天|昨天)$/i;
  const OPTION = /^--([A-Za-z][\w.-]*)$/;
  const SPACED = /(?<=\w)\s+(=?[<>]=?|!=)\s+(?=[-+.\d]|nan\b|inf\b)/g;
  const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i;
  const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|min|h|d)$/;
  const UNITS = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86400 };
  const VALUES = {
    status: ["finished", "failed", "interrupted", "killed", "lost", "running"],
    verdict: ["healthy", "suspect", "unhealthy", "failed", "unknown"],
    has: ["fix", "symptom", "metrics", "tag"],
  };
  const TEXTS = {
    status: (run) => [run.status], verdict: (run) => [run.verdict || "unknown"],
    experiment: (run) => [run.experiment], framework: (run) => run.frameworks.flatMap((name) => [name, name.split(" ")[0]]),
    symptom: (run) => run.symptoms, tag: (run) => run.tags, author: (run) => [run.author], script: (run) => [run.script],
    host: (run) => [run.host], project: (run) => [run.project], mode: (run) => [run.mode], id: (run) => [run.id],
    has: (run) => [run.fixed && "fix", run.symptoms.length && "symptom", Object.entries(run.metrics).some(([name, one]) => name !== "lr" || one.best !== null) && "metrics", run.tags.length && "tag"].filter(Boolean),
    option: (run) => Object.keys(run.params).flatMap(keysOf),
  };
  const IN_CHINESE = {
    状态: "status", 结论: "verdict", 项目: "project", 实验: "experiment", 标签: "tag", 作者: "author", 框架: "framework", 脚本: "script",
    症状: "symptom", 时长: "duration", 学习率: "lr", 优化器: "optimizer", 批大小: "batch_size", 失败: "failed", 完成: "finished",
    中断: "interrupted", 健康: "healthy", 不健康: "unhealthy", 可疑: "suspect",
  };
  const SAME = { check: "symptom", tags: "tag", symptoms: "symptom", frameworks: "framework", started: "since" };
  const CONTAINS = new Set(["experiment", "author", "script", "host", "project"]);
  const DATES = ["since", "before"];
  const SHOWN = 40;
  const ALIKE = 0.6;
  const SENTENCE = 4, LONG_SENTENCE = 6; // fewest words of a question
  const MESSAGE = /\b\w*(?:Error|Exception|Traceback|NotMet)\b|\w: |recogni[sz]ed arg/;

  class Problem extends Error {}

  const fieldKey = (name) => name.toLowerCase().replace(/[^0-9a-z]+/g, "_").replace(/^_+|_+$/g, "");
  /* `optimizer.lr` is found as `lr` too. */
  const keysOf = (name) => [fieldKey(name), fieldKey(name.slice(name.lastIndexOf(".") + 1))];
  const refused = (key, values, ...advice) => new Problem([say(key, values), ...advice].join(" "));

  /* Names that are written alike: the share of letters that need not be changed. */
  function likeness(one, other) {
    let row = Array.from({ length: other.length + 1 }, (_, n) => n);
    for (let i = 1; i <= one.length; i += 1) {
      const next = [i];
      for (let j = 1; j <= other.length; j += 1) {
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
      }
      row = next;
    }
    return 1 - row[other.length] / Math.max(one.length, other.length, 1);
  }

  const nearest = (name, names) => names.includes(IN_CHINESE[name]) ? [IN_CHINESE[name]] : names.map((one) => [likeness(name.toLowerCase(), one.toLowerCase()), one]).filter(([alike]) => alike >= ALIKE)
    .sort(([a], [b]) => b - a).slice(0, 3).map(([, one]) => one);

  function unknown(key, name, names, written, values = {}) {
    const near = nearest(name, names).map(written);
    const listed = names.slice(0, SHOWN).join(", ") + (names.length > SHOWN ? ", ..." : "");
    return refused(key, { name, ...values }, ...(near.length ? [say("query_near", { names: near.join(", ") })] : []), say("query_known", { known: listed }));
  }

  const everything = () => [...Object.keys(TEXTS), ...DATES, "duration", ...known.params, ...known.metrics];

  /* How the values of a name are read from a run; several where it is an option and a metric. */
  function readers(key) {
    const wanted = fieldKey(key);
    const found = ["duration", "duration_s"].includes(wanted) ? [(run) => run.duration] : [];
    for (const name of known.params) {
      if (keysOf(name).includes(wanted)) found.push((run) => run.params[name]);
    }
    for (const name of known.metrics) {
      const bare = fieldKey(name);
      if (bare === wanted) found.push((run) => run.metrics[name]?.last ?? run.metrics[name]?.best);
      for (const part of ["last", "best"]) if (`${bare}_${part}` === wanted) found.push((run) => run.metrics[name]?.[part]);
    }
    return found;
  }

  const NOT_FINITE = { nan: NaN, inf: Infinity, "+inf": Infinity, "-inf": -Infinity };

  /* A number, or null for other text. */
  function numeric(value) {
    if (typeof value === "number") return value;
    const low = String(value).trim().toLowerCase();
    return low in NOT_FINITE ? NOT_FINITE[low] : NUMBER.test(low) ? Number(low) : null;
  }

  const equal = (a, b) => a === b || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));

  function fits(value, operator, wanted) {
    if (value === undefined || value === null) return false;
    const a = numeric(value), b = numeric(wanted);
    if (operator === ":" || operator === "=") {
      if (a !== null && b !== null) return equal(a, b);
      const low = String(value).toLowerCase();
      if (wanted.includes("*")) return new RegExp(`^${wanted.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`, "s").test(low);
      return operator === "=" ? low === wanted : low.includes(wanted);
    }
    if (a === null || b === null) return false;
    return { "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b }[operator];
  }

  /* Seconds since 1970 of the start of a day, month or week, or of an age before now. */
  function moment(value) {
    const low = value.toLowerCase();
    const now = new Date();
    const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());
    const age = /^(\d{1,5})([hdw])$/.exec(low);
    let day = null;
    if (age) return now.getTime() / 1000 - age[1] * { h: 3600, d: 86400, w: 604800 }[age[2]];
    if (low === "today" || low === "今天") day = today;
    else if (low === "yesterday" || low === "昨天") day = new Date(today.getFullYear(), today.getMonth(), today.getDate() - 1);
    const week = /^(\d{4})-w(\d{1,2})$/.exec(low), date = /^(\d{4})-(\d\d)(?:-(\d\d))?$/.exec(low);
    if (week) {
      const fourth = new Date(Number(week[1]), 0, 4); // the fourth of January is in the first week
      day = new Date(fourth.getFullYear(), 0, 4 - ((fourth.getDay() + 6) % 7) + 7 * (week[2] - 1));
    } else if (date) day = new Date(Number(date[1]), date[2] - 1, Number(date[3] ?? 1));
    if (!day || Number.isNaN(day.getTime())) throw refused("query_bad_date", { value });
    return day.getTime() / 1000;
  }

  function ofText(key, operator, wanted) {
    if (VALUES[key]) {
      wanted = wanted.flatMap((value) => {
        const all = VALUES[key].filter((one) => (operator === ":" ? one.startsWith(value) : one === value));
        if (!all.length) throw unknown("query_unknown_value", value, VALUES[key], (one) => `${key}:${one}`, { field: key });
        return all;
      });
    }
    const exact = operator === "=" || key in VALUES || key === "mode";
    const same = key === "option" ? (value, one) => value === fieldKey(one) : exact ? (value, one) => value === one
      : CONTAINS.has(key) ? (value, one) => value.includes(one) : (value, one) => value.startsWith(one);
    return (run) => TEXTS[key](run).some((value) => wanted.some((one) => same(String(value ?? "").toLowerCase(), one)));
  }

  /* Seconds since 1970 of the start and the end of a day, week or month. */
  function span(value) {
    const begin = moment(value), first = new Date(begin * 1000);
    const [months, days] = /^\d{4}-\d\d$/.test(value) ? [1, 0] : [0, /-w/i.test(value) ? 7 : 1];
    return [begin, new Date(first.getFullYear(), first.getMonth() + months, first.getDate() + days).getTime() / 1000];
  }

  /* Whether a search, which may look for `model.py:88` and `shuffle=True`, takes a key for one of a condition. */
  function isMeant(written, sign, value, { sentence, long, message }) {
    const key = written.replace(/^--/, "");
    const own = key.toLowerCase() in SAME || key.toLowerCase() in TEXTS || DATES.includes(key.toLowerCase());
    if (message) return own && sign === ":";
    if (own) return true;
    if (readers(key).length) return !(sentence && sign === ":");
    const ordered = sign !== ":" && sign !== "=" && numeric(value) !== null;
    if (sentence && (sign === "=" || (ordered && (long || !nearest(key, everything()).length)))) return written !== key;
    if (ordered || written !== key) return true;
    if (!/^[a-z_]+$/.test(key)) return false;
    if (sign === ":" && /^[A-Za-z][\w.,*-]*$/.test(value)) return true;
    return key.length > 3 && nearest(key, everything().filter((name) => Math.abs(name.length - key.length) < 2)).length > 0;
  }

  /* A condition as {kind, test}, or null for words; `search` has what `isMeant` needs, null in the table. */
  function condition(token, search) {
    if (DAY.test(token) && !search?.sentence) {
      const [begin, end] = span(token);
      return { kind: "date", test: (run) => run.started >= begin && run.started < end };
    }
    const option = OPTION.exec(token);
    if (option && search?.message) return null;
    if (option) {
      const keys = known.params.flatMap(keysOf);
      if (!keys.includes(fieldKey(option[1]))) throw unknown("query_unknown_option", option[1], known.params, (one) => `--${one}`);
      return { kind: "condition", test: ofText("option", ":", [option[1]]) };
    }
    const parted = CONDITION.exec(token);
    if (!parted) return null;
    const [, minus, written, sign, raw] = parted;
    const value = raw.replace(/^"+|"+$/g, "");
    if (!value || (sign === ":" && /^[/:\\]/.test(raw))) return null;
    if (search && !isMeant(written, sign, value, search)) return null;
    const bare = written.replace(/^--/, ""), low = bare.toLowerCase();
    const key = SAME[low] ?? (low in TEXTS || DATES.includes(low) ? low : bare);
    const operator = { "!=": "=", "==": "=", "=<": "<=", "=>": ">=" }[sign] ?? sign;
    const turned = (minus !== "") !== (sign === "!=");
    const ordered = operator !== ":" && operator !== "=";
    const asked = (operator === ":" ? value.split(",") : [value]).map((one) => one.trim().toLowerCase()).filter(Boolean);
    if (DATES.includes(key)) {
      const at = moment(value);
      const after = (key === "since") !== (turned || operator === "<" || operator === "<=");
      return { kind: "date", test: after ? (run) => run.started >= at : (run) => run.started < at, turned: false };
    }
    const turn = (test) => ({ kind: "condition", test: turned ? (run) => !test(run) : test });
    if (key in TEXTS) {
      if (ordered) throw refused("query_not_a_number", { name: key });
      return turn(ofText(key, operator, asked));
    }
    const reads = readers(key);
    if (!reads.length) throw unknown("query_unknown_key", key, everything(), (one) => `${one}${sign}${value}`);
    const seconds = (one) => (/^duration(_s)?$/.test(key) && DURATION.test(one) ? String(DURATION.exec(one)[1] * UNITS[DURATION.exec(one)[2]]) : one);
    const wanted = asked.map(seconds);
    const bad = ordered && wanted.find((one) => numeric(one) === null);
    if (bad) throw refused("query_bad_number", { value: bad, name: key });
    return turn((run) => reads.some((read) => wanted.some((one) => fits(read(run), operator, one))));
  }

  function words(token) {
    const turned = token.length > 1 && token.startsWith("-") && /^-["\p{L}]/u.test(token);
    const plain = (turned ? token.slice(1) : token).replaceAll('"', "").toLowerCase();
    const test = (run) => text(run).includes(plain);
    return { kind: "word", test: turned ? (run) => !test(run) : test };
  }

  /* What a question of the search says besides its conditions: Chinese has two characters a word on average. */
  function searchOf(asked, tokens) {
    const counted = (token) => Math.max(1, (token.match(/[\u3400-\u9fff]+/g) ?? []).reduce((sum, part) => sum + Math.ceil(part.length / 2), 0));
    const plain = tokens.filter((token) => !CONDITION.test(token)).reduce((sum, token) => sum + counted(token), 0);
    return { sentence: plain >= SENTENCE, long: plain >= LONG_SENTENCE, message: MESSAGE.test(asked) };
  }

  /* The tests that a run must pass, or a problem. In a search, the words are returned, not tested. */
  function parse(asked, { search = false } = {}) {
    const tokens = asked.normalize("NFKC").replace(SPACED, "$1").match(WORD) ?? [];
    const groups = [], said = [];
    const about = search ? searchOf(asked, tokens) : null;
    let last = "", joins = false, negates = false;
    try {
      tokens.forEach((token, n) => {
        const follows = tokens[n + 1];
        if (token === "OR" && !search && !last) throw refused("query_or", {});
        if (token === "OR" && last && (follows || !search)) { joins = true; return; }
        if (token.toLowerCase() === "not" && follows && CONDITION.test(follows)) { negates = true; return; }
        // Somebody is still typing.
        const unfinished = !search && UNFINISHED.exec(token);
        if (unfinished && !follows) return;
        if (unfinished) throw refused("query_no_value", { name: unfinished[1] });
        const one = condition(token, about) ?? words(token);
        if (joins && (one.kind === "date" || one.kind !== last)) throw refused("query_or", {});
        const test = negates ? (run) => !one.test(run) : one.test;
        if (search && one.kind === "word") said.push(token);
        else if (joins) groups.at(-1).push(test);
        else groups.push([test]);
        [last, joins, negates] = [one.kind, false, false];
      });
    } catch (error) {
      if (error instanceof Problem) return { tests: [() => false], problem: error.message, words: "" };
      throw error;
    }
    return { tests: groups.map((group) => (run) => group.some((test) => test(run))), problem: "", words: said.join(" ") };
  }

  return { parse };
};
