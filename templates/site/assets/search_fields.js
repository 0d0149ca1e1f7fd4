// The filters of the search, and examples of what can be asked.
"use strict";

window.labbookFields = (() => {
  const MOST_CHOICES = 12; // a list to choose from; of more values, one is typed, with suggestions

  const element = (tag, classes, text) => {
    const made = document.createElement(tag);
    if (classes) made.className = classes;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  /** A filter: `label` to show, `fill(values)` once they are known, `value()` what is chosen or typed in full. */
  const filter = (name, word, any, changed) => {
    const label = element("label", "lbs__filter");
    const select = element("select");
    select.append(new Option(any, ""));
    select.addEventListener("change", changed);
    label.append(element("span", "", word), select);
    let field = null;
    let known = new Set();
    const fill = (values) => {
      if (field) return;
      field = select;
      known = new Set(values);
      label.hidden = !values.length;
      if (values.length <= MOST_CHOICES) {
        for (const value of values) select.append(new Option(value.slice(0, 60), value));
        return;
      }
      field = element("input");
      const list = element("datalist");
      list.id = `lbs-${name}`;
      list.append(...values.map((value) => new Option(value, value)));
      Object.assign(field, { type: "search", placeholder: any, autocomplete: "off", spellcheck: false });
      field.setAttribute("list", list.id);
      field.addEventListener("input", changed);
      select.replaceWith(field, list);
    };
    const value = () => (field && known.has(field.value) ? field.value : "");
    return { label, fill, value };
  };

  /** Questions to try; a click asks one. */
  const examples = (word, texts, ask) => {
    const made = element("p", "lbs__examples", word);
    for (const text of texts) {
      const button = element("button", "", text);
      button.type = "button";
      button.addEventListener("click", () => ask(text));
      made.append(" ", button);
    }
    return made;
  };

  return { filter, examples };
})();
